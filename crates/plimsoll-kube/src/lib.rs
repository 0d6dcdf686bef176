//! The live driver: the engine at work on a real cluster. Watches become events, attempts become writes; there are no scheduling rules here.

pub mod advise;
pub mod api;
pub mod asked;
pub mod clock;
pub mod driver;
pub mod explained;
pub mod extender;
pub mod fence;
pub mod flight;
pub mod lease;
pub mod metrics;
pub mod outbox;
pub mod owner;
pub mod reasons;
pub mod record;
pub mod remote;
pub mod review;
pub mod rights;
pub mod run;
pub mod said;
pub mod shadow;
pub mod survey;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod twin;
pub mod watch;
pub mod world;
