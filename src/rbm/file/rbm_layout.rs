//! Where the parameters of an RBM are in a file.

/// Under which names a file has the parameters of an RBM, and which way round square weights are.
///
/// By default the names are `W`, `a` and `b`, or scikit-learn's `components_`, `intercept_hidden_` and
/// `intercept_visible_`.
///
/// ```
/// # #[cfg(feature = "safetensors")]
/// fn read() -> annealed::Result<()> {
///     use annealed::rbm::{RbmFile, RbmLayout};
///
///     // A PyTorch module whose `nn.Linear` has `weight` and `bias`, saved by `save_file(model.state_dict(), ..)`.
///     let layout = RbmLayout::default()
///         .weights("hidden.weight")
///         .hidden_bias("hidden.bias")
///         .visible_bias("visible_bias");
///     let rbm = RbmFile::<f32>::read_as("rbm.safetensors", &layout)?.rbm;
/// #   drop(rbm);
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RbmLayout {
    pub(super) weights: Option<String>,
    pub(super) hidden_bias: Option<String>,
    pub(super) visible_bias: Option<String>,
    pub(super) square_transposed: bool,
}

impl RbmLayout {
    /// The name of the weights.
    #[must_use]
    pub fn weights(mut self, name: impl Into<String>) -> Self {
        self.weights = Some(name.into());
        self
    }

    /// The name of the hidden biases.
    #[must_use]
    pub fn hidden_bias(mut self, name: impl Into<String>) -> Self {
        self.hidden_bias = Some(name.into());
        self
    }

    /// The name of the visible biases.
    #[must_use]
    pub fn visible_bias(mut self, name: impl Into<String>) -> Self {
        self.visible_bias = Some(name.into());
        self
    }

    /// Takes square weights as visible by hidden (D x M).
    ///
    /// Weights that are not square tell by their shape which way round they are. Square ones do not, and are taken
    /// as hidden by visible (M x D) unless this is called. A model that was read the wrong way round gives
    /// [`Warning::BelowBaseRate`](crate::estimate::Warning::BelowBaseRate) when it scores data.
    #[must_use]
    pub fn square_transposed(mut self) -> Self {
        self.square_transposed = true;
        self
    }
}
