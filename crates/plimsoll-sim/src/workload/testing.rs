//! What tests of readers and writers share.

use super::Workload;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The path of a file in the tests' own folder.
pub fn path(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("plimsoll-workload-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// A file that only one test uses; a name in a folder that is not there gives a path to nothing.
pub fn file(name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = path(name);
    if path.parent().is_some_and(Path::is_dir) {
        std::fs::write(&path, content).unwrap();
    }
    path
}

pub fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Two thirds of a compressed file.
pub fn truncated_gzip(content: &str) -> Vec<u8> {
    let mut bytes = gzip(content);
    bytes.truncate(bytes.len() * 2 / 3);
    bytes
}

/// A file beside the repository, where there is one.
#[expect(clippy::print_stderr, reason = "whoever runs the tests should know what was not tested")]
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    if !path.exists() {
        eprintln!("skipped: there is no ../shared/{name}");
        return None;
    }
    Some(path)
}

/// What every workload keeps to: pods by arrival, names taken once, templates that exist and are used.
pub fn assert_sound(workload: &Workload) {
    assert!(workload.pods.is_sorted_by_key(|pod| pod.arrival), "pods are in the order of their arrival");
    let names: std::collections::BTreeSet<_> = workload.pods.iter().map(|pod| &pod.name).collect();
    assert_eq!(names.len(), workload.pods.len(), "names are taken once");
    let used: std::collections::BTreeSet<_> = workload.pods.iter().map(|pod| pod.template as usize).collect();
    assert!(used.into_iter().eq(0..workload.templates.len()), "every template exists and is used");
    for pod in &workload.pods {
        assert!(pod.lifetime.is_none_or(|lifetime| lifetime.least <= lifetime.most), "{pod:?}");
    }
}
