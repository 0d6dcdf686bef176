//! `plimsoll policies`

use crate::Verdict;
use crate::output::{Output, table};
use anyhow::Result;
use plimsoll_core::policy::POLICIES;

/// List the policies that can rank nodes
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints every policy with what it does.
pub fn run(_: Args, out: &mut Output) -> Result<Verdict> {
    let mut list = table(["POLICY", "CHOOSES"], &[]);
    list.add_rows(POLICIES.iter().map(|(name, what)| [*name, *what]));
    out.table("", &list)?;
    Ok(Verdict::Good)
}
