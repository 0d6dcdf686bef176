//! Cases: any cluster and pod, however absurd, gets an answer or an error, and the state stays in order.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use plimsoll_core::conformance::{Case, check};
use plimsoll_fuzz::mutate_json;

// The macro takes nothing but a block.
#[rustfmt::skip]
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| { mutate_json(data, size, max_size, seed) });

fuzz_target!(|line: &str| {
    if let Ok(case) = Case::parse(line) {
        check(&case).ok();
    }
});
