//! What a user may get wrong: it is said which file and what to do, and nothing is started.

use std::process::Command;

/// Runs a scheduler that cannot work; what it says.
fn refused(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.arg("run").args(arguments).args(["--listen", "off"]).env("NO_COLOR", "1").env_remove("KUBECONFIG");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

fn file(name: &str, text: &str) -> String {
    let folder = std::env::temp_dir().join(format!("plimsoll-live-input-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn mistakes_are_named_before_anything_is_started() {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let unknown = file("unknown.yaml", &format!("{head}profile: []\n"));
    let broken = file("broken.yaml", &format!("{head}profiles: [\n"));
    let plugin =
        file("plugin.yaml", &format!("{head}profiles: [{{plugins: {{score: {{enabled: [{{name: Nothing}}]}}}}}}]\n"));
    let two = file("two.yaml", &format!("{head}profiles: [{{schedulerName: a}}, {{schedulerName: b}}]\n"));
    let not_kubeconfig = file("kubeconfig", "nothing: here\n");
    let nobody = file(
        "nobody",
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
         contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n",
    );
    for (arguments, expected) in [
        (vec!["--config", &unknown], vec!["unknown.yaml", "profile"]),
        (vec!["--config", &broken], vec!["broken.yaml"]),
        (vec!["--config", &plugin], vec!["plugin.yaml", "Nothing"]),
        (vec!["--config", "/no/such/file.yaml"], vec!["/no/such/file.yaml"]),
        (vec!["--config", &two, "--scheduler-name", "c"], vec!["--scheduler-name", "2"]),
        (vec!["--kubeconfig", "/no/such/kubeconfig"], vec!["/no/such/kubeconfig"]),
        (vec!["--kubeconfig", &not_kubeconfig], vec!["kubeconfig"]),
        (vec!["--kubeconfig", &nobody], vec!["API server at http://127.0.0.1:1/ does not answer"]),
        (vec!["--kubeconfig", &nobody, "--context", "other"], vec!["other"]),
        (vec!["--policy", "no-such-policy"], vec!["no-such-policy"]),
        (vec!["--policy", "other=best-fit"], vec!["no profile \"other\""]),
    ] {
        let said = refused(&arguments);
        for words in expected {
            assert!(said.contains(words), "plimsoll run {arguments:?}: expected {words:?} in:\n{said}");
        }
    }
    std::fs::remove_dir_all(std::path::Path::new(&nobody).parent().unwrap()).unwrap();
}
