//! Files of deep Boltzmann machines.

use annealed_files::{BinaryData, DeepLayout, read_deep};

/// A file of NumPy, whose upper weights lie the other way round, against NumPy's enumeration.
#[test]
fn files_name_their_layers() {
    let file = |name| {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/python")
            .join(name)
    };
    let read = |layout: &DeepLayout| read_deep::<f64>(file("deep.npz"), layout);
    let layout = || DeepLayout::new(["vishid", "hidpen"]);
    let names = ["visbiases", "hidbiases", "penbiases"];
    let deep = read(&layout().biases(names)).unwrap();
    let expected: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file("expected.json")).unwrap()).unwrap();
    let expected = |key| expected["deep"][key].as_f64().unwrap();
    let log_z = deep.to_rbm().unwrap().exact_log_normalizer().unwrap();
    assert!((log_z - expected("log_z")).abs() < 1e-10);
    let data = BinaryData::read(file("zeros_and_ones.npy")).unwrap();
    let found = deep.log_likelihood_bound(data.rows(), log_z).unwrap();
    let gap = expected("log_likelihood") - found.mean;
    assert!((0.0..0.5).contains(&gap), "{gap}");
    let text = |layout: DeepLayout| read(&layout).unwrap_err().to_string();
    assert!(
        text(layout().biases(["visbiases", "hidbiases"]))
            .contains("names of biases: got 2, expected 3")
    );
    let turned = text(layout().biases(["visbiases", "penbiases", "hidbiases"]));
    assert!(
        turned.contains(
            "key vishid: shape [5, 16], expected [4, 16] or [16, 4], by the biases visbiases and"
        ),
        "{turned}"
    );
    assert!(text(layout()).contains("no key b; the file has"));
    assert!(text(layout()).contains("--biases b,a1,a2"));
}

/// Weights of layers of 3, 3 and 2 units: the upper ones tell which way round the square ones are.
#[test]
fn square_weights_lie_as_the_others_do() {
    let numbers =
        |count: usize, first: f32| (0..count).map(|i| first + i as f32).collect::<Vec<_>>();
    let write = |name: &str, upper: [usize; 2]| {
        let file = std::env::temp_dir().join(format!("annealed-{}-{name}", std::process::id()));
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        let shapes = [
            ("W1", vec![3, 3]),
            ("W2", upper.to_vec()),
            ("b", vec![3]),
            ("a1", vec![3]),
            ("a2", vec![2]),
        ];
        for (key, shape) in shapes {
            let values = numbers(shape.iter().product(), 1.0);
            let begin = data.len();
            data.extend(values.iter().flat_map(|x| x.to_le_bytes()));
            let offsets = [begin, data.len()];
            header.insert(
                key.into(),
                serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}),
            );
        }
        let header = serde_json::to_vec(&header).unwrap();
        let whole = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
        std::fs::write(&file, whole).unwrap();
        file
    };
    let read = |file: &std::path::Path, names: &[&str]| {
        let biases = ["b", "a1", "a2"].into_iter().take(names.len() + 1);
        read_deep::<f64>(file, &DeepLayout::new(names.to_vec()).biases(biases))
    };
    let (as_they_are, turned) = (
        write("a.safetensors", [2, 3]),
        write("b.safetensors", [3, 2]),
    );
    let first_row = |file: &std::path::Path| {
        let deep = read(file, &["W1", "W2"]).unwrap();
        deep.weights()[0]
            .row(0)
            .iter()
            .copied()
            .collect::<Vec<f64>>()
    };
    assert_eq!(first_row(&as_they_are), [1.0, 2.0, 3.0]);
    assert_eq!(first_row(&turned), [1.0, 4.0, 7.0]);
    let refused = read(&turned, &["W1"]).unwrap_err().to_string();
    assert!(
        refused.contains("weights are square") && refused.contains("--square-transposed"),
        "{refused}"
    );
    for file in [as_they_are, turned] {
        std::fs::remove_file(file).unwrap();
    }
}
