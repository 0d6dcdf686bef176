//! Variables of the environment that set numbers.

use crate::error::LearnError;

/// How a variable is looked up.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of the process.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The number that a variable sets, from zero up; none if it is not set.
pub fn number(name: &str, lookup: Lookup<'_>) -> Result<Option<f64>, LearnError> {
    let Some(text) = lookup(name) else { return Ok(None) };
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
        _ => Err(LearnError::Invalid(format!("{name} is {text:?}; it must be a number from 0 up"))),
    }
}
