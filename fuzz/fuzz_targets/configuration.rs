//! Configurations: a file is read or refused with its mistakes, and one that is read can be worked with.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::config::Configuration;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_fuzz::small_cluster;

fuzz_target!(|text: &str| {
    match Configuration::parse("fuzz.yaml", text) {
        Err(errors) => assert!(!errors.to_string().is_empty(), "a mistake has a text"),
        Ok(configuration) => {
            for profile in &configuration.profiles {
                let mut scheduler = Scheduler::new(&configuration, 1);
                let pod = small_cluster(&mut scheduler, &profile.scheduler_name);
                // A profile may well refuse the pod; it must not fall over it.
                scheduler.explain(pod).ok();
                scheduler.decide(pod).ok();
            }
        }
    }
});
