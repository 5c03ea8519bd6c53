//! Files that are no RBM, no data and no run: what they are, and what to do.

use super::*;

/// Writes a `.safetensors` file of arrays of float64, all entries `.5`.
fn safetensors(file: &str, arrays: &[(&str, &[usize])]) {
    let (mut entries, mut end) = (Vec::new(), 0);
    for (name, shape) in arrays {
        let begin = end;
        end += 8 * shape.iter().product::<usize>();
        entries.push(format!(
            r#""{name}":{{"dtype":"F64","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    (0..end / 8).for_each(|_| bytes.extend_from_slice(&0.5_f64.to_le_bytes()));
    fs::write(file, bytes).unwrap();
}

/// Writes rows of bytes as IDX.
pub fn idx(file: &str, rows: u8, units: u8, value: impl Fn(usize) -> u8) {
    let header = [0, 0, 8, 2, 0, 0, 0, rows, 0, 0, 0, units];
    let values = (0..usize::from(rows) * usize::from(units)).map(value);
    fs::write(file, header.into_iter().chain(values).collect::<Vec<u8>>()).unwrap();
}

/// The error of a call, which names all parts and nothing of Rust.
pub fn says(arguments: &[&str], parts: &[&str]) {
    let error = refused(arguments);
    for part in parts {
        assert!(
            error.contains(part),
            "{arguments:?}: {error}, expected {part}"
        );
    }
    for name in ["RbmLayout", "square_transposed", "`", "_size", "Some("] {
        assert!(!error.contains(name), "{name} in {error}");
    }
}

#[test]
fn biases_are_told_by_names_or_by_lengths() {
    let folder = Folder::new("names");
    let rbm = folder.file("rbm.safetensors");
    safetensors(&rbm, &[("W", &[7, 3]), ("b", &[7]), ("c", &[3])]);
    let shorter =
        "--names W,c,b if c (3) are those of the hidden units, --names W,b,c if b (7) are";
    says(&["rbm", &rbm], &["no key a", shorter]);
    safetensors(&rbm, &[("W", &[3, 7]), ("bh", &[7]), ("bv", &[3])]);
    says(
        &["rbm", &rbm],
        &["hidden and visible biases (--names W,bh,bv)"],
    );
    safetensors(&rbm, &[("W", &[3, 7])]);
    says(
        &["rbm", &rbm],
        &["write zeros", "a=numpy.zeros(hidden units)"],
    );
    safetensors(&rbm, &[("W", &[3, 7]), ("b", &[7])]);
    says(&["rbm", &rbm], &["write zeros"]);
    safetensors(&rbm, &[("W", &[1, 7]), ("a", &[]), ("b", &[7])]);
    says(
        &["rbm", &rbm],
        &["key a: a single number", "numpy.atleast_1d"],
    );
    says(&["rbm", &rbm, "--layers", "W,W"], &["(--biases b,a1,a2)"]);
    says(
        &["rbm", &rbm, "--names", "W,b"],
        &["three names", "write zeros", "b=numpy.zeros(visible units)"],
    );
}

#[test]
fn square_weights_are_said_to_be_read_one_way() {
    let folder = Folder::new("sides");
    let rbm = folder.file("rbm.safetensors");
    let run = ["--base", "uniform", "--chains", "9", "--stages", "9"];
    let read = |more: &[&str]| printed(&[&["rbm", &rbm], &run[..], more].concat());
    safetensors(&rbm, &[("W", &[3, 3]), ("a", &[3]), ("b", &[3])]);
    let said = read(&[]);
    assert!(
        said.contains("square weights were read as hidden by visible (see --square-transposed)"),
        "{said}"
    );
    let said = read(&["--square-transposed"]);
    assert!(
        said.contains("square weights were read as visible by hidden"),
        "{said}"
    );
    safetensors(&rbm, &[("W", &[3, 4]), ("a", &[3]), ("b", &[4])]);
    assert!(!read(&[]).contains("square"));
}

#[test]
fn a_threshold_has_to_tell_units_apart_in_each_file() {
    let folder = Folder::new("thresholds");
    let [grey, binary] = ["grey.idx", "binary.idx"].map(|name| folder.file(name));
    idx(&grey, 2, 16, |i| (i % 17) as u8);
    idx(&binary, 2, 16, |i| (i % 2) as u8);
    let both = |base: &str, data: &str, threshold: &str, parts: &[&str]| {
        let rbm = format!("{DATA}float32.safetensors");
        let call = [
            "rbm",
            &rbm,
            "--names",
            "W,h_bias,v_bias",
            "--threshold",
            threshold,
        ];
        says(
            &[&call[..], &["--base-data", base, "--data", data]].concat(),
            parts,
        );
    };
    both(
        &grey,
        &binary,
        "8",
        &["binary.idx: no value reaches the threshold 8 (the numbers 0, 1)"],
    );
    both(
        &binary,
        &grey,
        "8",
        &["binary.idx: no value", "zeros and ones need none"],
    );
    both(
        &grey,
        &grey,
        "17",
        &["grey.idx: no value reaches the threshold 17 (numbers from 0 to 16"],
    );
    both(
        &grey,
        &grey,
        "0",
        &["grey.idx: every value reaches the threshold 0"],
    );
}

#[test]
fn data_and_arrays_of_another_shape_are_named() {
    let folder = Folder::new("shapes");
    let rbm = format!("{DATA}float32.safetensors");
    let data = folder.file("turned.idx");
    idx(&data, 16, 40, |i| (i % 2) as u8);
    let call = ["rbm", &rbm, "--names", "W,h_bias,v_bias", "--data", &data];
    says(
        &call,
        &[
            "rows of 40 units, expected 16",
            "save it transposed (data.T)",
        ],
    );
    let records = folder.file("records.npy");
    let header = "{'descr': [('x', '<f4', (3,))], 'fortran_order': False, 'shape': (2,), }\n";
    let length = (header.len() as u16).to_le_bytes();
    let bytes = [
        b"\x93NUMPY\x01\x00",
        &length[..],
        header.as_bytes(),
        &[0; 24],
    ]
    .concat();
    fs::write(&records, bytes).unwrap();
    let call = [
        "rbm",
        &rbm,
        "--names",
        "W,h_bias,v_bias",
        "--data",
        &records,
    ];
    says(&call, &["an array of records, expected numbers"]);
}

#[test]
fn files_that_are_no_runs_are_named() {
    let folder = Folder::new("no-runs");
    let names = ["report.json", "start.json", "run.ckpt", "cut.json", "x.svg"];
    let [report, start, checkpoint, cut, svg] = names.map(|name| folder.file(name));
    let files = [
        "--report",
        &report,
        "--save-start",
        &start,
        "--checkpoint",
        &checkpoint,
    ];
    printed(&words(&scoring(&[&files[..], &["--save", &cut]].concat())));
    let text = fs::read_to_string(&cut).unwrap();
    fs::write(&cut, &text[..text.len() / 2]).unwrap();
    let rbm = format!("{DATA}float32.safetensors");
    let machine = format!("{DATA}sklearn.npz");
    for (file, what) in [
        (
            &report,
            "is a report, expected the JSON that --save FILE writes",
        ),
        (&start, "is a start, which --start reads, expected the JSON"),
        (
            &checkpoint,
            "is a checkpoint (to continue it, run the command that wrote it)",
        ),
        (&cut, "no saved run or part of one (EOF"),
        (&rbm, "is a binary file, such as those of RBMs and of data"),
        (&machine, "is a binary file"),
    ] {
        says(&["plot", file, "--out", &svg], &[file, what]);
        says(&["merge", file], &[file, what]);
    }
}

#[test]
fn options_are_named_as_they_are_typed() {
    let rbm = format!("{DATA}float32.safetensors");
    let call = [
        "rbm",
        &rbm,
        "--names",
        "W,h_bias,v_bias",
        "--base",
        "uniform",
    ];
    says(
        &[&call[..], &["--block-size", "0"]].concat(),
        &["--block-size: got 0"],
    );
    let help = printed(&["rbm", "--help"]);
    assert!(
        help.contains("annealed manual") && !help.contains("docs/"),
        "{help}"
    );
    assert!(printed(&["manual"]).contains("log Z without Rust"));
}
