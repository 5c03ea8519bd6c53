//! Units from data, files, and bad input, which is named.

use annealed::Result;
use annealed::harmonium::{CategoricalUnits, GaussianUnits, Harmonium, HarmoniumPath};
use annealed::prelude::ContrastiveDivergence;
use nalgebra::{DMatrix, DVector, dvector};

#[cfg(feature = "serde")]
use super::{categorical, gaussian};

#[test]
fn units_fitted_to_data_have_its_moments() {
    let data = [dvector![1.0, 5.0], dvector![3.0, 5.0]];
    let units = GaussianUnits::from_data(&data, 2.0).unwrap();
    assert_eq!(units.means(), &dvector![2.0, 5.0]);
    // The variances 1 and 0 of two rows, and twice their mean, 1/2.
    let deviations = dvector![0.75_f64.sqrt(), 0.5];
    assert!((units.deviations() - deviations).amax() < 1e-15);
    assert_eq!(
        GaussianUnits::from_data(&data[..], 0.0)
            .unwrap_err()
            .to_string(),
        "invalid deviations: got 0 at index 1, expected positive numbers with finite squares"
    );
    let units = CategoricalUnits::from_data(2, &[vec![1, 0], vec![1, 1], vec![1, 0]], 0.5).unwrap();
    let expected = DMatrix::from_row_slice(2, 2, &[0.125, 0.625, 0.875, 0.375]);
    assert!((units.probabilities() - expected).amax() < 1e-15);
}

fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn bad_parameters_are_named() {
    let units = || CategoricalUnits::uniform(3, 2).unwrap();
    let machine = |rows, columns, biases| {
        let weights = DMatrix::from_element(rows, columns, 0.5);
        message(Harmonium::new(weights, DVector::zeros(biases), units()))
    };
    assert!(machine(0, 6, 0).starts_with("invalid hidden_bias: got none"));
    assert!(machine(2, 6, 3).contains("rows of weights: got 2, expected 3"));
    assert!(machine(2, 2, 2).contains("columns of weights: got 2, expected 6"));
    let weights = DMatrix::from_element(1, 6, f64::NAN);
    let found = message(Harmonium::new(weights, dvector![0.0], units()));
    assert!(
        found.starts_with("invalid weights: got NaN at index 0"),
        "{found}"
    );
    assert!(message(Harmonium::start(0, units(), 1)).starts_with("invalid hidden_units: got 0"));
    assert!(message(Harmonium::start(usize::MAX, units(), 1)).contains("hidden_units"));
    assert!(message(CategoricalUnits::uniform(usize::MAX, 2)).contains("categories"));
    assert!(message(CategoricalUnits::uniform(2, 0)).contains("0 units"));
    let bias = CategoricalUnits::new(DMatrix::from_element(1, 1, f64::INFINITY));
    assert!(message(bias).starts_with("invalid biases: got inf"));
    for deviation in [0.0, -1.0, f64::NAN, 1e-200, 1e200] {
        let found = message(GaussianUnits::new(dvector![0.0], dvector![deviation]));
        assert!(found.starts_with("invalid deviations: got"), "{found}");
    }
    assert!(message(GaussianUnits::new(dvector![], dvector![])).contains("means: got none"));
    assert!(message(GaussianUnits::new(dvector![0.0], dvector![])).contains("deviations: got 0"));
    let other = CategoricalUnits::uniform(2, 3).unwrap();
    let target = Harmonium::start(2, units(), 1).unwrap();
    let found = message(HarmoniumPath::new(other, target.clone()));
    assert!(
        found.contains("units of the base: got 3, expected 2"),
        "{found}"
    );
    let other = CategoricalUnits::uniform(2, 2).unwrap();
    let found = message(HarmoniumPath::new(other, target));
    assert!(
        found.contains("statistics of the base: got 4, expected 6"),
        "{found}"
    );
    let large = Harmonium::start(26, units(), 1).unwrap();
    let found = message(large.exact_log_normalizer());
    assert!(
        found.starts_with("invalid hidden units: got 26, expected at most 25"),
        "{found}"
    );
}

#[test]
fn bad_data_are_named() {
    let units = CategoricalUnits::uniform(3, 2).unwrap();
    let machine = Harmonium::start(2, units.clone(), 1).unwrap();
    let rows = [vec![0, 1], vec![2, 3]];
    let expected = "invalid row of data: got 3 at index 1, expected categories below 3";
    assert_eq!(
        message(CategoricalUnits::from_data(3, &rows, 1.0)),
        expected
    );
    assert_eq!(
        message(machine.log_likelihood(&rows, 0.0, &units)),
        expected
    );
    let settings = ContrastiveDivergence::new(1);
    assert_eq!(
        message(settings.train_harmonium(machine.clone(), &rows)),
        expected
    );
    let rows = [vec![0, 1, 2]];
    let found = message(settings.train_harmonium(machine.clone(), &rows));
    assert!(found.contains("row of data: got 3, expected 2"), "{found}");
    assert!(message(settings.train_harmonium(machine.clone(), &[])).contains("data: got none"));
    let found = message(
        settings
            .epochs(0)
            .train_harmonium(machine.clone(), &[vec![0, 0]]),
    );
    assert!(found.contains("epochs: got 0"), "{found}");
    assert!(message(machine.log_likelihood(&[vec![0, 0]], f64::NAN, &units)).contains("log_z"));
    assert!(message(GaussianUnits::from_data(&[], 1.0)).contains("data: got none"));
    let found = message(GaussianUnits::from_data(&[dvector![f64::NAN]], 1.0));
    assert!(
        found.starts_with("invalid row of data: got NaN at index 0"),
        "{found}"
    );
    let found = message(GaussianUnits::from_data(&[dvector![1.0]], -1.0));
    assert!(found.starts_with("invalid smoothing: got -1"), "{found}");
}

#[cfg(feature = "serde")]
#[test]
fn machines_survive_json_and_are_checked() {
    let machine = gaussian(3);
    let text = serde_json::to_string(&machine).unwrap();
    assert_eq!(
        serde_json::from_str::<Harmonium<GaussianUnits>>(&text).unwrap(),
        machine
    );
    let given = machine.visible_given(&[true, true, false]);
    let read = serde_json::from_str(&serde_json::to_string(&given).unwrap());
    assert_eq!(read.ok(), Some(given));
    let machine = categorical(3);
    let mut json = serde_json::to_value(&machine).unwrap();
    let read = serde_json::from_value::<Harmonium<CategoricalUnits>>(json.clone());
    assert_eq!(read.unwrap(), machine);
    json["visible"]["biases"][1] = serde_json::json!([0.5, 0.5]);
    let read = serde_json::from_value::<Harmonium<CategoricalUnits>>(json);
    let found = read.unwrap_err().to_string();
    assert!(
        found.contains("biases of a unit: got 2, expected 3"),
        "{found}"
    );
}
