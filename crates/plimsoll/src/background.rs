//! Work that has all else go first.

/// How urgent the work is.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Urgency {
    /// Have all else on this machine go first
    #[arg(long)]
    background: bool,
}

impl Urgency {
    /// Says so to the system, for all threads that are started from now on.
    pub fn apply(self) {
        #[cfg(target_os = "linux")]
        if self.background
            && let Err(error) = rustix::process::nice(LEAST)
        {
            tracing::warn!(%error, "the system does not let this process step back");
        }
    }
}

/// As far back as can be.
#[cfg(target_os = "linux")]
const LEAST: i32 = 19;
