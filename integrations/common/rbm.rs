//! An RBM whose parameters both frameworks write: every number is known, and exact in single precision.

/// Weights (hidden by visible, row after row), hidden and visible biases.
pub struct Parameters {
    pub weights: Vec<f32>,
    pub hidden_bias: Vec<f32>,
    pub visible_bias: Vec<f32>,
}

/// Returns the parameters of an RBM: multiples of 1/4 without a symmetry, so that no other orientation has this log Z.
pub fn parameters(visible: usize, hidden: usize) -> Parameters {
    let quarters = |k: usize| (k % 11) as f32 / 4.0 - 1.25;
    Parameters {
        weights: (0..hidden * visible)
            .map(|k| quarters(7 * (k / visible) + 3 * (k % visible) + 1))
            .collect(),
        hidden_bias: (0..hidden).map(|j| quarters(5 * j + 2)).collect(),
        visible_bias: (0..visible).map(|i| quarters(4 * i + 7)).collect(),
    }
}

/// Returns all `2^units` states of zeros and ones, row after row.
pub fn states(units: usize) -> Vec<f32> {
    let bit = |state: usize, unit: usize| (state >> unit & 1) as f32;
    (0..1 << units)
        .flat_map(|state| (0..units).map(move |unit| bit(state, unit)))
        .collect()
}

/// Asserts that the RBM which a framework saved at `path` has the log Z that the framework finds by enumeration: the
/// log of the sum of the exponentials of `log_densities`, free energies of all visible states with the other sign.
pub fn check(path: &std::path::Path, square: bool, log_densities: &[f32]) {
    use annealed_files::{RbmFile, RbmLayout};
    let layout = RbmLayout::default()
        .weights("hidden.weight")
        .hidden_bias("hidden.bias")
        .visible_bias("visible_bias");
    let layout = if square {
        layout.square_transposed()
    } else {
        layout
    };
    let rbm = RbmFile::<f64>::read_as(path, &layout).unwrap().rbm;
    let found = rbm.exact_log_normalizer().unwrap();
    let expected = super::checks::log_sum_exp(log_densities);
    assert!(
        (found - expected).abs() < 1e-5,
        "log Z {found}, by the framework {expected}"
    );
}
