//! Tests that damaged and forged files cause no panic, and take no memory beyond what their size allows.

use std::io::{Cursor, Write};

use zip::CompressionMethod::{Deflated, Stored};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::gzip::gzip;
use super::{Arrays, npy};
use crate::{BinaryData, DataLayout, Draws, RbmFile, RbmLayout};

fn rbm_of(bytes: &[u8]) -> Result<RbmFile<f64>, String> {
    RbmFile::take(Arrays::parse(bytes.to_vec())?, &RbmLayout::default())
}

fn data_of(bytes: &[u8]) -> Result<BinaryData, String> {
    BinaryData::take(Arrays::parse(bytes.to_vec())?, &DataLayout::default())
}

fn draws_of(bytes: &[u8]) -> Result<Draws, String> {
    Draws::parse(bytes.to_vec(), None)
}

fn zipped(method: zip::CompressionMethod, entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (key, bytes) in entries {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(format!("{key}.npy"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn rbm_npz(method: zip::CompressionMethod) -> Vec<u8> {
    let floats = |shape: &[usize], values: &[f64]| npy::format(shape, 8, values.iter().copied());
    let weights = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
    zipped(
        method,
        &[
            ("W", floats(&[2, 3], &weights)),
            ("a", floats(&[2], &[7.0, 8.0])),
            ("b", floats(&[3], &[9.0, 10.0, 11.0])),
            ("chains", floats(&[1, 3], &[0.0, 1.0, 1.0])),
        ],
    )
}

fn rbm_safetensors() -> Vec<u8> {
    use safetensors::{Dtype::F64, serialize, tensor::TensorView};
    let bytes =
        |values: &[f64]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let (w, a, b) = (
        bytes(&[1., 2., 3., 4., 5., 6.]),
        bytes(&[7., 8.]),
        bytes(&[9., 10., 11.]),
    );
    let view = |shape: &[usize], data| TensorView::new(F64, shape.to_vec(), data).unwrap();
    let tensors = [
        ("W", view(&[2, 3], &w)),
        ("a", view(&[1, 2], &a)),
        ("b", view(&[3, 1], &b)),
    ];
    serialize(tensors, None).unwrap()
}

fn data_files() -> Vec<Vec<u8>> {
    let rows = [0.0, 1.0, 1.0, 1.0, 0.0, 0.0];
    let npy = npy::format(&[2, 3], 8, rows.into_iter());
    let idx = [
        &[0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3][..],
        &[0, 1, 0, 1, 1, 0],
    ]
    .concat();
    let npz = zipped(Deflated, &[("arr_0", npy.clone())]);
    vec![npy, idx.clone(), gzip(&idx), npz]
}

#[test]
fn every_format_gives_the_same_rows() {
    for file in data_files() {
        let data = data_of(&file).unwrap();
        assert_eq!(data.rows(), [[false, true, false], [true, true, false]]);
    }
}

fn check_damaged(file: &[u8], read: impl Fn(&[u8]) -> bool) {
    assert!(read(file));
    for length in 0..file.len() {
        assert!(!read(&file[..length]), "{length} of {} bytes", file.len());
    }
    for bit in 0..8 * file.len() {
        let mut damaged = file.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let peak = peak_of(|| read(&damaged));
        // This is more than the window of deflate and more than each of these files.
        assert!(peak < 1 << 18, "bit {bit}: held {peak} bytes");
    }
}

fn peak_of<T>(work: impl FnOnce() -> T) -> usize {
    crate::allocation::peak_allocation(work).1
}

#[test]
fn damaged_rbms_are_refused_or_harmless() {
    for method in [Stored, Deflated] {
        check_damaged(&rbm_npz(method), |file| rbm_of(file).is_ok());
    }
    check_damaged(&rbm_safetensors(), |file| rbm_of(file).is_ok());
}

#[test]
fn damaged_data_are_refused_or_harmless() {
    for file in data_files() {
        check_damaged(&file, |file| data_of(file).is_ok());
    }
}

fn draws_files() -> Vec<Vec<u8>> {
    let npy = |shape: &[usize]| npy::format(shape, 8, (0..12).map(f64::from));
    let of_cmdstan = "# method = sample\n# num_samples = 2\n# num_warmup = 2\n# save_warmup = 1\n# thin = 1\n\
        lp__,theta.1,theta.2\n1,2,3\n1,2,3\n# Adaptation terminated\n4,5,6\n4,5,7\n";
    vec![
        b"\"\",\"chain\",\"x[1]\"\n\"1\",1,2.5\n\"2\",1,-3e1\n\"3\",2,4\n".to_vec(),
        of_cmdstan.into(),
        npy(&[2, 2, 3]),
        npy(&[4, 3]),
        zipped(
            Deflated,
            &[("mu", npy(&[3, 4])), ("theta", npy(&[3, 4, 1]))],
        ),
    ]
}

#[test]
fn damaged_draws_are_refused_or_harmless() {
    for file in draws_files() {
        draws_of(&file).unwrap();
        let cut = (0..file.len()).map(|length| file[..length].to_vec());
        let flipped = (0..8 * file.len()).map(|bit| {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            damaged
        });
        for damaged in cut.chain(flipped) {
            let peak = peak_of(|| draws_of(&damaged).map(|draws| draws.states()));
            assert!(peak < 1 << 18, "held {peak} bytes");
        }
    }
}

#[test]
fn draws_take_at_most_64_times_their_text_and_5_times_their_arrays() {
    let short = |count: usize| (0..count).map(|i| format!("{i:x}")).collect::<Vec<_>>();
    let header =
        |names: &[String]| format!("a{}\n{}0\n", names.join(",a"), "0,".repeat(names.len() - 1));
    let elements = short(4_096)
        .iter()
        .map(|i| format!("{i}.1"))
        .collect::<Vec<_>>();
    let chains = format!("chain,a\n{},0\n", short(60_000).join(",0\n"));
    let rows = format!("a,b\n{}", "0,0\n".repeat(100_000));
    for text in [header(&short(4_096)), header(&elements), chains, rows] {
        let peak = peak_of(|| draws_of(text.as_bytes()).unwrap());
        let times = peak as f64 / text.len() as f64;
        assert!(times < 64.0, "{times} for {}", &text[..30]);
    }
    let many = header(&short((1 << 20) + 1));
    assert!(
        draws_of(many.as_bytes())
            .unwrap_err()
            .contains("more than 1048576 columns")
    );
    for order in ["False", "True"] {
        let npy = zeros(&[2, 1_000, 50], "<f8", order);
        let npz = |method| zipped(method, &[("x", npy.clone()), ("y", npy.clone())]);
        for (file, arrays) in [(npy.clone(), 1), (npz(Stored), 2), (npz(Deflated), 2)] {
            let peak = peak_of(|| draws_of(&file).unwrap());
            let times = peak as f64 / (arrays * npy.len()) as f64;
            assert!(times < 5.0, "{times}");
        }
    }
}

#[test]
fn arrays_that_are_no_draws_are_refused() {
    let of = |shape: &[usize]| {
        let count = shape.iter().product();
        npy::format(shape, 8, vec![1.0; count].into_iter())
    };
    let not_finite = npy::format(&[2, 2], 8, [1.0, 2.0, 3.0, f64::NAN].into_iter());
    for (file, reason) in [
        (
            of(&[5]),
            "shape [5], expected (draws, parameters) or (chains, draws, parameters)",
        ),
        (
            of(&[30, 20, 2]),
            "array x: 30 chains of 20 draws by its shape [30, 20, 2], expected (chains, draws, ..)",
        ),
        (of(&[2, 3, 0]), "array x: shape [2, 3, 0] without numbers"),
        (
            not_finite,
            "x[1] is NaN at draw 1 of chain 0, expected a finite number",
        ),
        (
            zipped(Stored, &[]),
            "no arrays, expected one for each variable",
        ),
        (
            zipped(Stored, &[("a", of(&[4]))]),
            "array a: shape [4], expected (chains, draws, ..)",
        ),
        (
            zipped(Stored, &[("a", of(&[2, 4])), ("b", of(&[2, 3]))]),
            "array b: 2 chains of 3 draws, expected 2 of 4",
        ),
    ] {
        assert_eq!(draws_of(&file).unwrap_err(), reason);
    }
    assert_eq!(draws_of(b" \n").unwrap_err(), "an empty file");
}

#[test]
fn shapes_that_the_file_cannot_hold_allocate_nothing() {
    let lying = |shape: &str| {
        let text =
            String::from_utf8_lossy(&npy::format(&[7, 7], 8, [0.0; 49].into_iter())[10..128])
                .into_owned();
        let header = text.replace("7, 7, ", shape);
        let length = (header.len() as u16).to_le_bytes();
        [
            b"\x93NUMPY\x01\x00",
            &length[..],
            header.as_bytes(),
            &[0; 8],
        ]
        .concat()
    };
    for shape in [
        "99999999999, 9",
        "9999999999999999999999",
        "4294967296, 4294967296",
        "0, 5",
    ] {
        let npy = lying(shape);
        let idx = [&[0, 0, 8, 2][..], &[255; 8], &[0; 9]].concat();
        for file in [zipped(Deflated, &[("W", npy.clone())]), npy, idx] {
            let peak = peak_of(|| {
                let error = data_of(&file).unwrap_err();
                assert!(error.contains("shape"), "{shape}: {error}");
                assert!(rbm_of(&file).is_err(), "{shape}");
            });
            assert!(peak < 1 << 18, "{shape}: held {peak} bytes");
        }
    }
}

#[test]
fn an_entry_that_lies_about_its_size_is_refused() {
    let npy = npy::format(&[1_000, 10], 8, (0..10_000).map(|i| f64::from(i % 2)));
    let size = (npy.len() as u32).to_le_bytes();
    let file = zipped(Deflated, &[("W", npy.clone())]);
    let places: Vec<usize> = (0..file.len() - 4)
        .filter(|&i| file[i..i + 4] == size)
        .collect();
    let length = npy.len() as u32;
    for said in [length - 80, length + 80, u32::MAX - 1] {
        let mut forged = file.clone();
        for place in &places {
            forged[*place..place + 4].copy_from_slice(&said.to_le_bytes());
        }
        let (read, peak) = (data_of(&forged), peak_of(|| data_of(&forged)));
        assert!(read.unwrap_err().contains("key W"), "{said}");
        assert!(peak < 1 << 18, "{said}: held {peak} bytes");
    }
}

/// A `.npy` file of zeros.
fn zeros(shape: &[usize], descr: &str, fortran_order: &str) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let header =
        format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': ({sizes}), }}");
    let width = usize::from(descr.as_bytes()[2] - b'0');
    let length = (header.len() as u16).to_le_bytes();
    let data = vec![0; width * shape.iter().product::<usize>()];
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &data].concat()
}

#[test]
fn a_bomb_is_refused_at_its_header() {
    let million = vec![0; 10_000_000];
    let zip = zipped(Deflated, &[("W", million.clone())]);
    let declared_less = [&[0, 0, 8, 1, 0, 0, 0, 9][..], &million].concat();
    for (file, reason) in [
        (gzip(&million), "another format, expected .npy or IDX"),
        (gzip(&declared_less), "bytes of data for shape [9]"),
        (gzip(&zip), "another format, expected .npy or IDX"),
        (gzip(&gzip(&million)), "another format"),
        (zip, "another format"),
        (zipped(Deflated, &[("W", declared_less)]), "for shape [9]"),
    ] {
        let mut error = String::new();
        let peak = peak_of(|| error = data_of(&file).unwrap_err());
        assert!(error.contains(reason), "{error}");
        assert!(peak < 1 << 18, "{reason}: held {peak} bytes");
    }
}

#[test]
fn reading_takes_at_most_four_times_the_declared_size() {
    for (columns, descr) in [(16, "|u1"), (1_000, "|u1"), (784, "<f4"), (784, "<f8")] {
        let rows = 400_000 / columns;
        for order in ["False", "True"] {
            let npy = zeros(&[rows, columns], descr, order);
            let npz = |method| zipped(method, &[("x", npy.clone())]);
            for file in [npy.clone(), gzip(&npy), npz(Stored), npz(Deflated)] {
                let peak = peak_of(|| data_of(&file).unwrap()) as f64 / npy.len() as f64;
                assert!(peak < 4.0, "{columns} x {descr}, {order}: {peak}");
            }
        }
    }
    for (descr, width) in [("<f2", 8), ("<f4", 8), ("<f8", 8)] {
        let arrays = [("W", vec![200, 784]), ("a", vec![200]), ("b", vec![784])];
        let arrays = arrays.map(|(key, shape)| (key, zeros(&shape, descr, "False")));
        for method in [Stored, Deflated] {
            let file = zipped(method, &arrays);
            let peak = peak_of(|| rbm_of(&file).unwrap()) as f64 / (200 * 784 * width) as f64;
            assert!(peak < 4.0, "{descr}: {peak}");
        }
    }
}

#[test]
fn numbers_of_parts_are_limited() {
    let refused = |file: &[u8]| rbm_of(file).map(drop).unwrap_err();
    let dimensions = zeros(&[1; 65], "<f8", "True");
    assert!(refused(&dimensions).contains("65 dimensions"));
    let idx = [&[0, 0, 8, 65][..], &[0, 0, 0, 1].repeat(65), &[1]].concat();
    assert!(refused(&idx).contains("65 dimensions"));
    let text = [b"\x93NUMPY\x02\x00", &[0, 0, 1, 0][..], &[b' '; 70_000]].concat();
    assert!(refused(&text).contains("a header of 65536 bytes"));
    let names: Vec<String> = (0..4_097).map(|i| i.to_string()).collect();
    let entries: Vec<_> = names.iter().map(|name| (&name[..], vec![])).collect();
    assert!(refused(&zipped(Stored, &entries)).contains("4096 entries"));
    let narrow = zeros(&[(1 << 20) + 1, 1], "|u1", "False");
    let error = data_of(&narrow).unwrap_err();
    assert!(error.contains("1048577 rows of 1,"), "{error}");
}

#[test]
fn tensors_that_the_file_cannot_hold_are_refused() {
    let file = |header: &str, data: &[u8]| {
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), data].concat()
    };
    let tensor = |name: usize, begin: u64, end: u64| {
        let size = end - begin;
        format!(r#""{name}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{begin},{end}]}}"#)
    };
    // The largest size that the header's format allows, nine times: the sum reaches 2^64 - 1.
    let size = (1 << 61) - 1;
    let ends = (0..=8).map(|i| i * size).chain([u64::MAX]);
    let ends: Vec<u64> = ends.collect();
    let tensors = ends.windows(2).enumerate();
    let tensors: Vec<String> = tensors
        .map(|(i, ends)| tensor(i, ends[0], ends[1]))
        .collect();
    let huge = format!("{{{}}}", tensors.join(","));
    let long = format!("{{{}}}", " ".repeat(1 << 20));
    for (file, reason) in [
        (file(&huge, &[]), "declares 18446744073709551615"),
        (
            file(&format!("{{{}}}", tensor(0, 0, 9)), &[0; 8]),
            "8 bytes of data",
        ),
        (file(&format!("{{{}}}", tensor(0, 1, 9)), &[0; 9]), "header"),
        (file(&long, &[]), "a header of 1048586 bytes"),
        (vec![255; 16], "another format"),
    ] {
        let error = rbm_of(&file).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn files_of_other_programs_are_named() {
    for (file, named) in [
        (&b""[..], "an empty file"),
        (b"\x89HDF\r\n\x1a\n", "HDF5 (h5py reads it"),
        (b"MATLAB 5.0 MAT-file", "MATLAB (scipy.io.loadmat"),
        (b"MATLAB 7.3 MAT-file", "MATLAB 7.3 (h5py"),
        (b"0,1,1\n1,0,0\n", "a text of numbers (numpy.loadtxt"),
        (b"0\n1\n", "a text of numbers"),
        (b"\x80\x04\x95", "pickle"),
        (b"hello", "another format"),
        (b"\0\0\x0d\x03", "another format"),
    ] {
        assert!(rbm_of(file).unwrap_err().contains(named));
        assert!(data_of(file).unwrap_err().contains(named));
        assert!(draws_of(file).is_err());
    }
    let torch = {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("rbm/data.pkl", SimpleFileOptions::default())
            .unwrap();
        zip.finish().unwrap().into_inner()
    };
    assert!(rbm_of(&torch).unwrap_err().contains("torch.save"));
}
