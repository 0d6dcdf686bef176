//! The values in the cells of a table, and what can be wrong with them.

use std::time::Duration;

/// The longest time taken: two of them, an arrival and a lifetime, still fit into 63 bits of nanoseconds (about 126 years each).
pub const MAX_SECONDS: u64 = 4_000_000_000;
/// The most CPU a pod or machine may have: a million cores.
pub const MAX_CPU_MILLI: i64 = 1_000_000_000;
/// The most memory a pod or machine may have: a pebibyte.
pub const MAX_MEMORY: i64 = 1 << 50;
/// The most GPUs a pod or machine may have.
pub const MAX_GPUS: u32 = 10_000;
/// A whole GPU.
pub const GPU_MILLI: u32 = 1000;
/// Digits of a second that a [`Duration`] can hold.
const NANO_DIGITS: usize = 9;

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind of mistake, by which skipped rows are counted.
    pub reason: Reason,
    /// The column to blame.
    pub column: Option<String>,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// A kind of mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A cell that may not be empty is.
    Missing,
    /// A cell does not hold a number.
    NotANumber,
    /// A cell holds a number below zero.
    Negative,
    /// A cell holds a number, or text, that cannot be right.
    OutOfRange,
    /// A pod ends before it began.
    DepartsBeforeArrival,
    /// The name was taken by an earlier row.
    DuplicateName,
    /// A pod asks for a machine that is not in the fleet.
    UnknownMachine,
    /// The row has more or fewer cells than there are columns.
    WrongLength,
    /// A column that no reader knows.
    UnknownColumn,
    /// Text that is not UTF-8.
    NotText,
    /// The file breaks off: what comes after cannot be read.
    Truncated,
}

impl Reason {
    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Missing => "a value is missing",
            Self::NotANumber => "not a number",
            Self::Negative => "a negative number",
            Self::OutOfRange => "out of range",
            Self::DepartsBeforeArrival => "departs before it arrives",
            Self::DuplicateName => "the name is taken",
            Self::UnknownMachine => "asks for an unknown machine",
            Self::WrongLength => "too few or too many cells",
            Self::UnknownColumn => "a column that is not known",
            Self::NotText => "not UTF-8",
            Self::Truncated => "the file breaks off",
        }
    }
}

impl Fault {
    /// Something is wrong with a column.
    pub fn new(reason: Reason, column: &str, problem: impl Into<String>) -> Self {
        Self { reason, column: Some(column.to_owned()), problem: problem.into() }
    }
}

/// A cell: its column's name and its text.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    /// The column.
    pub column: &'static str,
    /// The text, as it stands.
    pub text: &'a str,
}

impl<'a> Cell<'a> {
    /// The cell, unless it is empty.
    pub fn given(self) -> Option<Self> {
        (!self.text.trim().is_empty()).then_some(self)
    }

    /// The text, which may not be empty.
    pub fn required(self) -> Result<&'a str, Fault> {
        if self.text.is_empty() {
            return Err(self.fault(Reason::Missing, "there is nothing here; a value is needed"));
        }
        Ok(self.text)
    }

    /// A fault of this cell.
    pub fn fault(self, reason: Reason, problem: impl Into<String>) -> Fault {
        Fault::new(reason, self.column, problem)
    }

    /// A number that is finite and not negative, at most `most`.
    pub fn number(self, most: f64) -> Result<f64, Fault> {
        let text = self.required()?.trim();
        let number: f64 = text.parse().map_err(|_| self.not_a_number())?;
        if number.is_nan() {
            return Err(self.not_a_number());
        }
        if number < 0.0 {
            return Err(self.negative());
        }
        if number > most {
            return Err(self.too_large(most));
        }
        // There is but one zero.
        Ok(number + 0.0)
    }

    /// A whole number from zero to `most`.
    pub fn whole(self, most: i64) -> Result<i64, Fault> {
        let text = self.required()?.trim();
        if let Ok(number) = text.parse::<i64>() {
            return match number {
                ..0 => Err(self.negative()),
                _ if number > most => Err(self.too_large(most)),
                _ => Ok(number),
            };
        }
        // `16384.0` is as whole as `16384`, and programs write it so.
        let number = self.number(most as f64)?;
        if number.fract() != 0.0 {
            let problem = format!("{text} is not a whole number");
            return Err(self.fault(Reason::NotANumber, problem));
        }
        Ok(number as i64)
    }

    /// A whole number from zero to `most`, which fits.
    pub fn small(self, most: u32) -> Result<u32, Fault> {
        self.whole(i64::from(most)).map(|number| u32::try_from(number).unwrap_or(most))
    }

    /// A time in seconds, exact to the nanosecond.
    pub fn seconds(self) -> Result<Duration, Fault> {
        let text = self.required()?.trim();
        if let Some(time) = exact_seconds(text) {
            return if time > Duration::from_secs(MAX_SECONDS) { Err(self.too_large(MAX_SECONDS)) } else { Ok(time) };
        }
        // What is left is bad, or written as programs do: `1.8e6`.
        let number = self.number(MAX_SECONDS as f64)?;
        Duration::try_from_secs_f64(number).map_err(|_| self.not_a_number())
    }

    fn not_a_number(self) -> Fault {
        self.fault(Reason::NotANumber, format!("{:?} is not a number", self.text))
    }

    fn negative(self) -> Fault {
        self.fault(Reason::Negative, format!("{} is negative; it must be 0 or more", self.text.trim()))
    }

    fn too_large(self, most: impl std::fmt::Display) -> Fault {
        self.fault(Reason::OutOfRange, format!("{} is too large; it may be at most {most}", self.text.trim()))
    }
}

/// Seconds in plain decimals, without the detour through a binary number that would lose nanoseconds.
fn exact_seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    // Digits beyond the nanosecond are cut off.
    let mut nanos = 0;
    for at in 0..NANO_DIGITS {
        nanos = nanos * 10 + fraction.as_bytes().get(at).map_or(0, |byte| u32::from(byte - b'0'));
    }
    // More seconds than fit are too many in any case.
    Some(Duration::new(whole.parse().unwrap_or(u64::MAX), nanos))
}

/// A time as seconds, with as many digits as it has.
pub fn format_seconds(time: Duration) -> String {
    match time.subsec_nanos() {
        0 => time.as_secs().to_string(),
        nanos => format!("{}.{nanos:09}", time.as_secs()).trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cell(text: &str) -> Cell<'_> {
        Cell { column: "c", text }
    }

    #[test]
    fn bad_numbers_are_named_for_what_is_wrong() {
        let cases = [
            ("", Reason::Missing),
            ("NaN", Reason::NotANumber),
            ("-nan", Reason::NotANumber),
            ("seven", Reason::NotANumber),
            ("1,5", Reason::NotANumber),
            ("-1", Reason::Negative),
            ("-0.5", Reason::Negative),
            ("-inf", Reason::Negative),
            ("inf", Reason::OutOfRange),
            ("1e300", Reason::OutOfRange),
            ("99999999999999999999999999", Reason::OutOfRange),
            ("4000000000.1", Reason::OutOfRange),
        ];
        for (text, reason) in cases {
            assert_eq!(cell(text).seconds().map_err(|fault| fault.reason), Err(reason), "{text:?} as seconds");
            let number = cell(text).number(MAX_SECONDS as f64).map_err(|fault| fault.reason);
            assert_eq!(number, Err(reason), "{text:?} as a number");
            let whole = cell(text).whole(MAX_SECONDS as i64).map_err(|fault| fault.reason);
            assert_eq!(whole, Err(reason), "{text:?} as a whole number");
        }
        assert_eq!(cell("1.5").whole(10).map_err(|fault| fault.reason), Err(Reason::NotANumber));
    }

    #[test]
    fn numbers_may_be_written_as_programs_do() {
        assert_eq!(cell(" 16384.0 ").whole(20_000), Ok(16384));
        assert_eq!(cell("1.8e6").seconds(), Ok(Duration::from_secs(1_800_000)));
        assert_eq!(cell("0.1").seconds(), Ok(Duration::from_millis(100)));
        assert_eq!(cell("0.1234567899").seconds(), Ok(Duration::from_nanos(123_456_789)));
    }

    proptest! {
        #[test]
        fn seconds_are_read_as_they_were_written(seconds in 0..MAX_SECONDS, nanos in 0..1_000_000_000u32) {
            let time = Duration::new(seconds, nanos);
            prop_assert_eq!(cell(&format_seconds(time)).seconds(), Ok(time));
        }

        #[test]
        fn no_text_breaks_a_cell(text in ".{0,24}") {
            let _ = (cell(&text).seconds(), cell(&text).number(1e9), cell(&text).whole(9), cell(&text).small(9));
        }
    }
}
