//! Files that scikit-learn, PyTorch and NumPy wrote (`tests/data/python/make.py`), against NumPy's enumerations.

use std::path::{Path, PathBuf};

use annealed::estimate::Warning;
use annealed::rbm::{BaseRate, Rbm};
use annealed_files::{Binarization, BinaryData, DataLayout, RbmFile, RbmLayout};
use serde_json::Value;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/python")
        .join(name)
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(file("expected.json")).unwrap()).unwrap()
}

fn rbm(name: &str, layout: &RbmLayout) -> Rbm<f64> {
    RbmFile::read_as(file(name), layout).unwrap().rbm
}

fn pytorch() -> RbmLayout {
    RbmLayout::default()
        .hidden_bias("h_bias")
        .visible_bias("v_bias")
}

fn check(name: &str, layout: &RbmLayout) {
    let expected = &expected()["rbms"][name];
    let rbm = rbm(name, layout);
    let data = BinaryData::read(file("zeros_and_ones.npy")).unwrap();
    let log_z = rbm.exact_log_normalizer().unwrap();
    let base = BaseRate::from_data(rbm.hidden_units(), data.rows(), 1.0).unwrap();
    let found = rbm.log_likelihood(data.rows(), log_z, &base).unwrap();
    for (found, key) in [(log_z, "log_z"), (found.mean, "log_likelihood")] {
        let expected = expected[key].as_f64().unwrap();
        assert!(
            (found - expected).abs() < 1e-10,
            "{name}: {key} {found} {expected}"
        );
    }
}

#[test]
fn scikit_learn() {
    check("sklearn.npz", &RbmLayout::default());
}

#[test]
fn pytorch_in_every_precision_and_both_orientations() {
    for name in ["float32", "float16", "bfloat16", "turned"] {
        check(&format!("{name}.safetensors"), &pytorch());
    }
    check("square_turned.safetensors", &pytorch().square_transposed());
}

#[test]
fn a_missing_key_is_answered_by_those_that_are_there() {
    let read = |layout| RbmFile::<f32>::read_as(file("float32.safetensors"), &layout);
    for (layout, named) in [
        (
            RbmLayout::default(),
            "no key a or intercept_hidden_; the file has W, h_bias, v_bias",
        ),
        (
            pytorch().weights("rbm.W"),
            "no key rbm.W; the file has W, h_bias, v_bias",
        ),
    ] {
        let message = read(layout).unwrap_err().to_string();
        assert!(message.contains(named), "{message}");
    }
}

/// All data files hold the same 60 images, in one way or another.
#[test]
fn data_of_every_kind() {
    let expected: Vec<Vec<bool>> = expected()["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            row.as_str()
                .unwrap()
                .bytes()
                .map(|bit| bit == b'1')
                .collect()
        })
        .collect();
    let named = |name| DataLayout::default().array(name);
    for (name, layout, assumed) in [
        (
            "zeros_and_ones.npy",
            DataLayout::default(),
            Binarization::ZerosAndOnes,
        ),
        (
            "booleans.npy",
            DataLayout::default(),
            Binarization::ZerosAndOnes,
        ),
        (
            "fractions.npz",
            DataLayout::default(),
            Binarization::Fractions,
        ),
        ("several.npz", named("x_test"), Binarization::Bytes),
        (
            "several.npz",
            named("grey").threshold(8.0),
            Binarization::Provided(8.0),
        ),
        (
            "bytes-idx3-ubyte",
            DataLayout::default(),
            Binarization::Bytes,
        ),
        (
            "zeros-and-ones-idx3-ubyte.gz",
            DataLayout::default(),
            Binarization::ZerosAndOnes,
        ),
        (
            "black-and-white-idx3-ubyte.gz",
            DataLayout::default(),
            Binarization::BlackAndWhite,
        ),
    ] {
        let data = BinaryData::read_as(file(name), &layout).unwrap();
        assert_eq!(data.assumed(), assumed, "{name}");
        assert_eq!(data.rows(), expected, "{name}");
    }
}

/// Each pixel is on as often as its grey value says, within 4.5 standard deviations, by a seed's draw alone.
#[test]
fn grey_values_are_probabilities_where_data_are_drawn() {
    let numbers = [0u8, 51, 128, 204, 255];
    let rows = 4_000u32;
    let idx: Vec<u8> = [[0, 0, 8, 2], rows.to_be_bytes(), 5u32.to_be_bytes()]
        .concat()
        .into_iter()
        .chain((0..rows).flat_map(|_| numbers))
        .collect();
    let name = format!("annealed-grey-{}", std::process::id());
    let saved = std::env::temp_dir().join(name);
    std::fs::write(&saved, idx).unwrap();
    let draw = |seed| BinaryData::read_as(&saved, &DataLayout::default().drawn(seed)).unwrap();
    let data = draw(1);
    assert_eq!(data, draw(1));
    assert_ne!(data.rows(), draw(2).rows());
    let drawn = Binarization::Drawn {
        seed: 1,
        white: 255.0,
    };
    assert_eq!(data.assumed(), drawn);
    for (i, number) in numbers.into_iter().enumerate() {
        let on = data.rows().iter().filter(|row| row[i]).count() as f64;
        let (n, p) = (f64::from(rows), f64::from(number) / 255.0);
        let error = (on - n * p).abs();
        assert!(error <= 4.5 * (n * p * (1.0 - p)).sqrt(), "{number}: {on}");
    }
    std::fs::remove_file(&saved).unwrap();
}

#[test]
fn data_in_doubt_are_refused() {
    let read = |layout: DataLayout| {
        let read = BinaryData::read_as(file("several.npz"), &layout);
        read.unwrap_err().to_string()
    };
    let layout = DataLayout::default;
    for (layout, named) in [
        (
            layout(),
            "has x_train, x_test, grey, expected one array, or the name of one",
        ),
        (
            layout().array("y"),
            "no key y; the file has x_train, x_test, grey",
        ),
        (layout().array("grey"), "numbers from 0 to 16 ("),
        (layout().threshold(f64::NAN), "invalid threshold"),
        (
            layout().array("grey").threshold(16.5),
            "no value reaches the threshold 16.5 (numbers from 0 to 16",
        ),
        (
            layout().array("grey").threshold(0.0),
            "every value reaches the threshold 0 (numbers from 0 to 16",
        ),
    ] {
        let message = read(layout);
        assert!(message.contains(named), "{message}");
    }
}

/// A model with the same numbers the wrong way round scores below the base rates, and says so.
#[test]
fn square_weights_the_wrong_way_round_are_warned_of() {
    let data = BinaryData::read(file("zeros_and_ones.npy"))
        .unwrap()
        .into_rows();
    let base = BaseRate::from_data(16, &data, 1.0).unwrap();
    let trained = {
        let start = Rbm::<f64>::from_data(16, &data, 0).unwrap();
        let training = annealed::rbm::ContrastiveDivergence::new(1).epochs(300);
        let training = training.batch_size(10).learning_rate(0.05, 0.0);
        training.train(start, &data).unwrap().rbm
    };
    let name = format!("annealed-square-{}.npz", std::process::id());
    let saved = std::env::temp_dir().join(name);
    let contents = RbmFile {
        rbm: trained,
        base: None,
        log_z_exact: None,
        chains: None,
    };
    contents.write(&saved).unwrap();
    let warning = |layout| {
        let rbm = RbmFile::<f64>::read_as(&saved, &layout).unwrap().rbm;
        let log_z = rbm.exact_log_normalizer().unwrap();
        rbm.log_likelihood(&data, log_z, &base).unwrap().warning()
    };
    assert_eq!(warning(RbmLayout::default()), None);
    let warned = warning(RbmLayout::default().square_transposed());
    assert!(
        matches!(warned, Some(Warning::BelowBaseRate { .. })),
        "{warned:?}"
    );
    std::fs::remove_file(&saved).unwrap();
}
