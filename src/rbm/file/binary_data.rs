//! Data sets of zeros and ones.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use rand::RngExt;
use rand_distr::OpenClosed01;

use crate::random::{Purpose, stream};
use crate::rbm::file::array::Array;
use crate::rbm::file::{Arrays, listed};
use crate::{Error, Result};

/// Data for an RBM, from a file (feature `npz`).
///
/// ```no_run
/// use annealed::rbm::{BaseRate, BinaryData};
///
/// let training = BinaryData::read("train-images-idx3-ubyte.gz")?;
/// println!("{}", training.assumed()); // integers from 0 to 255, on from 128
/// let base = BaseRate::<f32>::from_data(500, training.rows(), 1.0)?;
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BinaryData {
    rows: Vec<Vec<bool>>,
    assumed: Binarization,
}

impl BinaryData {
    /// Reads a `.npy` file, a `.npz` file of one array, or a file in the IDX format of MNIST, each plain or compressed by gzip
    /// (below 4 GiB). The contents tell the format. The first dimension counts the rows; the others are taken together as their
    /// units. The numbers decide how they become zeros and ones ([`Binarization`]).
    ///
    /// # Errors
    /// [`Error::File`] where the file cannot be read, is of another format or not whole, has several arrays or
    /// none, or holds no rows, or where it is in doubt which numbers are ones.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_as(path, &DataLayout::default())
    }

    /// As [`read`](Self::read), with the name of the array, a threshold or a seed to draw by given.
    ///
    /// # Errors
    /// As [`read`](Self::read), and where there is no array of this name or the threshold is not finite.
    pub fn read_as(path: impl AsRef<Path>, layout: &DataLayout) -> Result<Self> {
        if let Some(Rule::From(threshold)) = layout.rule {
            Error::check_number("threshold", threshold)?;
        }
        let path = path.as_ref();
        let arrays = Arrays::read(path)?;
        Self::take(arrays, layout).map_err(|reason| Error::file(path, reason))
    }

    pub(super) fn take(arrays: Arrays, layout: &DataLayout) -> Result<Self, String> {
        let array = choose(arrays, layout.array.as_deref())?;
        let rows = array.rows()?;
        let of_data = || Binarization::of(array.values());
        let assumed = match layout.rule {
            Some(_) if array.values().any(f64::is_nan) => return Err("NaN among the data".into()),
            Some(Rule::From(threshold)) => Binarization::Provided(threshold),
            Some(Rule::Drawn(seed)) => of_data()?.drawn(seed),
            None => of_data()?,
        };
        let mut threshold = assumed.thresholds();
        let rows = rows.map(|row| row.map(|x| x >= threshold()).collect());
        Ok(Self {
            rows: rows.collect(),
            assumed,
        })
    }

    /// The rows, with the units that are on as true.
    pub fn rows(&self) -> &[Vec<bool>] {
        &self.rows
    }

    /// As [`rows`](Self::rows), without a copy.
    pub fn into_rows(self) -> Vec<Vec<bool>> {
        self.rows
    }

    /// How the file's numbers became zeros and ones, for a program to print.
    pub fn assumed(&self) -> Binarization {
        self.assumed
    }
}

/// The array of a name, or the only one.
fn choose(mut arrays: Arrays, name: Option<&str>) -> Result<Array, String> {
    let keys = arrays.keys();
    match (name, keys.as_slice()) {
        (Some(name), _) => Ok(arrays.first_of(&[name])?.1),
        (None, [key]) => Ok(arrays.first_of(&[key])?.1),
        (None, keys) => match arrays {
            Arrays::One(array) => Ok(array),
            _ => Err(format!(
                "has {}, expected one array, or the name of one",
                listed(keys)
            )),
        },
    }
}

/// Which array of a file holds the data, and how its numbers become zeros and ones.
///
/// ```no_run
/// use annealed::rbm::{BinaryData, DataLayout};
///
/// // Digits with 17 levels of grey.
/// let layout = DataLayout::default().array("x_test").threshold(8.0);
/// let data = BinaryData::read_as("digits.npz", &layout)?;
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataLayout {
    pub(super) array: Option<String>,
    pub(super) rule: Option<Rule>,
}

/// How numbers become zeros and ones, where the data do not decide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rule {
    /// By a threshold.
    From(f64),
    /// By chance, with this seed.
    Drawn(u64),
}

impl DataLayout {
    /// The name of the array, in a file that has several.
    #[must_use]
    pub fn array(mut self, name: impl Into<String>) -> Self {
        self.array = Some(name.into());
        self
    }

    /// Units are on where the number is `threshold` or more. Unless set, the data decide ([`Binarization`]).
    ///
    /// [`Binarization`]: crate::rbm::Binarization
    #[must_use]
    pub fn threshold(mut self, threshold: f64) -> Self {
        self.rule = Some(Rule::From(threshold));
        self
    }

    /// Draws each unit, with its grey value as the probability that it is on: the number itself if all are from 0 to 1, a 255th of
    /// it if they are bytes. It takes the place of a threshold. Much of what is published on MNIST draws so (Salakhutdinov and
    /// Murray 2008): their machine scores -86.4 nats a test image so, and -69.9 with pixels that are on from 128.
    #[must_use]
    pub fn drawn(mut self, seed: u64) -> Self {
        self.rule = Some(Rule::Drawn(seed));
        self
    }
}

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
    Provided(f64),
    /// Units were drawn with their grey values as probabilities ([`DataLayout::drawn`](crate::rbm::DataLayout::drawn)).
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
            Self::Provided(threshold) => threshold,
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

    /// Decides what numbers like these stand for. The error says which ones were seen.
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
            Self::Provided(threshold) => write!(f, "on from {threshold}"),
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

/// Figures of the numbers of a file.
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
