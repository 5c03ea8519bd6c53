//! What to take from a file of data.

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

    /// Each unit is drawn, with its grey value as the probability that it is on: the number itself if all are from 0 to
    /// 1, a 255th of it if they are bytes. It takes the place of a threshold.
    ///
    /// Much of what is published on MNIST draws so (Salakhutdinov and Murray 2008), and the two are far apart: the
    /// machine of that paper scores -86.4 nats a test image where pixels are drawn, as published, and -69.9 where those
    /// from 128 on are on.
    #[must_use]
    pub fn drawn(mut self, seed: u64) -> Self {
        self.rule = Some(Rule::Drawn(seed));
        self
    }
}
