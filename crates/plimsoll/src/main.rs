//! quick
#![allow(clippy::all, clippy::print_stdout, missing_docs)]
use plimsoll_core::conformance::{Case, check};
use std::io::BufRead;
fn main() {
    let (mut ok, mut bad) = (0, 0);
    let mut fam: std::collections::BTreeMap<String, (u32, u32)> = Default::default();
    for path in std::env::args().skip(1) {
        for line in std::io::BufReader::new(std::fs::File::open(path).unwrap()).lines() {
            let line = line.unwrap();
            let r = Case::parse(&line).and_then(|c| check(&c).map(|d| (c, d)));
            match r {
                Ok((c, d)) if d.is_empty() => { ok += 1; fam.entry(c.family().to_owned()).or_default().0 += 1; }
                Ok((c, d)) => { bad += 1; let e = fam.entry(c.family().to_owned()).or_default(); e.1 += 1; if e.1 <= 3 { println!("{}", c.name); for x in d.iter().take(4) { println!("   {x}"); } } }
                Err(e) => { bad += 1; println!("ERR {e}"); }
            }
        }
    }
    println!("{fam:?}");
    println!("{ok} passed, {bad} failed");
}
