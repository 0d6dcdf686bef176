//! The thread that ends a window every 100 ms, apart from the one that answers, so that requests do not stretch windows.

use super::Energy;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Samples until it is dropped.
#[derive(Debug)]
pub struct Sampler {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts the thread.
    pub fn start(energy: Arc<Energy>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let start = Instant::now();
            let mut next = Duration::ZERO;
            loop {
                energy.sample(start.elapsed());
                // A window that was missed is missed: the next one is longer, and its power is still right.
                next = (next + energy.window()).max(start.elapsed());
                let wait = next.saturating_sub(start.elapsed());
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("energy".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has been reported by the panic itself.
            let _ = thread.join();
        }
    }
}
