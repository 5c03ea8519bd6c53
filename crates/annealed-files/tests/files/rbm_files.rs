//! `.npz` files: what NumPy wrote, round trips, and every way a file can be wrong; the exact log
//! Z of the machines in `tests/data`.

use std::io::Write;
use std::path::{Path, PathBuf};

use annealed::Error;
use annealed::model::UnnormalizedModel;
use annealed::nalgebra::{DMatrix, DVector};
use annealed::path::AnnealingPath;
use annealed::rbm::{BaseRate, Rbm, RbmPath};
use annealed_files::RbmFile;
use zip::CompressionMethod::{Deflated, Stored};
use zip::write::SimpleFileOptions;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data")
        .join(name)
}

/// A file in the system's temporary folder, removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let name = format!("annealed-{}-{name}.npz", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An array as NumPy writes it.
fn npy(descr: &str, fortran_order: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), bytes].concat()
}

fn doubles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

type Entries = Vec<(&'static str, Vec<u8>)>;

/// W = [[1, 2, 3], [4, 5, 6]], a = (7, 8), b = (9, 10, 11), in double precision and C order.
fn valid() -> Entries {
    vec![
        (
            "W",
            npy(
                "<f8",
                "False",
                "(2, 3)",
                &doubles(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            ),
        ),
        ("a", npy("<f8", "False", "(2,)", &doubles(&[7.0, 8.0]))),
        (
            "b",
            npy("<f8", "False", "(3,)", &doubles(&[9.0, 10.0, 11.0])),
        ),
    ]
}

fn with(key: &'static str, array: Vec<u8>) -> Entries {
    let mut entries = valid();
    entries.retain(|(name, _)| *name != key);
    entries.push((key, array));
    entries
}

fn archive(entries: &Entries, method: zip::CompressionMethod) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (key, bytes) in entries {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(format!("{key}.npy"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn read_bytes(name: &str, bytes: &[u8]) -> annealed::Result<RbmFile<f32>> {
    let file = Temporary::new(name);
    std::fs::write(&file.0, bytes).unwrap();
    RbmFile::read(&file.0)
}

fn expected() -> Rbm<f32> {
    Rbm::new(
        DMatrix::from_row_slice(2, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        DVector::from_row_slice(&[7.0, 8.0]),
        DVector::from_row_slice(&[9.0, 10.0, 11.0]),
    )
    .unwrap()
}

#[test]
fn every_order_precision_and_compression_is_read() {
    let transposed = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
    let single: Vec<u8> = (1..=6).flat_map(|x| (x as f32).to_le_bytes()).collect();
    let big: Vec<u8> = (1..=6).flat_map(|x| f64::from(x).to_be_bytes()).collect();
    for (name, entries) in [
        ("c", valid()),
        (
            "fortran",
            with("W", npy("<f8", "True", "(2, 3)", &doubles(&transposed))),
        ),
        ("single", with("W", npy("<f4", "False", "(2, 3)", &single))),
        ("big", with("W", npy(">f8", "False", "(2, 3)", &big))),
    ] {
        for method in [Stored, Deflated] {
            let file = read_bytes(name, &archive(&entries, method)).unwrap();
            assert_eq!(file.rbm, expected(), "{name}");
            assert_eq!((file.base, file.log_z_exact), (None, None));
        }
    }
}

#[test]
fn an_integer_is_read_as_log_z() {
    let eight = [0x9c, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    for (descr, bytes) in [
        ("<i8", &eight[..]),
        ("<i4", &eight[..4]),
        (">i4", &[0xff, 0xff, 0xff, 0x9c]),
        (">i8", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x9c]),
    ] {
        let entries = with("log_z_exact", npy(descr, "False", "()", bytes));
        let file = read_bytes("integer-log-z", &archive(&entries, Deflated)).unwrap();
        assert_eq!(file.log_z_exact, Some(-100.0), "{descr}");
    }
}

#[test]
fn what_is_written_is_read_back() {
    let bias = DVector::from_row_slice(&[0.1_f32, -0.2, 0.3]);
    let chains = vec![vec![true, false, false], vec![true, true, false]];
    for (base, log_z_exact, chains) in [
        (None, None, None),
        (
            Some(BaseRate::new(2, bias).unwrap()),
            Some(1.0 / 3.0),
            Some(chains),
        ),
    ] {
        let written = RbmFile {
            rbm: expected(),
            base,
            log_z_exact,
            chains,
        };
        let file = Temporary::new("round-trip");
        written.write(&file.0).unwrap();
        assert_eq!(RbmFile::<f32>::read(&file.0).unwrap(), written);
        let double = RbmFile::<f64>::read(&file.0).unwrap();
        assert_eq!(double.rbm, expected().cast().unwrap());
    }
}

/// The states of chains as NumPy may hold them: floats, Booleans and bytes, in both orders.
#[test]
fn chains_are_read_as_states_of_the_path() {
    let floats = doubles(&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    for (name, array) in [
        ("floats", npy("<f8", "False", "(2, 3)", &floats)),
        ("bytes", npy("|u1", "False", "(2, 3)", &[1, 0, 0, 1, 1, 0])),
        (
            "booleans",
            npy("|b1", "True", "(2, 3)", &[1, 1, 0, 1, 0, 0]),
        ),
    ] {
        let entries = with("chains", array);
        let file = read_bytes(&format!("chains-{name}"), &archive(&entries, Stored)).unwrap();
        let chains = file.chains.unwrap();
        assert_eq!(
            chains,
            [[true, false, false], [true, true, false]],
            "{name}"
        );
        let base = BaseRate::uniform(2, 3).unwrap();
        let path = RbmPath::new(base, file.rbm).unwrap();
        assert!(path.at(1.0).log_density(&chains[0]).is_finite());
    }
    for (name, array, named) in [
        (
            "flat",
            npy("|u1", "False", "(6,)", &[0; 6]),
            "shape [6], expected (N, 3)",
        ),
        (
            "turned",
            npy("|u1", "False", "(3, 2)", &[0; 6]),
            "shape [3, 2], expected (N, 3)",
        ),
        (
            "grey",
            npy("|u1", "False", "(1, 3)", &[0, 2, 1]),
            "2, expected 0 or 1",
        ),
        ("cut", npy("|u1", "False", "(2, 3)", &[0; 5]), "5 bytes"),
    ] {
        let entries = with("chains", array);
        let error = read_bytes(&format!("chains-{name}"), &archive(&entries, Stored));
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("key chains") && message.contains(named),
            "{message}"
        );
    }
    let short = RbmFile {
        rbm: expected(),
        base: None,
        log_z_exact: None,
        chains: Some(vec![vec![true]]),
    };
    let error = short
        .write(Temporary::new("chains-short").0.clone())
        .unwrap_err();
    assert!(error.to_string().contains("chain"), "{error}");
}

#[test]
fn integers_are_read_as_floats() {
    let integers =
        |values: &[i64]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let weights = npy("<i8", "False", "(2, 3)", &integers(&[1, 2, 3, 4, 5, 6]));
    let mut entries = with("W", weights);
    entries.retain(|(name, _)| *name != "b");
    entries.push(("b", npy("<i8", "False", "(3,)", &integers(&[9, 10, 11]))));
    let read = |name: &str, entries: &Entries| {
        read_bytes(name, &archive(entries, zip::CompressionMethod::Stored)).unwrap()
    };
    assert_eq!(read("integers", &entries), read("floats", &valid()));
}

#[test]
fn a_mixture_as_base_is_not_written() {
    let rbm = expected();
    let base = BaseRate::uniform(rbm.hidden_units(), rbm.visible_units()).unwrap();
    let other = DVector::repeat(rbm.visible_units(), 1.0);
    let other = BaseRate::new(rbm.hidden_units(), other).unwrap();
    let mixture = BaseRate::mixture([(1.0, base), (2.0, other)]).unwrap();
    let file = RbmFile {
        rbm,
        base: Some(mixture),
        log_z_exact: None,
        chains: None,
    };
    let error = file.write(Temporary::new("mixture").0.clone()).unwrap_err();
    assert!(error.to_string().contains("2 components"), "{error}");
}

#[test]
fn every_fault_is_named_by_its_key() {
    let nan = doubles(&[7.0, f64::NAN]);
    let large = doubles(&[7.0, 1e300]);
    let cases: Vec<(&str, Entries, &str)> = vec![
        (
            "missing",
            valid().split_off(1),
            "no key W or components_; the file has a, b",
        ),
        (
            "missing-b",
            valid()[..2].to_vec(),
            "no key b or intercept_visible_; the file has W, a",
        ),
        (
            "flat",
            with("W", npy("<f8", "False", "(6,)", &doubles(&[0.0; 6]))),
            "key W: shape [6]",
        ),
        (
            "short-a",
            with("a", npy("<f8", "False", "(1,)", &doubles(&[7.0]))),
            "key W: shape [2, 3], expected [1, 3] or [3, 1]",
        ),
        (
            "matrix-b",
            with("b", npy("<f8", "False", "(3, 2)", &doubles(&[0.0; 6]))),
            "key b: shape",
        ),
        (
            "booleans",
            with("b", npy("|b1", "False", "(3,)", &[0; 3])),
            "key b: dtype bool, expected floats or integers",
        ),
        (
            "order",
            with("W", npy("<f8", "1", "(2, 3)", &doubles(&[0.0; 6]))),
            "key W: fortran_order 1, expected True or False",
        ),
        (
            "log-z-kind",
            with("log_z_exact", npy("|b1", "False", "()", &[1])),
            "key log_z_exact: expected one finite number",
        ),
        (
            "nan",
            with("a", npy("<f8", "False", "(2,)", &nan)),
            "key a:",
        ),
        (
            "overflow",
            with("a", npy("<f8", "False", "(2,)", &large)),
            "key a:",
        ),
        (
            "cut",
            with("b", npy("<f8", "False", "(3,)", &doubles(&[0.0; 2]))),
            "key b: 16 bytes",
        ),
        (
            "huge",
            with("b", npy("<f8", "False", "(9999999999, 9999999999)", &[])),
            "key b: 0 bytes",
        ),
        (
            "text",
            with("W", b"not an array".to_vec()),
            "key W: a file of another format, expected .npy",
        ),
        (
            "headless",
            with("W", npy("<f8", "False", "2", &[])),
            "key W: no shape",
        ),
        (
            "text-numbers",
            with("W", npy("<U1", "False", "(1,)", &[0; 4])),
            "key W: dtype <U1, expected floats, integers or Booleans",
        ),
        (
            "base",
            with("b_base", npy("<f8", "False", "(2,)", &doubles(&[0.0; 2]))),
            "key b_base",
        ),
        (
            "log-z",
            with("log_z_exact", npy("<f8", "False", "(0,)", &[])),
            "key log_z_exact",
        ),
        (
            "empty",
            with("W", npy("<f8", "False", "(0, 0)", &[])),
            "key W:",
        ),
    ];
    for (name, entries, fault) in cases {
        let error = read_bytes(name, &archive(&entries, Deflated)).unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, Error::File { .. }), "{name}");
        assert!(
            message.contains(fault) && message.contains(name),
            "{name}: {message}"
        );
    }
}

#[test]
fn a_file_cut_anywhere_or_damaged_is_an_error() {
    let bytes = archive(&valid(), Deflated);
    for length in 0..bytes.len() {
        assert!(
            read_bytes("cut-anywhere", &bytes[..length]).is_err(),
            "{length}"
        );
    }
    // Damage may hit a byte that nothing depends on, but it must never panic or go through
    // unnoticed into the numbers.
    for position in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x55;
        if let Ok(file) = read_bytes("damaged", &damaged) {
            assert_eq!(file.rbm, expected(), "byte {position}");
        }
    }
    let message = RbmFile::<f32>::read("no/such/file.npz")
        .unwrap_err()
        .to_string();
    assert!(message.starts_with("no/such/file.npz: "), "{message}");
}

fn check_exact_log_z(name: &str, log_z: f64) {
    let file = RbmFile::<f32>::read(data(name)).unwrap();
    let found = file.rbm.exact_log_normalizer().unwrap();
    assert!((found - log_z).abs() < 1e-5, "{name}: {found}");
    let recorded = file.log_z_exact.unwrap();
    assert!(
        (found - recorded).abs() < 1e-9,
        "{name}: {found} {recorded}"
    );
    assert_eq!(file.base.unwrap().visible_units(), 784);
}

#[test]
fn the_exact_log_z_of_the_machine_trained_by_cd() {
    check_exact_log_z("rbm20_cd1.npz", 173.863_528);
}

#[test]
fn the_exact_log_z_of_the_machine_trained_by_pcd() {
    check_exact_log_z("rbm20_pcd.npz", 207.367_236);
}
