//! Deep Boltzmann machines from files.

use std::path::Path;

use annealed::rbm::{DeepBoltzmann, Scalar};
use annealed::{Error, Result};

use crate::parameters::{Square, WHICH_WAY, vector};
use crate::{Arrays, check_size};

/// The names of a [`DeepBoltzmann`] machine's parameters in a file, from the bottom to the top.
///
/// Layer l has M_l units. Weights are M_l x M_(l-1), as in PyTorch's `nn.Linear`, or all of them are transposed. The
/// lengths of the biases show which. If all layers have the same size, set the orientation. Python writes a file by
///
/// ```text
/// numpy.savez("deep.npz", W1=W1, W2=W2, b=b, a1=a1, a2=a2)
/// ```
///
/// ```no_run
/// use annealed_files::{DeepLayout, read_deep};
///
/// // The names of Salakhutdinov's MATLAB code.
/// let layout = DeepLayout::new(["vishid", "hidpen"]).biases(["visbiases", "hidbiases", "penbiases"]);
/// let deep = read_deep::<f32>("deep.npz", &layout)?;
/// # drop(deep);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeepLayout {
    weights: Vec<String>,
    biases: Vec<String>,
    square: Square,
}

impl DeepLayout {
    /// Creates the layout of a file whose weights have these names, and whose biases are `b` (of the visible units),
    /// `a1`, `a2`, ...
    pub fn new(weights: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let weights: Vec<String> = weights.into_iter().map(Into::into).collect();
        let above = (1..=weights.len()).map(|l| format!("a{l}"));
        Self {
            biases: std::iter::once("b".to_owned()).chain(above).collect(),
            weights,
            square: Square::default(),
        }
    }

    /// Sets the names of the biases, starting with the biases of the visible units.
    #[must_use]
    pub fn biases(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.biases = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the orientation of square weights to M_(l-1) x M_l, as in a `Linear` of burn.
    #[must_use]
    pub fn square_transposed(mut self) -> Self {
        self.square = Square::Transposed;
        self
    }

    /// Sets the orientation of square weights to M_l x M_(l-1).
    #[must_use]
    pub fn square_untransposed(mut self) -> Self {
        self.square = Square::Untransposed;
        self
    }
}

const NAMES_OF_BIASES: &str = "name all biases from the visible units up (--biases b,a1,a2)";

/// Reads a deep Boltzmann machine from a `.npz` or `.safetensors` file.
///
/// # Errors
/// [`Error::File`] with path and key, same as [`RbmFile::read`](crate::RbmFile::read); a layer without names, or more
/// names than layers.
pub fn read_deep<T: Scalar>(
    path: impl AsRef<Path>,
    layout: &DeepLayout,
) -> Result<DeepBoltzmann<T>> {
    let path = path.as_ref();
    let (layers, biases) = (layout.weights.len(), layout.biases.len());
    if layers == 0 {
        return Err(Error::invalid(
            "names of weights",
            "none",
            "one for each layer",
        ));
    }
    check_size("names of biases", biases, layers + 1)?;
    let mut arrays = Arrays::read(path)?;
    take(&mut arrays, layout).map_err(|reason| Error::file(path, reason))
}

fn take<T: Scalar>(arrays: &mut Arrays, layout: &DeepLayout) -> Result<DeepBoltzmann<T>, String> {
    let mut biases = Vec::new();
    for name in &layout.biases {
        let found = arrays.first_of(&[name]);
        let (key, array) = found.map_err(|no| format!("{no}; {NAMES_OF_BIASES}"))?;
        biases.push(vector(&key, &array)?);
    }
    let mut layers = Vec::new();
    for (name, sizes) in layout.weights.iter().zip(biases.windows(2)) {
        layers.push((arrays.first_of(&[name])?, (sizes[1].len(), sizes[0].len())));
    }
    let shapes = layers
        .iter()
        .map(|((_, array), sizes)| (array.shape(), *sizes));
    let square = layout.square.or_shown(shapes);
    let is_square = layers.iter().any(|(_, (upper, lower))| upper == lower);
    if is_square && square == Square::Unsaid {
        return Err(format!("weights are square, {WHICH_WAY}"));
    }
    let mut weights = Vec::new();
    for (((key, array), sizes), names) in layers.iter().zip(layout.biases.windows(2)) {
        let of = || format!("by the biases {} and {}", names[0], names[1]);
        weights.push(crate::parameters::weights(
            arrays,
            (key, array),
            *sizes,
            square,
            of,
        )?);
    }
    DeepBoltzmann::new(weights, biases).map_err(|error| error.to_string())
}
