use super::*;

fn limits() -> Limits {
    Limits { cpu: 4.0, memory_mib: 64, ttl_seconds: 3600.0, ..Limits::default() }
}

fn blocker(disk_folder: Option<PathBuf>) -> Blocker {
    Blocker::new(&BlockerConfig { limits: limits(), disk_folder }, &AllowList::default()).unwrap()
}

fn request() -> BlockRequest {
    BlockRequest { cpu: 0.1, seconds: 3000.0, ttl_seconds: Some(3000.0), ..BlockRequest::default() }
}

/// Waits for something that must come; a minute without it is a test that would hang.
fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("what was waited for did not come");
}

fn ended(blocker: &Blocker, id: &str) -> BlockReport {
    until(|| blocker.get(id).unwrap().phase == Phase::Released);
    blocker.get(id).unwrap()
}

#[tokio::test]
async fn all_resources_are_occupied_and_given_back() {
    let folder = std::env::temp_dir().join(format!("plimsoll-agent-blocks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let blocker = blocker(Some(folder.clone()));
    let request = BlockRequest {
        cpu: 1.2,
        cpu_kind: CpuKind::Fibonacci,
        memory_mib: 8,
        disk_mib_per_s: 5.0,
        network_mib_per_s: 2.0,
        ..request()
    };
    let id = blocker.hold(request).await.unwrap().id;
    until(|| {
        let done = blocker.get(&id).unwrap().done;
        done.cpu_seconds > 0.0 && done.memory_mib == 8 && done.disk_mib > 0.0 && done.network_mib > 0.0
    });
    assert_eq!(blocker.report().blocks.len(), 1);
    let report = blocker.release(&id).unwrap();
    assert_eq!((report.phase, report.done.memory_mib), (Phase::Released, 0));
    assert_eq!(report.reason.as_deref(), Some("it was asked for"));
    assert_eq!(blocker.report().blocks.len(), 0);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "no file is left");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_block_ends_when_its_time_is_over() {
    let blocker = blocker(None);
    let id = blocker.hold(BlockRequest { seconds: 0.05, ..request() }).await.unwrap().id;
    assert_eq!(ended(&blocker, &id).reason.as_deref(), Some("its time is over"));
}

#[tokio::test]
async fn a_block_ends_when_its_owner_vanishes() {
    let blocker = blocker(None);
    let id = blocker.hold(BlockRequest { ttl_seconds: Some(0.05), ..request() }).await.unwrap().id;
    assert_eq!(ended(&blocker, &id).reason.as_deref(), Some("no heartbeat within ttlSeconds"));
    let error = blocker.heartbeat(&id).unwrap_err().to_string();
    assert!(error.contains("no longer held: no heartbeat"), "{error}");
}

#[tokio::test]
async fn a_heartbeat_moves_the_deadline() {
    let blocker = blocker(None);
    let id = blocker.hold(request()).await.unwrap().id;
    let deadline = || lock(&blocker.shared.state).held[&1].deadline().0;
    lock(&blocker.shared.state).held.get_mut(&1).unwrap().ends += Duration::from_secs(7200);
    let before = deadline();
    until(|| {
        blocker.heartbeat(&id).unwrap();
        deadline() > before
    });
}

#[tokio::test]
async fn all_together_stay_within_the_limits() {
    let blocker = blocker(None);
    let half = BlockRequest { memory_mib: 40, ..request() };
    let id = blocker.hold(half.clone()).await.unwrap().id;
    let error = blocker.hold(half.clone()).await.unwrap_err().to_string();
    assert!(error.contains("blocker.limits.memory_mib is 64"), "{error}");
    assert!(error.contains("40 held already"), "{error}");
    blocker.release(&id).unwrap();
    blocker.hold(half).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_occupied_is_said() {
    let blocker = blocker(None);
    let disk = BlockRequest { disk_mib_per_s: 1.0, ..request() };
    assert!(matches!(blocker.hold(disk.clone()).await, Err(BlockError::NoFolder)));
    let target = Some("10.0.0.1:9".to_owned());
    let network = BlockRequest { network_mib_per_s: 1.0, network_target: target, ..request() };
    assert!(matches!(blocker.hold(network).await, Err(BlockError::Refused(_))));
    let nowhere = self::blocker(Some("/no/such/folder".into()));
    let id = nowhere.hold(disk).await.unwrap().id;
    let reason = ended(&nowhere, &id).reason.unwrap();
    assert!(reason.contains("disk cannot be occupied"), "{reason}");
}

#[tokio::test]
async fn a_worker_that_panics_releases_everything() {
    let blocker = blocker(None);
    let other = blocker.hold(request()).await.unwrap().id;
    let panics: Job = Box::new(|_, _| panic!("as this test wants it"));
    let holds: Job = Box::new(|stop, done| load::memory(1, stop, done));
    let id = blocker.shared.start(&limits(), request(), vec![("memory", holds), ("cpu", panics)]).unwrap().id;
    for id in [id, other] {
        let reason = ended(&blocker, &id).reason.unwrap();
        assert!(reason.contains("panicked"), "{reason}");
    }
    blocker.hold(request()).await.unwrap();
}

#[tokio::test]
async fn shutting_down_releases_everything_and_holds_no_more() {
    let blocker = blocker(None);
    let ids = [blocker.hold(request()).await.unwrap().id, blocker.hold(request()).await.unwrap().id];
    blocker.shut_down();
    for id in ids {
        let report = blocker.get(&id).unwrap();
        assert_eq!((report.phase, report.reason.as_deref()), (Phase::Released, Some("the agent was shut down")));
    }
    assert!(matches!(blocker.hold(request()).await, Err(BlockError::ShuttingDown)));
}

#[tokio::test]
async fn dropping_it_stops_the_workers() {
    let blocker = blocker(None);
    blocker.hold(BlockRequest { memory_mib: 1, ..request() }).await.unwrap();
    let stop = Arc::clone(&lock(&blocker.shared.state).held[&1].stop);
    drop(blocker);
    assert!(stop.is_raised());
    assert_eq!(Arc::strong_count(&stop), 1, "no worker holds it any more");
}

#[test]
fn unknown_blocks_are_named() {
    let blocker = blocker(None);
    for id in ["", "block-1", "block-0", "block--1", "1", "block-01", "block-99999999999999999999999"] {
        let error = blocker.get(id).unwrap_err().to_string();
        assert_eq!(error, format!("there is no block {id}"));
        assert!(blocker.release(id).is_err() && blocker.heartbeat(id).is_err());
    }
}

#[tokio::test]
async fn only_the_last_that_ended_are_remembered() {
    let blocker = blocker(None);
    for _ in 0..REMEMBERED + 3 {
        let id = blocker.hold(request()).await.unwrap().id;
        blocker.release(&id).unwrap();
    }
    assert_eq!(blocker.report().ended.len(), REMEMBERED);
    assert!(matches!(blocker.get("block-1"), Err(BlockError::Unknown(_))));
}
