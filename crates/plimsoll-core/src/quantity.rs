//! Kubernetes quantities: `100m`, `1.5Gi`, `12e6`.
//!
//! The arithmetic reproduces apimachinery's, including what it does at the edges (which values wrap, which become
//! zero, which are capped), because a scheduler that computes a saner number decides differently from the stock one.
//! Nearly every value fits the [`Amount::Int`] form, a 64-bit integer with a decimal scale; the rest is held exactly.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use num_bigint::{BigInt, Sign};

/// Digits, and decimal exponents, beyond which a quantity is refused rather than expanded into memory.
///
/// Kubernetes has no such limit and would build the number; no real resource comes near a thousandth of it.
const MAX_DIGITS: usize = 10_000;

/// Decimal digits that always fit a 64-bit integer.
const INT_DIGITS: i32 = 18;

/// The smallest scale a quantity can have: parsing rounds up to nano units.
const NANO: i32 = -9;

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("quantity {text:?}: {problem}; write a number with an optional suffix, such as 100m, 2 or 1.5Gi")]
pub struct QuantityError {
    /// The text that was read, cut to a readable length.
    pub text: String,
    /// What is wrong with it.
    pub problem: QuantityProblem,
}

/// What is wrong with a text that was to be a quantity; the wording is that of Kubernetes where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityProblem {
    /// The text does not look like a quantity at all.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number before the suffix cannot be read.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The number has too many digits to be worked with.
    #[error("the number has more than {MAX_DIGITS} digits")]
    TooLong,
}

/// The notation a quantity was written in, which decides how it is written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `12M`
    #[default]
    DecimalSi,
    /// `12Mi`
    BinarySi,
    /// `12e6`
    DecimalExponent,
}

#[derive(Debug, Clone)]
enum Amount {
    /// `value * 10^scale`
    Int {
        value: i64,
        scale: i32,
    },
    Dec(Box<Dec>),
}

/// `unscaled * 10^-scale`, of any size.
#[derive(Debug, Clone)]
struct Dec {
    unscaled: BigInt,
    scale: i32,
}

/// An exact amount of a resource.
///
/// Equality and order are by value: `1000m == 1`.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    format: Format,
}

impl Default for Quantity {
    fn default() -> Self {
        Self::from(0)
    }
}

impl From<i64> for Quantity {
    fn from(value: i64) -> Self {
        Self { amount: Amount::Int { value, scale: 0 }, format: Format::DecimalSi }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl TryFrom<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> for Quantity {
    type Error = QuantityError;

    /// Reads a quantity of an API object; as the API server does, blanks around it are forgiven.
    fn try_from(text: &k8s_openapi::apimachinery::pkg::api::resource::Quantity) -> Result<Self, QuantityError> {
        Self::parse(text.0.trim())
    }
}

impl Quantity {
    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse(text).map_err(|problem| QuantityError { text: text.chars().take(64).collect(), problem })
    }

    /// A whole number in binary notation.
    pub fn binary(value: i64) -> Self {
        Self { format: Format::BinarySi, ..Self::from(value) }
    }

    /// The amount in whole units, rounded away from zero.
    ///
    /// A value beyond 64 bits gives what it gives in Kubernetes: depending on how it was written, zero or the low bits.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths, rounded away from zero; see [`Self::value`] for what is out of range.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    fn scaled_value(&self, target: i32) -> i64 {
        match &self.amount {
            Amount::Int { value, scale } if *scale < target => scale_down(*value, target - scale),
            Amount::Int { value, scale } => scale_up(*value, scale - target).unwrap_or_else(|wrapped| wrapped),
            Amount::Dec(dec) => dec.scaled_value(-target),
        }
    }

    /// The amount as an integer when it was written as one that fits; `1.0` and `1000m` are not.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.amount {
            Amount::Int { value, scale } if *scale >= 0 => scale_up(*value, *scale).ok(),
            _ => None,
        }
    }

    /// The nearest float, give or take the last digit.
    pub fn approximate_f64(&self) -> f64 {
        let (base, exponent) = match &self.amount {
            Amount::Int { value, scale } => (*value as f64, *scale),
            Amount::Dec(dec) => (big_to_f64(&dec.unscaled), -dec.scale),
        };
        if exponent == 0 { base } else { base * pow10_f64(exponent) }
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match &self.amount {
            Amount::Int { value, .. } => value.signum() as i32,
            Amount::Dec(dec) => match dec.unscaled.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// Whether the amount is nothing.
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// The notation the quantity will be written in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The sum, in the notation of the first operand unless that is zero.
    pub fn add(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        if let (Amount::Int { value: a, scale: sa }, Amount::Int { value: b, scale: sb }) =
            (&self.amount, &other.amount)
            && let Some((value, scale)) = add_ints((*a, *sa), (*b, *sb))
        {
            return Self { amount: Amount::Int { value, scale }, format };
        }
        let (a, b) = Dec::aligned(self.to_dec(), other.to_dec());
        let sum = Dec { unscaled: a.unscaled + b.unscaled, scale: a.scale };
        Self { amount: Amount::Dec(Box::new(sum)), format }
    }

    /// The difference, in the notation of the first operand unless that is zero.
    pub fn sub(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let negated = match &other.amount {
            Amount::Int { value, scale } => Amount::Int { value: value.wrapping_neg(), scale: *scale },
            Amount::Dec(dec) => Amount::Dec(Box::new(Dec { unscaled: -dec.unscaled.clone(), scale: dec.scale })),
        };
        let difference = self.add(&Self { amount: negated, format: other.format });
        Self { format, ..difference }
    }

    fn to_dec(&self) -> Dec {
        match &self.amount {
            Amount::Int { value, scale } => Dec { unscaled: BigInt::from(*value), scale: -scale },
            Amount::Dec(dec) => (**dec).clone(),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.amount, &other.amount) {
            (Amount::Int { value: a, scale: sa }, Amount::Int { value: b, scale: sb }) => {
                cmp_ints((*a, *sa), (*b, *sb))
            }
            _ => {
                let (a, b) = Dec::aligned(self.to_dec(), other.to_dec());
                a.unscaled.cmp(&b.unscaled)
            }
        }
    }
}

impl fmt::Display for Quantity {
    /// Writes the canonical form: no fraction, the largest suffix that loses nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let small = *self > Self::from(-1024) && *self < Self::from(1024);
        let dec = self.to_dec();
        if self.format == Format::BinarySi
            && !small
            && let Some(whole) = dec.as_whole()
        {
            let (number, times) = remove_factors(whole, 1024);
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(times as usize).copied().unwrap_or("");
            return write!(f, "{number}{suffix}");
        }
        let (mut number, times) = remove_factors(dec.unscaled, 10);
        let mut exponent = times - dec.scale;
        while exponent % 3 != 0 {
            number *= 10;
            exponent -= 1;
        }
        match self.format {
            Format::DecimalExponent if exponent != 0 => write!(f, "{number}e{exponent}"),
            Format::DecimalExponent => write!(f, "{number}"),
            // Beyond the known suffixes Kubernetes writes none, and so must we.
            _ => write!(f, "{number}{}", decimal_suffix(exponent)),
        }
    }
}

impl Dec {
    /// Both at the finer of the two scales.
    fn aligned(a: Dec, b: Dec) -> (Dec, Dec) {
        let scale = a.scale.max(b.scale);
        (a.at_finer(scale), b.at_finer(scale))
    }

    fn at_finer(mut self, scale: i32) -> Dec {
        if scale > self.scale {
            self.unscaled *= pow10(scale - self.scale);
            self.scale = scale;
        }
        self
    }

    /// The value if it has no fraction.
    fn as_whole(&self) -> Option<BigInt> {
        if self.scale <= 0 {
            return Some(&self.unscaled * pow10(-self.scale));
        }
        let divisor = pow10(self.scale);
        let quotient = &self.unscaled / &divisor;
        (&quotient * divisor == self.unscaled).then_some(quotient)
    }

    /// Rounds away from zero to `scale` decimals; the value must not be negative.
    fn rounded_up(self, scale: i32) -> Dec {
        if scale >= self.scale {
            return self.at_finer(scale);
        }
        let digits = self.unscaled.bits() / 3 + 1;
        let dropped = self.scale - scale;
        if u64::from(dropped.unsigned_abs()) > digits {
            return Dec { unscaled: BigInt::from(1), scale };
        }
        let divisor = pow10(dropped);
        let mut quotient = &self.unscaled / &divisor;
        if &quotient * divisor != self.unscaled {
            quotient += 1;
        }
        Dec { unscaled: quotient, scale }
    }

    /// The value at `target` decimals. Only positive values round away from zero: Kubernetes adds one to a
    /// truncated negative quotient as well, so `-1.5` in this form is 0.
    fn scaled_value(&self, target: i32) -> i64 {
        let dropped = self.scale - target;
        if dropped <= 0 {
            let factor = 10_i64.checked_pow(dropped.unsigned_abs()).unwrap_or(i64::MIN);
            return low_bits(&self.unscaled).wrapping_mul(factor);
        }
        if dropped < 19 && self.unscaled < BigInt::from(i64::MAX) {
            let divisor = 10_i64.pow(dropped.unsigned_abs());
            let value = low_bits(&self.unscaled);
            return value / divisor + i64::from(value % divisor != 0);
        }
        let divisor = pow10(dropped);
        let quotient = &self.unscaled / &divisor;
        let inexact = &quotient * divisor != self.unscaled;
        let floor = if inexact && self.unscaled.sign() == Sign::Minus { quotient - 1 } else { quotient };
        low_bits(&floor).wrapping_add(i64::from(inexact))
    }
}

/// The parts of a quantity's text.
struct Parts<'a> {
    positive: bool,
    /// Sign, digits and point, as written.
    number: &'a str,
    /// Digits before the point, without leading zeros; "0" when there are none.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, QuantityProblem> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let positive = !text.starts_with('-');
    let significant = unsigned.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(Parts { positive, number: "0", whole: "0", fraction: "", suffix: "" });
    }
    let (whole, rest) = significant.split_at(digits_at_start(significant));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(after) => after.split_at(digits_at_start(after)),
        None => ("", rest),
    };
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if digits_at_start(exponent) != exponent.len() {
        return Err(QuantityProblem::Format);
    }
    let number = &text[..text.len() - suffix.len()];
    Ok(Parts { positive, number, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
}

fn digits_at_start(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// The exponent a suffix stands for, of ten or, for the binary notation, of two.
fn interpret(suffix: &str) -> Option<(i32, Format)> {
    let known = match suffix {
        "" => (0, Format::DecimalSi),
        "n" => (-9, Format::DecimalSi),
        "u" => (-6, Format::DecimalSi),
        "m" => (-3, Format::DecimalSi),
        "k" => (3, Format::DecimalSi),
        "M" => (6, Format::DecimalSi),
        "G" => (9, Format::DecimalSi),
        "T" => (12, Format::DecimalSi),
        "P" => (15, Format::DecimalSi),
        "E" => (18, Format::DecimalSi),
        "Ki" => (10, Format::BinarySi),
        "Mi" => (20, Format::BinarySi),
        "Gi" => (30, Format::BinarySi),
        "Ti" => (40, Format::BinarySi),
        "Pi" => (50, Format::BinarySi),
        "Ei" => (60, Format::BinarySi),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Kubernetes keeps the low 32 bits of an exponent.
            (exponent as i32, Format::DecimalExponent)
        }
    };
    Some(known)
}

fn decimal_suffix(exponent: i32) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

fn parse(text: &str) -> Result<Quantity, QuantityProblem> {
    if text.is_empty() {
        return Err(QuantityProblem::Format);
    }
    if text.len() > MAX_DIGITS {
        return Err(QuantityProblem::TooLong);
    }
    let parts = split(text)?;
    let (exponent, format) = interpret(parts.suffix).ok_or(QuantityProblem::Suffix)?;
    let digits = (parts.whole.len() + parts.fraction.len()) as i32;
    // What the integer form can hold is decided by the number of digits, not by the value, so that it is decided alike.
    let (scale, factor, fits) = match format {
        Format::BinarySi => {
            let spare = 15 - parts.whole.len() as i32 - exponent * 3 / 10 - 1;
            (0, 1_i64 << exponent, parts.fraction.is_empty() && spare >= 0)
        }
        _ => (exponent.saturating_sub(parts.fraction.len() as i32), 1, digits <= INT_DIGITS),
    };
    if scale > MAX_DIGITS as i32 {
        return Err(QuantityProblem::TooLong);
    }
    if fits && scale >= NANO {
        let number: i64 = [parts.whole, parts.fraction].concat().parse().map_err(|_| QuantityProblem::Numeric)?;
        if let Some(value) = number.checked_mul(factor) {
            let value = if parts.positive { value } else { -value };
            return Ok(Quantity { amount: Amount::Int { value, scale }, format });
        }
    }
    parse_dec(&parts, exponent, format)
}

fn parse_dec(parts: &Parts<'_>, exponent: i32, mut format: Format) -> Result<Quantity, QuantityProblem> {
    let digits: Vec<u8> = parts.number.bytes().filter(u8::is_ascii_digit).collect();
    let mut unscaled = BigInt::parse_bytes(&digits, 10).ok_or(QuantityProblem::Numeric)?;
    let mut scale = parts.fraction.len() as i32;
    if format == Format::BinarySi {
        unscaled <<= exponent;
    } else {
        scale = scale.saturating_sub(exponent);
    }
    let mut dec = Dec { unscaled, scale };
    if dec.unscaled.sign() == Sign::NoSign {
        dec.scale = dec.scale.min(MAX_DIGITS as i32);
    } else {
        dec = dec.rounded_up(-NANO);
    }
    if format == Format::BinarySi {
        let unit = pow10(dec.scale);
        let cap = BigInt::from(i64::MAX);
        if dec.unscaled > &cap * &unit {
            dec = Dec { unscaled: cap, scale: 0 };
        } else if dec.unscaled < unit && dec.unscaled.sign() != Sign::NoSign {
            format = Format::DecimalSi;
        }
    }
    if !parts.positive {
        dec.unscaled = -dec.unscaled;
    }
    Ok(Quantity { amount: Amount::Dec(Box::new(dec)), format })
}

/// Sum of two scaled integers, unless it needs more than 64 bits.
fn add_ints((a, sa): (i64, i32), (b, sb): (i64, i32)) -> Option<(i64, i32)> {
    if b == 0 {
        return Some((a, sa));
    }
    if a == 0 {
        return Some((b, sb));
    }
    let scale = sa.min(sb);
    let a = scale_up(a, sa - scale).ok()?;
    let b = scale_up(b, sb - scale).ok()?;
    Some((a.checked_add(b)?, scale))
}

fn cmp_ints((a, sa): (i64, i32), (b, sb): (i64, i32)) -> Ordering {
    if sa == sb {
        return a.cmp(&b);
    }
    if a.signum() != b.signum() || a == 0 {
        return a.signum().cmp(&b.signum());
    }
    let size = |value: i64, scale: i32| i64::from(value.unsigned_abs().ilog10()) + i64::from(scale);
    let by_size = size(a, sa).cmp(&size(b, sb));
    if by_size != Ordering::Equal {
        return if a > 0 { by_size } else { by_size.reverse() };
    }
    // Equal in size, so the scales differ by at most 18 digits and both fit 128 bits.
    let scale = sa.min(sb);
    let widen = |value: i64, by: i32| i128::from(value) * 10_i128.pow(by.unsigned_abs());
    widen(a, sa - scale).cmp(&widen(b, sb - scale))
}

/// Divides by a power of ten, rounding away from zero.
fn scale_down(value: i64, by: i32) -> i64 {
    match 10_i64.checked_pow(by.unsigned_abs()) {
        Some(divisor) if value % divisor == 0 => value / divisor,
        Some(divisor) => value / divisor + value.signum(),
        None => value.signum(),
    }
}

/// Multiplies by a power of ten; on overflow, what Kubernetes then calls the result.
///
/// For the powers it has special code for that is the wrapped product, for all others zero.
fn scale_up(value: i64, by: i32) -> Result<i64, i64> {
    if value == 0 || by == 0 {
        return Ok(value);
    }
    let product = 10_i64.checked_pow(by.unsigned_abs()).and_then(|factor| value.checked_mul(factor));
    product.ok_or_else(|| match by {
        1 | 2 | 3 | 6 | 9 if value != i64::MIN => value.wrapping_mul(10_i64.pow(by.unsigned_abs())),
        _ => 0,
    })
}

fn pow10(exponent: i32) -> BigInt {
    BigInt::from(10).pow(exponent.unsigned_abs())
}

/// The number modulo 2^64, as a signed integer.
fn low_bits(number: &BigInt) -> i64 {
    let low = number.iter_u64_digits().next().unwrap_or(0) as i64;
    if number.sign() == Sign::Minus { low.wrapping_neg() } else { low }
}

fn remove_factors(mut number: BigInt, factor: u32) -> (BigInt, i32) {
    let mut times = 0;
    loop {
        let quotient = &number / factor;
        if number.sign() == Sign::NoSign || &quotient * factor != number {
            return (number, times);
        }
        number = quotient;
        times += 1;
    }
}

fn big_to_f64(number: &BigInt) -> f64 {
    // Its decimal text, read back, is the correctly rounded conversion.
    number.to_string().parse().unwrap_or(f64::NAN)
}

/// Powers of ten as Go computes them: two table entries multiplied, so not always the nearest float.
fn pow10_f64(exponent: i32) -> f64 {
    let exact = |n: u32| format!("1e{n}").parse::<f64>().unwrap_or(f64::INFINITY);
    let size = exponent.unsigned_abs();
    match exponent {
        0..=308 => exact(size / 32 * 32) * exact(size % 32),
        -323..=-1 => format!("1e-{}", size / 32 * 32).parse::<f64>().unwrap_or(0.0) / exact(size % 32),
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests;
