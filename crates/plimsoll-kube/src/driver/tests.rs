use super::*;
use crate::api::Api;
use crate::fence::Fence;
use crate::record::Recorder;
use crate::testing::{Answer, answering};
use plimsoll_core::config::Configuration;
use serde_json::{Value, json};
use std::sync::Mutex;
use tokio::runtime::Handle;

/// A driver that leads, on a server that grants everything.
struct Site {
    inbox: Inbox,
    asked: Arc<Mutex<Vec<String>>>,
    metrics: Arc<Metrics>,
}

impl Site {
    fn new(max_in_flight: usize) -> Self {
        let (client, asked) = answering(|_, _, body| {
            let mut answer = body.clone();
            answer["metadata"]["resourceVersion"] = json!("9");
            Answer::Given(200, answer.to_string())
        });
        let (inbox, receiver) = Inbox::new();
        let metrics = Arc::new(Metrics::new());
        let api = Api::new(client, Fence::open());
        let (recorder, _) = Recorder::new(&api, &inbox, Arc::clone(&metrics), "host");
        let outbox = Outbox::new(api, inbox.clone(), Handle::current(), recorder, Arc::clone(&metrics));
        let seconds = Duration::from_secs;
        let patience = Patience { volumes: seconds(600), devices: seconds(600) };
        let settings = Settings {
            kinds: 0,
            max_in_flight,
            patience: FxHashMap::from_iter([("default-scheduler".to_owned(), patience)]),
            world: World::new(Vec::new()),
            policies: Vec::new(),
            shadow: None,
            tracer: None,
            critic: None,
        };
        let engine = Engine::new(&Configuration::default(), 1);
        let driver = Driver::new(engine, outbox, Arc::clone(&metrics), settings, oneshot::channel().0);
        tokio::spawn(driver.run(receiver));
        Self { inbox, asked, metrics }
    }

    async fn lead(&self) {
        self.inbox.send(Input::Leads(true)).await.unwrap();
    }

    async fn apply(&self, object: Object) {
        self.inbox.send(Input::Event(Event::Apply(object))).await.unwrap();
    }

    async fn in_flight(&self) -> usize {
        self.inbox.ask(Question::Counts).await.unwrap().in_flight
    }

    /// Waits until a request was made whose line ends like this.
    async fn hears(&self, end: &str) {
        for _ in 0..1000 {
            if self.asked.lock().unwrap().iter().any(|asked| asked.ends_with(end)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody asked for {end}: {:?}", self.asked.lock().unwrap());
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node() -> Object {
    node_named("n")
}

fn node_named(name: &str) -> Object {
    let allocatable = json!({ "cpu": "64", "memory": "64Gi", "pods": "100" });
    Object::Node(read(json!({ "metadata": { "name": name }, "status": { "allocatable": allocatable } })))
}

fn pod(name: &str, claims: Value, volumes: Value) -> Pod {
    read(json!({ "metadata": { "name": name, "namespace": "d", "uid": name },
        "spec": { "containers": [{ "name": "c" }], "resourceClaims": claims, "volumes": volumes } }))
}

/// A pod whose volume a controller has to make, with its claim and class.
fn with_volume(name: &str) -> [Object; 3] {
    let class = json!({ "metadata": { "name": "slow" }, "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer" });
    let spec = json!({ "storageClassName": "slow", "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } } });
    let metadata = json!({ "name": name, "namespace": "d", "uid": format!("v-{name}"), "resourceVersion": "1" });
    let claim = json!({ "metadata": metadata, "spec": spec });
    let volumes = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": name } }]);
    let pod = pod(name, json!([]), volumes);
    [Object::StorageClass(read(class)), Object::PersistentVolumeClaim(read(claim)), Object::Pod(Box::new(pod))]
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_for_volumes_keep_nobody_from_being_bound() {
    let site = Site::new(1);
    site.apply(node()).await;
    for object in with_volume("first").into_iter().chain(with_volume("second")) {
        site.apply(object).await;
    }
    site.lead().await;
    site.hears("PATCH /api/v1/namespaces/d/persistentvolumeclaims/first").await;
    site.hears("PATCH /api/v1/namespaces/d/persistentvolumeclaims/second").await;
    site.apply(Object::Pod(Box::new(pod("plain", json!([]), json!([]))))).await;
    site.hears("POST /api/v1/namespaces/d/pods/plain/binding").await;
    assert_eq!(site.in_flight().await, 2, "both wait for their volumes");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_is_waited_for_no_longer() {
    for told_of in ["deletion", "removal"] {
        let site = Site::new(8);
        site.apply(node()).await;
        let [class, claim, pod] = with_volume("web");
        for object in [class, claim, pod.clone()] {
            site.apply(object).await;
        }
        site.lead().await;
        site.hears("PATCH /api/v1/namespaces/d/persistentvolumeclaims/web").await;
        // What came of the write is taken in before the next question.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(site.in_flight().await, 1);
        let event = match (told_of, pod) {
            ("deletion", Object::Pod(mut pod)) => {
                pod.metadata.deletion_timestamp = Some(read(json!("2026-01-01T00:00:00Z")));
                Event::Apply(Object::Pod(pod))
            }
            (_, pod) => Event::Delete(pod),
        };
        site.inbox.send(Input::Event(event)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(site.in_flight().await, 0, "after {told_of}");
        let text = site.metrics.text();
        let step = r#"extension_point="PreBind",status="Error",profile="default-scheduler"} 1"#;
        assert!(text.contains(step), "{text}");
    }
}

/// A node with a device that has to be attached, and a pod that claims it.
fn with_device() -> Vec<Object> {
    let pool = json!({ "name": "n", "generation": 1, "resourceSliceCount": 1 });
    let device = json!({ "name": "g0", "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"] });
    let slice = json!({ "driver": "x.example.com", "nodeName": "n", "pool": pool, "devices": [device] });
    let claims = json!([{ "name": "c", "resourceClaimName": "c" }]);
    vec![
        node(),
        Object::DeviceClass(read(json!({ "metadata": { "name": "gpu" }, "spec": {} }))),
        Object::ResourceSlice(read(json!({ "metadata": { "name": "s" }, "spec": slice }))),
        Object::ResourceClaim(read(claim())),
        Object::Pod(Box::new(pod("web", claims, json!([])))),
    ]
}

fn claim() -> Value {
    let exactly = json!({ "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 });
    let metadata = json!({ "name": "c", "namespace": "d", "uid": "c", "resourceVersion": "1" });
    json!({ "metadata": metadata, "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } } })
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_when_its_devices_are_ready() {
    for (condition, is_bound) in [("attached", true), ("broken", false)] {
        let site = Site::new(8);
        for object in with_device() {
            site.apply(object).await;
        }
        site.lead().await;
        let status = "PUT /apis/resource.k8s.io/v1/namespaces/d/resourceclaims/c/status";
        site.hears(status).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let binding = "POST /api/v1/namespaces/d/pods/web/binding";
        let is_asked = |line: &str| site.asked.lock().unwrap().iter().any(|asked| asked == line);
        assert!(!is_asked(binding), "the device is not attached yet");
        let mut told = claim();
        told["metadata"]["resourceVersion"] = json!("10");
        let result = json!({ "request": "r", "driver": "x.example.com", "pool": "n", "device": "g0",
            "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"] });
        let condition = json!({ "type": condition, "status": "True", "reason": "r", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let device = json!({ "driver": "x.example.com", "pool": "n", "device": "g0", "conditions": [condition] });
        told["status"] = json!({
            "allocation": { "devices": { "results": [result] } },
            "devices": [device],
            "reservedFor": [{ "resource": "pods", "name": "web", "uid": "web" }],
        });
        site.apply(Object::ResourceClaim(read(told))).await;
        if is_bound {
            site.hears(binding).await;
        } else {
            site.hears("PATCH /apis/resource.k8s.io/v1/namespaces/d/resourceclaims/c/status").await;
            assert!(!is_asked(binding), "the device is broken");
        }
    }
}
