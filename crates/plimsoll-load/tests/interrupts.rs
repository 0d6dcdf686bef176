//! Ctrl-C belongs to whoever runs load, not to goose. It has a process of its own: handlers of signals are those of a process.

use plimsoll_load::{Limits, Live, Scenario, keep_interrupts, run};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

#[tokio::test(flavor = "multi_thread")]
async fn interrupts_reach_those_who_asked_for_them_during_a_run_and_after() {
    keep_interrupts();
    let mut interrupt = signal(SignalKind::interrupt()).unwrap();
    let raise = || {
        let raised = std::process::Command::new("kill").args(["-INT", &std::process::id().to_string()]).status();
        assert!(raised.unwrap().success());
    };
    let text = "name = 'x'\ntarget = 'http://127.0.0.1:1'\nusers = 1\nseconds = 600\n[[transactions]]\nname = 'x'\nrequests = [{ path = '/' }]";
    let scenario = Scenario::parse("x.toml", text).unwrap();
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(async move { run(&scenario, &Limits::default(), &Live::new(), stopped).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    // A second one would have goose end the process.
    for _ in 0..2 {
        raise();
        tokio::time::timeout(Duration::from_secs(5), interrupt.recv()).await.unwrap();
    }
    assert!(!running.is_finished(), "who is interrupted decides what ends");
    stop.send(true).unwrap();
    running.await.unwrap().unwrap();
    raise();
    tokio::time::timeout(Duration::from_secs(5), interrupt.recv()).await.unwrap();
}
