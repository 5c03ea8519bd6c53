//! Paths through checkpoints of training.

use annealed::data::digits;
use annealed::prelude::*;
use annealed::rbm::Epoch;
use annealed_files::RbmFile;

use super::{Folder, json, printed, refused};

fn write(file: &str, rbm: &Rbm) {
    let of = RbmFile {
        rbm: rbm.clone(),
        base: None,
        log_z_exact: None,
        chains: None,
    };
    of.write(file).unwrap();
}

#[test]
fn checkpoints_of_training_are_a_path() {
    let folder = Folder::new("through");
    let images = digits().images;
    let files = ["1", "2", "3", "4"].map(|epoch| folder.file(&format!("epoch-{epoch}.npz")));
    let start = Rbm::from_data(10, &images, 1).unwrap();
    let pcd = ContrastiveDivergence::new(1).persistent(true).epochs(4);
    let keep = |epoch: &Epoch, rbm: &Rbm| write(&files[epoch.index], rbm);
    let _ = pcd.train_with(start, &images, keep).unwrap();
    let [first, second, third, last] = files.each_ref().map(String::as_str);
    let run = ["--chains", "400", "--stages", "200"];
    let path = ["rbm", last, "--through", first, second, third];

    let found = json(&[&path[..], &run, &["--exact"]].concat());
    let number = |key: &str| found[key].as_f64().unwrap();
    let error = number("log_z") - number("log_z_exact");
    let deviation = number("standard_error");
    assert!(deviation < 0.1 && error.abs() < 4.0 * deviation, "{found}");
    assert_eq!(found["files"]["through"][2], third, "{found}");

    let text = printed(&[&path[..], &run].concat());
    assert!(
        text.contains(&format!("through {first}, {second}, {third}")),
        "{text}"
    );
    assert!(!text.contains("starts, by pilots"), "{text}");

    let other = folder.file("other.npz");
    write(&other, &Rbm::from_data(9, &images, 1).unwrap());
    let sizes = refused(&["rbm", last, "--through", first, &other]);
    let expected = "other.npz: has 64 visible and 9 hidden units, expected the 64 visible and 10 hidden units of ";
    assert!(sizes.contains(expected), "{sizes}");
    for also in [
        ["--path", "moment-spline"],
        ["--start", "start.json"],
        ["--save-start", "start.json"],
    ] {
        let twice = refused(&[&path[..], &also].concat());
        assert!(twice.contains("cannot be used with"), "{twice}");
    }
}
