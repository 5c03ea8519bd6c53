//! Machines that were read wrongly, and scores that a bound excludes.

use annealed::rbm::Rbm;
use annealed_files::RbmFile;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::inputs::{idx, says};
use super::*;

/// Writes an RBM of 8 visible and 8 hidden units. The first hidden unit turns units 0 and 1 on and 2 and 3 off; units 4 to 7
/// are nearly always off.
fn write_square(file: &str) {
    let coupling = [3.0, 3.0, -3.0, -3.0];
    let weights = DMatrix::from_fn(8, 8, |j, i| if j == 0 && i < 4 { coupling[i] } else { 0.0 });
    let hidden = DVector::from_fn(8, |j, _| if j < 4 { 0.0 } else { -1.0 });
    let visible = DVector::from_fn(8, |i, _| if i < 4 { -0.5 * coupling[i] } else { -4.0 });
    let contents = RbmFile::<f32> {
        rbm: Rbm::new(weights, hidden, visible).unwrap(),
        base: None,
        log_z_exact: None,
        chains: None,
    };
    contents.write(file).unwrap();
}

/// Writes its data: units 0 and 1 or units 2 and 3, as many rows of each.
fn write_rows(file: &str) {
    idx(file, 200, 8, |i| u8::from(i % 8 / 2 == i / 8 % 2));
}

#[test]
fn a_misread_square_machine_warns_without_base_data() {
    let folder = Folder::new("misread");
    let [rbm, data] = ["rbm.npz", "rows.idx"].map(|name| folder.file(name));
    write_square(&rbm);
    write_rows(&data);
    let run = ["--data", &data, "--chains", "64", "--stages", "50"];
    let call = [&["rbm", &rbm], &run[..]].concat();
    let score = |more: &[&str]| printed(&[&call[..], more].concat());
    let right = score(&[]);
    assert!(
        right.contains("under base rates of these rows -2."),
        "{right}"
    );
    assert!(
        !right.contains("less likely") && !right.contains("note:"),
        "{right}"
    );
    for (wrong, remedy) in [
        (
            &["--square-transposed"][..],
            "try --square-transposed=false",
        ),
        (&["--names", "W,b,a"], "exchanged biases (--names W,a,b)"),
    ] {
        let said = score(wrong);
        for part in [
            "less likely under the RBM",
            "than under base rates (-2.",
            "fitted to the scored rows themselves",
            "annealed manual",
            remedy,
        ] {
            assert!(said.contains(part), "{wrong:?}: {said}, expected {part}");
        }
        // Fair coins alone would not warn.
        assert!(!said.contains("fair coins ("), "{wrong:?}: {said}");
        let found = json(&[&call[..], wrong].concat());
        assert_eq!(found["base_log_likelihood_by"], "base rates of these rows");
        assert!(found["notes"].to_string().contains("generous"), "{found}");
    }
    let known = score(&["--square-transposed", "--base-data", &data]);
    assert!(
        known.contains("less likely") && !known.contains("generous"),
        "{known}"
    );
}

#[test]
fn a_score_that_the_bound_excludes_is_marked() {
    let [rbm, data] =
        ["float32.safetensors", "zeros_and_ones.npy"].map(|name| format!("{DATA}{name}"));
    let run = [
        "--base", "uniform", "--stages", "5", "--chains", "20", "--seed",
    ];
    let names = ["rbm", &rbm, "--names", "W,h_bias,v_bias", "--data", &data];
    let call = [&names[..], &run].concat();
    for seed in ["0", "1", "2", "3", "4", "5"] {
        let call = [&call[..], &[seed]].concat();
        let found = json(&call);
        let number = |key: &str| found[key].as_f64().unwrap();
        let most = number("log_likelihood_upper_bound");
        let lower = found["log_likelihood_interval"][0].as_f64().unwrap();
        let is_above = number("log_likelihood") > most;
        for (of, is_there) in [
            ("excluded by the bound", is_above && most < lower),
            ("within its error of the bound", is_above && most >= lower),
        ] {
            let mark = format!("({of}: at most {most:.3})");
            assert_eq!(printed(&call).contains(&mark), is_there, "{found}");
        }
    }
    let exact = printed(&[&call[..], &["0", "--exact"]].concat());
    assert!(!exact.contains("the bound: at most"), "{exact}");
}

#[test]
fn data_of_spins_ask_for_a_threshold_and_a_converted_machine() {
    let folder = Folder::new("spins");
    let data = folder.file("spins.npy");
    let header = "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 16), }\n";
    let length = (header.len() as u16).to_le_bytes();
    let spins: Vec<u8> = (0..32).map(|i| if i % 3 == 0 { 1 } else { 255 }).collect();
    let begin = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()].concat();
    fs::write(&data, [begin, spins].concat()).unwrap();
    let rbm = format!("{DATA}float32.safetensors");
    let run = ["--base", "uniform", "--chains", "9", "--stages", "9"];
    let call = [&["rbm", &rbm, "--names", "W,h_bias,v_bias"], &run[..]].concat();
    let with_data = [&call[..], &["--data", &data]].concat();
    let recipe = ["4 W", "2 a - 2 W 1", "2 b - 2 W' 1", "annealed manual"];
    says(
        &with_data,
        &[&["the numbers 1, -1", "--threshold 0)"], &recipe[..]].concat(),
    );
    assert!(printed(&["manual"]).contains("## Spins of -1 and 1"));
    assert!(printed(&["rbm", "--help"]).contains("spins of -1 and 1"));
    for threshold in ["0", "-0.5"] {
        let said = printed(&[&with_data[..], &["--threshold", threshold]].concat());
        let expected = format!("2 rows of 16, read as on from {threshold}");
        assert!(said.contains(&expected), "{said}");
    }
    says(
        &[&call[..], &["--threshold", "0.5"]].concat(),
        &["--threshold: got 0.5, expected data", "--base-data"],
    );
}

#[test]
fn the_run_of_another_rbm_and_a_file_of_keras_are_named() {
    let folder = Folder::new("others");
    let [run, keras] = ["run.json", "x.keras"].map(|name| folder.file(name));
    printed(&words(&scoring(&["--save", &run])));
    let other = format!("{ROOT}tests/data/rbm20_pcd.npz");
    let stages = ["--stages", "300", "--chains", "400"];
    says(
        &[&["rbm", &other, "--extend", &run], &stages[..]].concat(),
        &[&run, "an RBM with other parameters"],
    );
    let uniform = ["--base", "uniform", "--stages", "9", "--chains", "9"];
    let [rbm, twin] = ["float32.safetensors", "sklearn.npz"].map(|name| format!("{DATA}{name}"));
    let begun = [
        &["rbm", &rbm, "--names", "W,h_bias,v_bias", "--save", &run],
        &uniform[..],
    ];
    printed(&begun.concat());
    says(
        &[&["rbm", &twin, "--extend", &run], &uniform[..]].concat(),
        &[&run, "is a run of another RBM", "--square-transposed"],
    );
    let mut archive = ZipWriter::new(fs::File::create(&keras).unwrap());
    for entry in ["metadata.json", "config.json", "model.weights.h5"] {
        archive
            .start_file(entry, SimpleFileOptions::default())
            .unwrap();
    }
    archive.finish().unwrap();
    says(
        &["rbm", &keras],
        &["x.keras: a file of Keras", "numpy.savez"],
    );
}
