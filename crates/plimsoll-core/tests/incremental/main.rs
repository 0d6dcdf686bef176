//! Incremental equals recomputed: after any sequence of events every count and every decision is what a state built from
//! scratch, out of the objects that are there, would have.
//!
//! `PROPTEST_CASES` sets the number of cases. A failing sequence is reduced, printed, and kept in `regressions.txt`
//! beside this file, from where it is tried first in every later run.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

mod compare;
mod engine;
mod events;
mod failures;
mod objects;
mod universe;
mod world;

use engine::Engine;
use events::{Event, TEMPLATES, any_beginning, any_event};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use universe::any_pod;
use world::World;

/// Cases without `PROPTEST_CASES`: what a developer waits for.
const CASES: u32 = 500;

fn settings() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/incremental/regressions.txt");
    ProptestConfig {
        cases: cases.unwrap_or(CASES),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn every_count_and_decision_equals_that_of_a_state_built_from_scratch(
        templates in prop::collection::vec(any_pod(), TEMPLATES),
        beginning in any_beginning(),
        events in prop::collection::vec(any_event(), 1..100),
        pods_first: bool,
    ) {
        let (mut world, mut engine) = (World::new(templates), Engine::new());
        for event in beginning.iter().chain(&events).chain([&Event::Compare]) {
            world.happen(event, &mut engine).map_err(TestCaseError::fail)?;
            if let Event::Compare = event {
                compare::compare(&world, &mut engine, pods_first).map_err(TestCaseError::fail)?;
            }
        }
    }
}
