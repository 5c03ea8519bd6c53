//! Files that candle and burn wrote (`integrations/*/examples/rbm.rs`), whose numbers are known.

use std::path::{Path, PathBuf};

use annealed::Result;
use annealed::nalgebra::{DMatrix, DVector};
use annealed::rbm::Rbm;
use annealed_files::{DeepLayout, RbmFile, RbmLayout, read_deep};

const VISIBLE: usize = 6;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/rust")
        .join(format!("{name}.safetensors"))
}

fn named() -> RbmLayout {
    RbmLayout::default()
        .weights("hidden.weight")
        .hidden_bias("hidden.bias")
        .visible_bias("visible_bias")
}

fn read(name: &str, layout: &RbmLayout) -> Result<Rbm<f64>> {
    RbmFile::read_as(file(name), layout).map(|file| file.rbm)
}

/// The machine that both libraries were told to write.
fn written(hidden: usize) -> Rbm<f64> {
    let quarters = |k: usize| (k % 11) as f64 / 4.0 - 1.25;
    let weights = DMatrix::from_fn(hidden, VISIBLE, |j, i| quarters(7 * j + 3 * i + 1));
    let hidden_bias = DVector::from_fn(hidden, |j, _| quarters(5 * j + 2));
    let visible_bias = DVector::from_fn(VISIBLE, |i, _| quarters(4 * i + 7));
    Rbm::new(weights, hidden_bias, visible_bias).unwrap()
}

/// The log of the sum of `exp(b.v + a.h + h W v)` over all states of both layers.
fn log_z(rbm: &Rbm<f64>) -> f64 {
    let states = |units: usize| {
        let bit = |state: usize, unit: usize| (state >> unit & 1) as f64;
        (0..1 << units).map(move |state| DVector::from_fn(units, |unit, _| bit(state, unit)))
    };
    let energies = states(VISIBLE).flat_map(|v| {
        let visible = rbm.visible_bias().dot(&v);
        let fields = rbm.hidden_bias() + rbm.weights() * v;
        states(rbm.hidden_units()).map(move |h| visible + fields.dot(&h))
    });
    energies.map(f64::exp).sum::<f64>().ln()
}

#[test]
fn both_libraries_tell_by_shape() {
    for name in ["candle", "burn"] {
        let rbm = read(name, &named()).unwrap();
        assert_eq!(rbm, written(4), "{name}");
        let exact = rbm.exact_log_normalizer().unwrap();
        assert!(
            (exact - log_z(&written(4))).abs() < 1e-10,
            "{name}: {exact}"
        );
        // Nothing is said of weights that are not square.
        assert_eq!(read(name, &named().square_transposed()).unwrap(), rbm);
    }
}

/// burn has weights visible by hidden, candle hidden by visible: of square ones burn has to be told.
#[test]
fn square_weights_of_burn_are_never_guessed() {
    let square = written(VISIBLE);
    assert_eq!(read("candle_square", &named()).unwrap(), square);
    let burn = read("burn_square", &named().square_transposed()).unwrap();
    assert_eq!(burn, square);
    let turned = read("burn_square", &named().square_untransposed()).unwrap();
    assert_eq!(*turned.weights(), square.weights().transpose());
    let off = turned.exact_log_normalizer().unwrap() - log_z(&square);
    assert!(
        off.abs() > 0.1,
        "the other orientation has another log Z, {off} off"
    );

    let refused = read("burn_square", &named()).unwrap_err().to_string();
    for part in [
        "burn_square.safetensors",
        "hidden.weight",
        "[6, 6]",
        "which way round",
        "--square-transposed=false",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    let deep = DeepLayout::new(["hidden.weight"]).biases(["visible_bias", "hidden.bias"]);
    let read = |layout: &DeepLayout| read_deep::<f64>(file("burn_square"), layout);
    assert!(
        read(&deep)
            .unwrap_err()
            .to_string()
            .contains("which way round")
    );
    let deep = read(&deep.square_transposed()).unwrap();
    let exact = deep.to_rbm().unwrap().exact_log_normalizer().unwrap();
    assert!((exact - log_z(&square)).abs() < 1e-10);
}

#[test]
fn a_file_read_without_names_is_answered_by_what_to_type() {
    for name in ["candle", "burn"] {
        let refused = read(name, &RbmLayout::default()).unwrap_err().to_string();
        let names = "--names hidden.weight,hidden.bias,visible_bias";
        assert!(refused.contains(names), "{refused}");
    }
}
