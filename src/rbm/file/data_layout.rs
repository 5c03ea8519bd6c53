//! What to take from a file of data.

/// Which array of a file holds the data, and from which number on a unit is on.
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
    pub(super) threshold: Option<f64>,
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
        self.threshold = Some(threshold);
        self
    }
}
