use super::*;
use crate::api::Api;
use crate::fence::Fence;
use crate::record::Recorder;
use crate::testing::{Answer, answering};
use plimsoll_core::config::Configuration;
use serde_json::{Value, json};
use std::collections::VecDeque;
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
        Self::with_extenders(max_in_flight, None)
    }

    fn with_extenders(max_in_flight: usize, extenders: Option<Extenders>) -> Self {
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
            extenders,
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

/// An extender that gives these answers by verb, and notes what it was asked; its settings.
async fn extender(answers: Value) -> (plimsoll_core::config::Extender, Arc<Mutex<VecDeque<(String, Value)>>>) {
    // Where several could do the cryptography, it has to be said who does.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let asked: Arc<Mutex<VecDeque<(String, Value)>>> = Arc::default();
    let notes = Arc::clone(&asked);
    let answer = move |axum::extract::Path(verb): axum::extract::Path<String>, body: String| {
        let answer = answers.get(&verb).map(Value::to_string);
        notes.lock().unwrap().push_back((verb, serde_json::from_str(&body).unwrap()));
        async move { answer.ok_or(http::StatusCode::INTERNAL_SERVER_ERROR) }
    };
    let router = axum::Router::new().route("/x/{verb}", axum::routing::post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url_prefix = format!("http://{}/x/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n- urlPrefix: {url_prefix}\n"
    );
    let mut configuration = Configuration::parse("test", &text).unwrap();
    (configuration.extenders.remove(0), asked)
}

async fn site_with(settings: &[plimsoll_core::config::Extender]) -> Site {
    let site = Site::with_extenders(8, Extenders::new(settings).await.unwrap());
    for name in ["a", "b", "c"] {
        site.apply(node_named(name)).await;
    }
    site.apply(Object::Pod(Box::new(pod("web", json!([]), json!([]))))).await;
    site.lead().await;
    site
}

#[tokio::test]
async fn extenders_refuse_nodes_rank_what_is_left_and_bind() {
    let (mut settings, asked) = extender(json!({
        "filter": { "nodenames": ["a", "b"], "failedNodes": { "c": "too hot" } },
        "prioritize": [{ "Host": "a", "Score": 0 }, { "Host": "b", "Score": 10 }],
        "bind": { "Error": "" },
    }))
    .await;
    settings.filter_verb = "filter".into();
    settings.prioritize_verb = "prioritize".into();
    settings.bind_verb = "bind".into();
    (settings.weight, settings.node_cache_capable) = (100, true);
    let site = site_with(&[settings]).await;
    for _ in 0..500 {
        if asked.lock().unwrap().len() == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let asked: Vec<_> = asked.lock().unwrap().iter().cloned().collect();
    let [(filter, about), (prioritize, left), (bind, binding)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!([filter, prioritize, bind], ["filter", "prioritize", "bind"]);
    assert_eq!(about["NodeNames"], json!(["a", "b", "c"]));
    assert_eq!(about["Pod"]["metadata"]["name"], json!("web"));
    assert_eq!(left["NodeNames"], json!(["a", "b"]));
    assert_eq!(*binding, json!({ "PodName": "web", "PodNamespace": "d", "PodUID": "web", "Node": "b" }));
    assert!(!site.asked.lock().unwrap().iter().any(|asked| asked.ends_with("/binding")), "the extender binds");
}

#[tokio::test]
async fn a_pod_that_an_extender_wants_nowhere_waits_for_its_reasons() {
    let why = json!({ "a": "too hot", "b": "too hot" });
    let answer =
        json!({ "Nodes": { "items": [] }, "FailedNodes": why, "FailedAndUnresolvableNodes": { "c": "no gpu" } });
    let (mut settings, asked) = extender(json!({ "filter": answer })).await;
    settings.filter_verb = "filter".into();
    let site = site_with(&[settings]).await;
    site.hears("PATCH /api/v1/namespaces/d/pods/web/status").await;
    let waiting = site.inbox.ask(Question::Pending).await.unwrap();
    let message = waiting[0].message.clone().unwrap();
    assert!(message.starts_with("0/3 nodes are available: 1 no gpu, 2 too hot."), "{message}");
    let (_, about) = asked.lock().unwrap()[0].clone();
    assert_eq!(about["Nodes"]["items"].as_array().unwrap().len(), 3, "it is sent the nodes themselves");
}

#[tokio::test]
async fn what_an_extender_fails_at_fails_the_attempt_unless_it_is_ignorable() {
    for is_ignorable in [false, true] {
        let (mut settings, _) = extender(json!({})).await;
        settings.filter_verb = "filter".into();
        settings.ignorable = is_ignorable;
        let site = site_with(&[settings]).await;
        if is_ignorable {
            site.hears("POST /api/v1/namespaces/d/pods/web/binding").await;
        } else {
            site.hears("PATCH /api/v1/namespaces/d/pods/web/status").await;
            assert!(site.metrics.text().contains(r#"result="error",profile="default-scheduler"} 1"#));
        }
    }
}

#[tokio::test]
async fn extenders_hear_only_of_pods_that_ask_for_what_they_manage() {
    let (mut settings, asked) = extender(json!({})).await;
    settings.filter_verb = "filter".into();
    let name = "example.com/gpu".to_owned();
    settings.managed_resources =
        vec![plimsoll_core::config::ExtenderManagedResource { name, ignored_by_scheduler: true }];
    let site = site_with(&[settings.clone()]).await;
    site.hears("POST /api/v1/namespaces/d/pods/web/binding").await;
    assert!(asked.lock().unwrap().is_empty());
    settings.preempt_verb = "preempt".into();
    let error = Extenders::new(&[settings]).await.err().unwrap().to_string();
    assert!(error.contains("preemptVerb is not supported; remove it"), "{error}");
}
