//! The load generator: users of a service as a scenario describes them, what they had to wait for, and what went wrong. It runs a scenario
//! file ([`run`]) or serves REST ([`serve`]); `goose` starts the users, holds them to the plan and sends their requests. It knows nothing
//! of scheduling: what it measures is what a placement is worth to those who use the service.

mod figures;
mod limits;
mod live;
mod metrics;
mod plan;
mod report;
mod run;
mod scenario;
mod service;
mod user;

pub use figures::{Figures, LatencyMs};
pub use limits::{Limits, LimitsError};
pub use live::{LONGEST_WINDOW, Live, Named, Summary};
pub use plimsoll_agent::http::{Token, TokenError, may_listen};
pub use report::{Ended, Report, Second};
pub use run::{RunError, keep_interrupts, run};
pub use scenario::{Request, Scenario, ScenarioError, Stage, Think, Transaction};
pub use service::{RunStatus, Service, State, serve};
