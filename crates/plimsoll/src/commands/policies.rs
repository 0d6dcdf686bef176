//! `plimsoll policies`

use crate::Verdict;
use crate::output::{Output, table};
use anyhow::Result;
use plimsoll_core::policy::POLICIES;
use plimsoll_learn::policy::{ABOUT_MULTI_OBJECTIVE, MULTI_OBJECTIVE};

/// List the policies that can rank nodes
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints every policy with what it does.
pub fn run(_: Args, out: &mut Output) -> Result<Verdict> {
    let mut list = table(["POLICY", "CHOOSES"], &[]);
    list.add_rows(POLICIES.iter().map(|(name, what)| [*name, *what]));
    list.add_row([MULTI_OBJECTIVE, ABOUT_MULTI_OBJECTIVE]);
    out.table("", &list)?;
    Ok(Verdict::Good)
}
