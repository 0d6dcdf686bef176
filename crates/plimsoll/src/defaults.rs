//! What the API server fills in when an object is created, as far as scheduling depends on it, so that manifests can be
//! used that never were in a cluster. Objects that come from a cluster have it all.

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use plimsoll_core::conformance::Objects;

/// Priority classes every cluster has.
const SYSTEM_CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Completes every object.
pub fn complete(objects: &mut Objects, classes: &[PriorityClass]) -> Result<()> {
    objects.nodes.iter_mut().for_each(complete_node);
    objects.pods.iter_mut().try_for_each(|pod| complete_pod(pod, classes))
}

/// A node offers all it has unless it says otherwise.
fn complete_node(node: &mut Node) {
    if let Some(status) = &mut node.status
        && status.allocatable.is_none()
    {
        status.allocatable.clone_from(&status.capacity);
    }
}

fn complete_pod(pod: &mut Pod, classes: &[PriorityClass]) -> Result<()> {
    set_priority(pod, classes)?;
    let Some(spec) = &mut pod.spec else { return Ok(()) };
    let on_host = spec.host_network == Some(true);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        request_limits(container);
        if on_host {
            for port in container.ports.iter_mut().flatten() {
                port.host_port.get_or_insert(port.container_port);
            }
        }
    }
    Ok(())
}

/// A limit without a request is the request.
fn request_limits(container: &mut Container) {
    let Some(resources) = &mut container.resources else { return };
    let Some(limits) = &resources.limits else { return };
    let requests = resources.requests.get_or_insert_default();
    for (name, quantity) in limits {
        requests.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
}

fn set_priority(pod: &mut Pod, classes: &[PriorityClass]) -> Result<()> {
    let Some(spec) = &mut pod.spec else { return Ok(()) };
    if spec.priority.is_some() {
        return Ok(());
    }
    let name = spec.priority_class_name.as_deref().filter(|name| !name.is_empty());
    let class = match name {
        Some(name) => classes.iter().find(|class| class.metadata.name.as_deref() == Some(name)),
        None => classes.iter().find(|class| class.global_default == Some(true)),
    };
    match (class, name) {
        (Some(class), _) => {
            spec.priority = class.value;
            if spec.preemption_policy.is_none() {
                spec.preemption_policy.clone_from(&class.preemption_policy);
            }
        }
        (None, None) => {}
        (None, Some(name)) => match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
            Some((_, priority)) => spec.priority = Some(*priority),
            None => bail!(
                "pod {}/{}: no PriorityClass {name:?} in the cluster files; add it, or set spec.priority",
                pod.metadata.namespace.as_deref().unwrap_or_default(),
                pod.metadata.name.as_deref().unwrap_or_default()
            ),
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn completed(spec: Value, classes: Value) -> Result<Pod> {
        let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "spec": spec});
        let mut pod = serde_json::from_value(pod).unwrap();
        let classes: Vec<PriorityClass> = serde_json::from_value(classes).unwrap();
        complete_pod(&mut pod, &classes).map(|()| pod)
    }

    fn priority(spec: Value, classes: Value) -> Option<i32> {
        completed(spec, classes).unwrap().spec.unwrap().priority
    }

    #[test]
    fn priority_comes_from_the_class_unless_it_is_set() {
        let classes = json!([
            {"metadata": {"name": "high"}, "value": 1000},
            {"metadata": {"name": "usual"}, "value": 5, "globalDefault": true}]);
        assert_eq!(priority(json!({"containers": [], "priorityClassName": "high"}), classes.clone()), Some(1000));
        let both = json!({"containers": [], "priorityClassName": "high", "priority": 7});
        assert_eq!(priority(both, classes.clone()), Some(7));
        assert_eq!(priority(json!({"containers": []}), classes), Some(5));
        assert_eq!(priority(json!({"containers": []}), json!([])), None);
        let system = json!({"containers": [], "priorityClassName": "system-node-critical"});
        assert_eq!(priority(system, json!([])), Some(2_000_001_000));
    }

    #[test]
    fn an_unknown_priority_class_is_an_error_that_names_the_pod() {
        let error = completed(json!({"containers": [], "priorityClassName": "lost"}), json!([])).unwrap_err();
        assert!(error.to_string().contains("pod a/p") && error.to_string().contains("lost"), "{error}");
    }

    #[test]
    fn limits_without_requests_are_requested() {
        let resources = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        let pod = completed(json!({"containers": [{"name": "c", "resources": resources}]}), json!([])).unwrap();
        let requests = serde_json::to_value(&pod.spec.unwrap().containers[0].resources).unwrap()["requests"].take();
        assert_eq!(requests, json!({"cpu": "1", "memory": "1Gi"}));
    }

    #[test]
    fn ports_of_host_network_pods_are_host_ports() {
        let containers = json!([{"name": "c", "ports": [{"containerPort": 80}]}]);
        let pod = completed(json!({"hostNetwork": true, "containers": containers}), json!([])).unwrap();
        assert_eq!(pod.spec.unwrap().containers[0].ports.as_ref().unwrap()[0].host_port, Some(80));
    }

    #[test]
    fn a_node_without_allocatable_offers_its_capacity() {
        let mut node: Node =
            serde_json::from_value(json!({"metadata": {}, "status": {"capacity": {"cpu": "4"}}})).unwrap();
        complete_node(&mut node);
        assert_eq!(serde_json::to_value(node.status.unwrap().allocatable).unwrap(), json!({"cpu": "4"}));
    }
}
