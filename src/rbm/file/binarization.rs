//! From numbers to units that are on or off.

use std::fmt::{self, Display, Formatter};

use rand::RngExt;
use rand_distr::OpenClosed01;

use crate::random::{Purpose, stream};

/// How the numbers of a file became units that are on or off.
///
/// The numbers themselves decide. Those that fit none of the kinds are refused.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Binarization {
    /// The numbers are 0 and 1, and were taken as they are.
    ZerosAndOnes,
    /// The numbers are 0 and 255; units are on at 255.
    BlackAndWhite,
    /// The numbers are more than two integers from 0 to 255, on both sides of 128; units are on from 128.
    Bytes,
    /// The numbers are fractions from 0 to 1, on both sides of 1/2; units are on from 1/2.
    Fractions,
    /// A threshold was given ([`DataLayout::threshold`](crate::rbm::DataLayout::threshold)).
    Given(f64),
    /// Units were drawn with their grey values as probabilities
    /// ([`DataLayout::drawn`](crate::rbm::DataLayout::drawn)).
    Drawn {
        /// The seed by which they were drawn.
        seed: u64,
        /// The number that is always on: 1 or 255.
        white: f64,
    },
}

impl Binarization {
    /// The thresholds of one number after the other: a unit is on where its number is so large, or larger.
    pub(super) fn thresholds(self) -> Box<dyn FnMut() -> f64> {
        let threshold = match self {
            Self::ZerosAndOnes => 1.0,
            Self::BlackAndWhite => 255.0,
            Self::Bytes => 128.0,
            Self::Fractions => 0.5,
            Self::Given(threshold) => threshold,
            Self::Drawn { seed, white } => {
                let mut rng = stream(seed, Purpose::Data, 0);
                return Box::new(move || white * rng.sample::<f64, _>(OpenClosed01));
            }
        };
        Box::new(move || threshold)
    }

    /// Numbers of this kind as probabilities.
    pub(super) fn drawn(self, seed: u64) -> Self {
        let white = match self {
            Self::BlackAndWhite | Self::Bytes => 255.0,
            _ => 1.0,
        };
        Self::Drawn { seed, white }
    }

    /// What numbers like these stand for. The error says which ones were seen.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Result<Self, String> {
        let seen = Seen::of(values);
        let only = |values: &[f64]| seen.few.iter().all(|x| values.contains(x));
        let across = |least: f64, threshold: f64, most: f64| {
            (least..threshold).contains(&seen.smallest)
                && (threshold..=most).contains(&seen.largest)
        };
        match &seen {
            _ if seen.not_a_number => Err("NaN among the data".into()),
            _ if only(&[0.0, 1.0]) => Ok(Self::ZerosAndOnes),
            _ if only(&[0.0, 255.0]) => Ok(Self::BlackAndWhite),
            _ if seen.integers && seen.few.len() > 2 && across(0.0, 128.0, 255.0) => {
                Ok(Self::Bytes)
            }
            _ if !seen.integers && across(0.0, 0.5, 1.0) => Ok(Self::Fractions),
            _ => Err(format!(
                "{seen}: expected zeros and ones, integers from 0 to 255 on both sides of 128, fractions from 0 to 1 \
                 on both sides of 0.5, or a threshold"
            )),
        }
    }
}

impl Display for Binarization {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZerosAndOnes => f.write_str("zeros and ones, as they are"),
            Self::BlackAndWhite => f.write_str("0 and 255, on at 255"),
            Self::Bytes => f.write_str("integers from 0 to 255, on from 128"),
            Self::Fractions => f.write_str("fractions from 0 to 1, on from 0.5"),
            Self::Given(threshold) => write!(f, "on from {threshold}"),
            Self::Drawn { seed, white } => {
                write!(
                    f,
                    "grey values, on with probability x / {white} (seed {seed})"
                )
            }
        }
    }
}

/// How many different numbers are kept, enough to tell grey images from two values.
const FEW: usize = 4;

/// What matters of the numbers of a file.
struct Seen {
    smallest: f64,
    largest: f64,
    /// The first different numbers.
    few: Vec<f64>,
    integers: bool,
    not_a_number: bool,
}

impl Seen {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut seen = Self {
            smallest: f64::INFINITY,
            largest: f64::NEG_INFINITY,
            few: Vec::new(),
            integers: true,
            not_a_number: false,
        };
        for x in values {
            seen.smallest = seen.smallest.min(x);
            seen.largest = seen.largest.max(x);
            seen.integers &= x.fract() == 0.0;
            seen.not_a_number |= x.is_nan();
            if seen.few.len() < FEW && !seen.few.contains(&x) {
                seen.few.push(x);
            }
        }
        seen
    }
}

impl Display for Seen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let few: Vec<String> = self.few.iter().map(f64::to_string).collect();
        match self.few.len() {
            FEW.. => {
                let (smallest, largest) = (self.smallest, self.largest);
                write!(
                    f,
                    "numbers from {smallest} to {largest} ({}, ..)",
                    few.join(", ")
                )
            }
            _ => write!(f, "the numbers {}", few.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Result<Binarization, String> {
        Binarization::of(values.iter().copied())
    }

    #[test]
    fn numbers_decide() {
        for (values, expected) in [
            (&[0.0, 1.0, 1.0][..], Binarization::ZerosAndOnes),
            (&[0.0], Binarization::ZerosAndOnes),
            (&[1.0], Binarization::ZerosAndOnes),
            (&[-0.0, 1.0], Binarization::ZerosAndOnes),
            (&[255.0, 0.0], Binarization::BlackAndWhite),
            (&[255.0], Binarization::BlackAndWhite),
            (&[0.0, 128.0, 3.0], Binarization::Bytes),
            (&[0.0, 1.0, 255.0], Binarization::Bytes),
            (&[0.0, 0.5], Binarization::Fractions),
            (&[0.1, 0.9, 0.3, 0.2, 1.0], Binarization::Fractions),
        ] {
            assert_eq!(of(values).unwrap(), expected, "{values:?}");
        }
    }

    #[test]
    fn what_is_in_doubt_is_refused_and_named() {
        for (values, named) in [
            (
                &[0.0, 16.0, 5.0, 3.0, 1.0][..],
                "from 0 to 16 (0, 16, 5, 3, ..)",
            ),
            (&[-1.0, 1.0], "the numbers -1, 1:"),
            (&[0.0, 2.0], "the numbers 0, 2:"),
            (&[0.0, 254.0], "the numbers 0, 254:"),
            (&[1.0, 2.0, 3.0], "the numbers 1, 2, 3:"),
            (&[0.0, 127.0, 1.0], "the numbers 0, 127, 1:"),
            (&[128.0, 200.0, 255.0], "the numbers 128, 200, 255:"),
            (&[0.0, 200.0, 256.0], "the numbers 0, 200, 256:"),
            (&[0.0, 0.25], "the numbers 0, 0.25:"),
            (&[0.75, 1.0], "the numbers 0.75, 1:"),
            (&[0.0, 0.5, 1.5], "the numbers 0, 0.5, 1.5:"),
            (&[-0.5, 0.5, 1.0], "the numbers -0.5, 0.5, 1:"),
            (&[0.0, f64::NAN], "NaN"),
            (&[0.0, f64::INFINITY], "the numbers 0, inf:"),
        ] {
            let error = of(values).unwrap_err();
            assert!(error.contains(named), "{values:?}: {error}");
        }
    }
}
