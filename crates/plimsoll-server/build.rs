//! Has the program built anew when its dashboard was.

/// Where `make web` builds the dashboard.
const DASHBOARD: &str = "../../web/dist";

fn main() {
    // What is not there cannot be watched; where it cannot be made, the program is built without a dashboard.
    let _ = std::fs::create_dir_all(DASHBOARD);
    println!("cargo::rerun-if-changed={DASHBOARD}");
}
