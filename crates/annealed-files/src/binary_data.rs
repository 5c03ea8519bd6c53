//! Data sets of zeros and ones.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use annealed::rand::RngExt;
use annealed::rand::distr::OpenClosed01;
use annealed::random::{Purpose, stream};
use annealed::{Error, Result};

use crate::array::Array;
use crate::{Arrays, listed};

/// A data set of zeros and ones, read from a file.
///
/// ```no_run
/// use annealed::rbm::BaseRate;
/// use annealed_files::BinaryData;
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
    /// Reads a `.npz` file with one array, a `.npy` file or an IDX file (MNIST), plain or gzipped (below 4 GiB). The
    /// contents determine the format. The numbers determine how they become zeros and ones ([`Binarization`]). The
    /// first dimension counts the rows; the others are flattened.
    ///
    /// # Errors
    /// [`Error::File`]: an unreadable or damaged file, another format, no rows, more than `2^20` rows of fewer than 16
    /// units, several arrays, or ambiguous numbers.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_as(path, &DataLayout::default())
    }

    /// Reads a file with the array name, threshold or seed of `layout`.
    ///
    /// # Errors
    /// Same as [`read`](Self::read); also an unknown array name, a threshold that is not finite, or a threshold that
    /// all numbers of the file reach or none reaches.
    pub fn read_as(path: impl AsRef<Path>, layout: &DataLayout) -> Result<Self> {
        if let Some(Rule::From(threshold)) = layout.rule
            && !threshold.is_finite()
        {
            return Err(Error::invalid("threshold", threshold, "a finite number"));
        }
        let path = path.as_ref();
        let arrays = Arrays::read(path)?;
        Self::take(arrays, layout).map_err(|reason| Error::file(path, reason))
    }

    pub(super) fn take(arrays: Arrays, layout: &DataLayout) -> Result<Self, String> {
        let array = choose(arrays, layout.array.as_deref())?;
        let rows = array.rows()?;
        if let Some(place) = array.values().position(f64::is_nan) {
            let row = array.row_of(place);
            return Err(format!("NaN among the data, in row {row} (counted from 0)"));
        }
        let assumed = match layout.rule {
            Some(Rule::From(threshold)) => {
                check_threshold(&array, threshold)?;
                Binarization::Provided(threshold)
            }
            Some(Rule::Drawn(seed)) => {
                let of_data = Binarization::of(array.values());
                let grey = of_data.map_err(|_| Seen::of(array.values()).not_grey());
                grey?.drawn(seed)
            }
            None => Binarization::of(array.values())?,
        };
        let mut threshold = assumed.thresholds();
        let rows = rows.map(|row| row.map(|x| x >= threshold()).collect());
        Ok(Self {
            rows: rows.collect(),
            assumed,
        })
    }

    /// Returns the rows. A unit that is on is `true`.
    pub fn rows(&self) -> &[Vec<bool>] {
        &self.rows
    }

    /// Returns the rows without a copy.
    pub fn into_rows(self) -> Vec<Vec<bool>> {
        self.rows
    }

    /// Returns the rule by which numbers became zeros and ones. A program can print it.
    pub fn assumed(&self) -> Binarization {
        self.assumed
    }
}

/// Refuses a threshold that all numbers reach or none reaches. It was probably meant for another file.
fn check_threshold(array: &Array, threshold: f64) -> Result<(), String> {
    let mut on = array.values().map(|x| x >= threshold);
    let who = match on.next() {
        Some(first) if on.any(|other| other != first) => return Ok(()),
        Some(true) => "every",
        _ => "no",
    };
    let seen = Seen::of(array.values());
    let none = match seen.few.iter().all(|x| [0.0, 1.0].contains(x)) {
        true => "; zeros and ones need none",
        false => "",
    };
    Err(format!(
        "{who} value reaches the threshold {threshold} ({seen}){none}. Choose one within the range, and convert the files \
         to one range if their ranges differ"
    ))
}

fn choose(mut arrays: Arrays, name: Option<&str>) -> Result<Array, String> {
    let keys = arrays.keys();
    match (name, keys.as_slice()) {
        (Some(name), _) => Ok(arrays.first_of(&[name])?.1),
        (None, [key]) => Ok(arrays.first_of(&[key])?.1),
        (None, keys) => match arrays {
            Arrays::One(array) => Ok(array),
            _ => Err(format!(
                "has {}, expected one array, or the name of one (FILE:ARRAY)",
                listed(keys)
            )),
        },
    }
}

/// Settings for reading data: the name of the array, and a threshold or a seed.
///
/// ```no_run
/// use annealed_files::{BinaryData, DataLayout};
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

/// A rule set by the caller: a threshold, or a random draw with this seed. By default the numbers determine the rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rule {
    From(f64),
    Drawn(u64),
}

impl DataLayout {
    /// Sets the name of the array, for a file with several.
    #[must_use]
    pub fn array(mut self, name: impl Into<String>) -> Self {
        self.array = Some(name.into());
        self
    }

    /// Sets the threshold: numbers of at least `threshold` are on. By default the numbers in the file determine which
    /// are on ([`Binarization`]).
    #[must_use]
    pub fn threshold(mut self, threshold: f64) -> Self {
        self.rule = Some(Rule::From(threshold));
        self
    }

    /// Draws each unit at random: it is on with its grey value as the probability. The grey value of a byte is the byte
    /// divided by 255; other numbers are grey values themselves (Salakhutdinov and Murray 2008).
    #[must_use]
    pub fn drawn(mut self, seed: u64) -> Self {
        self.rule = Some(Rule::Drawn(seed));
        self
    }
}

/// The rule by which the numbers of a file became units that are on or off. Numbers that fit no rule are refused.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Binarization {
    /// Only 0 and 1, which are kept.
    ZerosAndOnes,
    /// Only 0 and 255; a unit is on at 255.
    BlackAndWhite,
    /// More than two distinct integers from 0 to 255, on both sides of 128; a unit is on from 128.
    Bytes,
    /// Fractions from 0 to 1, on both sides of 1/2; a unit is on from 1/2.
    Fractions,
    /// A given threshold ([`DataLayout::threshold`](crate::DataLayout::threshold)).
    Provided(f64),
    /// A random draw with grey values as probabilities ([`DataLayout::drawn`](crate::DataLayout::drawn)).
    Drawn {
        /// Seed of the draw.
        seed: u64,
        /// Number at which a unit is always on: 1 or 255.
        white: f64,
    },
}

impl Binarization {
    /// Returns a function whose calls return the threshold of each number in turn. A unit is on if its number is at
    /// least its threshold.
    pub(super) fn thresholds(self) -> Box<dyn FnMut() -> f64> {
        let threshold = match self {
            Self::ZerosAndOnes => 1.0,
            Self::BlackAndWhite => 255.0,
            Self::Bytes => 128.0,
            Self::Fractions => 0.5,
            Self::Provided(threshold) => threshold,
            Self::Drawn { seed, white } => {
                let mut rng = stream(seed, Purpose::DATA, 0);
                return Box::new(move || white * rng.sample::<f64, _>(OpenClosed01));
            }
        };
        Box::new(move || threshold)
    }

    pub(super) fn drawn(self, seed: u64) -> Self {
        let white = match self {
            Self::BlackAndWhite | Self::Bytes => 255.0,
            _ => 1.0,
        };
        Self::Drawn { seed, white }
    }

    pub(super) fn of(values: impl Iterator<Item = f64>) -> Result<Self, String> {
        let seen = Seen::of(values);
        let only = |values: &[f64]| seen.few.iter().all(|x| values.contains(x));
        let across = |least: f64, threshold: f64, most: f64| {
            (least..threshold).contains(&seen.smallest)
                && (threshold..=most).contains(&seen.largest)
        };
        match &seen {
            _ if only(&[0.0, 1.0]) => Ok(Self::ZerosAndOnes),
            _ if only(&[0.0, 255.0]) => Ok(Self::BlackAndWhite),
            _ if seen.integers && seen.few.len() > 2 && across(0.0, 128.0, 255.0) => {
                Ok(Self::Bytes)
            }
            _ if !seen.integers && across(0.0, 0.5, 1.0) => Ok(Self::Fractions),
            _ => Err(format!(
                "{seen}: expected zeros and ones, integers from 0 to 255 on both sides of 128, fractions from 0 to 1 \
                 on both sides of 0.5, or a threshold{}",
                seen.middle()
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
                    "grey values from 0 to {white}, drawn with the grey value as the probability (seed {seed})"
                )
            }
        }
    }
}

/// Advice for data of -1 and 1.
const SPINS: &str = "such as 0 (--threshold 0). A machine trained on units of -1 and 1 has to be converted, too: weights 4 W, \
    hidden biases 2 a - 2 W 1, visible biases 2 b - 2 W' 1, and a constant added to log Z (annealed manual, \"Spins of -1 \
    and 1\")";

/// Number of distinct values that `Seen` keeps. It suffices to distinguish grey images from data with two values.
const FEW: usize = 4;

struct Seen {
    smallest: f64,
    largest: f64,
    few: Vec<f64>,
    integers: bool,
}

impl Seen {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut seen = Self {
            smallest: f64::INFINITY,
            largest: f64::NEG_INFINITY,
            few: Vec::new(),
            integers: true,
        };
        for x in values {
            seen.smallest = seen.smallest.min(x);
            seen.largest = seen.largest.max(x);
            seen.integers &= x.fract() == 0.0;
            if seen.few.len() < FEW && !seen.few.contains(&x) {
                seen.few.push(x);
            }
        }
        seen
    }
}

impl Seen {
    /// Says which grey values can be drawn.
    fn not_grey(&self) -> String {
        let largest = self.largest;
        let divide = match (0.0..0.5 * largest).contains(&self.smallest)
            && largest > 1.0
            && largest.is_finite()
        {
            true => format!(": divide these by {largest}, say"),
            false => String::new(),
        };
        format!(
            "{self}: expected grey values to draw from, integers from 0 to 255 on both sides of 128 or fractions from 0 to 1 \
             on both sides of 0.5{divide}"
        )
    }

    /// Suggests the threshold halfway between the smallest and the largest number, if it is useful. For data of -1 and
    /// 1 the text also explains how to convert the machine.
    fn middle(&self) -> String {
        let (smallest, largest) = (self.smallest, self.largest);
        let middle = 0.5 * (smallest + largest);
        let are_spins = (smallest, largest) == (-1.0, 1.0);
        match middle.is_finite() && smallest < largest && (smallest >= 0.0 || are_spins) {
            true if are_spins => format!(", {SPINS}"),
            true => format!(", such as {middle}, halfway (--threshold {middle})"),
            false => String::new(),
        }
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
        let error = of(&[0.0, 16.0, 5.0]).unwrap_err();
        assert!(error.contains("--threshold 8)"), "{error}");
    }
}
