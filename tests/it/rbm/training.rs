//! Training on the embedded digits, judged by the exact likelihood.

use annealed::Error;
use annealed::data::digits;
use annealed::model::{NormalizedModel, UnnormalizedModel};
use annealed::rbm::{BaseRate, ContrastiveDivergence, Rbm, TrainedRbm};
use nalgebra::{DMatrix, DVector};

fn mean_log_likelihood(
    model: &impl UnnormalizedModel<State = Vec<bool>>,
    log_z: f64,
    rows: &[Vec<bool>],
) -> f64 {
    let sum: f64 = rows.iter().map(|row| model.log_density(row) - log_z).sum();
    sum / rows.len() as f64
}

fn exact(rbm: &Rbm<f32>, rows: &[Vec<bool>]) -> f64 {
    mean_log_likelihood(rbm, rbm.exact_log_normalizer().unwrap(), rows)
}

#[test]
fn the_digits_are_what_they_were() {
    let digits = digits();
    assert_eq!((digits.images.len(), digits.labels.len()), (1_797, 1_797));
    assert_eq!(digits.labels[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let rows: Vec<String> = (digits.images[0].chunks(8))
        .map(|row| row.iter().map(|&ink| if ink { '#' } else { '.' }).collect())
        .collect();
    let zero = [
        "...##...", "..####..", "..#..##.", "..#..##.", "..#..##.", "..#..#..", "..#.##..",
        "...##...",
    ];
    assert_eq!(rows, zero);
    let ink: usize = digits.images.iter().flatten().filter(|&&on| on).count();
    assert_eq!(ink, INK);
}

/// Pixels of 8 or more in the source.
const INK: usize = 37151;

#[test]
fn both_kinds_of_training_raise_the_exact_likelihood_of_unseen_digits() {
    let images = digits().images;
    let (train, test) = images.split_at(1_500);
    let base = BaseRate::<f32>::from_data(12, train, 1.0).unwrap();
    let base = mean_log_likelihood(&base, base.log_normalizer(), test);
    for persistent in [false, true] {
        let start = Rbm::<f32>::from_data(12, train, 3).unwrap();
        let settings = ContrastiveDivergence::new(1)
            .persistent(persistent)
            .epochs(30);
        let TrainedRbm { rbm, curve, .. } = settings.train(start, train).unwrap();
        // Measured: -19.5 and -19.3, from -24.6.
        let reached = exact(&rbm, test);
        assert!(
            reached > base + 4.5,
            "persistent {persistent}: {base} -> {reached}"
        );
        let (first, last) = (curve[0], curve[29]);
        assert!(last.reconstruction_error < 0.8 * first.reconstruction_error);
        assert!(last.pseudo_log_likelihood > first.pseudo_log_likelihood + 3.0);
        assert_eq!((first.learning_rate, last.learning_rate), (0.1, 0.0));
    }
}

/// Many sweeps, the whole data as one batch and no penalty: close to the maximum likelihood,
/// where the model's moments are those of the data.
#[test]
fn trained_to_the_end_the_moments_match_the_data() {
    let row = |bits: &str| bits.chars().map(|c| c == '1').collect::<Vec<bool>>();
    let data: Vec<Vec<bool>> = [
        "1100", "1100", "1100", "0011", "0011", "0111", "1000", "0100", "0010", "1101",
    ]
    .iter()
    .cycle()
    .take(500)
    .map(|bits| row(bits))
    .collect();
    let start = Rbm::<f64>::from_data(2, &data, 1).unwrap();
    let settings = ContrastiveDivergence::new(10)
        .batch_size(500)
        .weight_decay(0.0);
    let trained = settings
        .epochs(500)
        .learning_rate(0.5, 0.0)
        .train(start, &data)
        .unwrap();
    let moments = trained.rbm.exact_moments().unwrap();
    for (i, model) in moments.visible.iter().enumerate() {
        let mean = data.iter().filter(|row| row[i]).count() as f64 / 500.0;
        assert!((mean - model).abs() < 0.02, "unit {i}: {mean} {model}");
    }
}

#[test]
fn the_same_seed_gives_the_same_machine() {
    let images = digits().images;
    let train = |seed| {
        let start = Rbm::<f32>::from_data(5, &images, seed).unwrap();
        let settings = ContrastiveDivergence::new(1)
            .persistent(true)
            .epochs(2)
            .seed(seed);
        settings.train(start, &images).unwrap()
    };
    assert_eq!(train(1), train(1));
    assert_ne!(train(1), train(2));
}

#[test]
fn persistent_chains_are_samples_of_about_the_machine() {
    let images = digits().images;
    let start = || Rbm::<f32>::from_data(5, &images, 1).unwrap();
    let settings = ContrastiveDivergence::new(5).batch_size(400).epochs(30);
    let trained = settings.persistent(true).train(start(), &images).unwrap();
    let chains = trained.chains.unwrap();
    assert_eq!(chains.len(), 400);
    let moments = trained.rbm.exact_moments().unwrap();
    for (i, p) in moments.visible.iter().enumerate() {
        let mean = chains.iter().filter(|v| v[i]).count() as f64 / 400.0;
        // One unit in 400 more, for those that are hardly ever on.
        let error = 4.0 * (p * (1.0 - p) / 400.0).sqrt() + 1.0 / 400.0;
        assert!((mean - p).abs() < error, "{i}: {mean} {p}");
    }
    assert_eq!(settings.train(start(), &images).unwrap().chains, None);
}

#[test]
fn progress_is_the_learning_curve() {
    let images = digits().images;
    let start = Rbm::<f32>::from_data(3, &images, 0).unwrap();
    let (mut seen, mut machines) = (Vec::new(), Vec::new());
    let settings = ContrastiveDivergence::new(2).epochs(3);
    let trained = settings
        .train_with(start, &images, |epoch, rbm| {
            seen.push(*epoch);
            machines.push(rbm.clone());
        })
        .unwrap();
    assert_eq!(machines[2], trained.rbm);
    assert_ne!(machines[1], trained.rbm);
    assert_eq!(seen, trained.curve);
    assert_eq!(
        seen.iter().map(|epoch| epoch.index).collect::<Vec<_>>(),
        [0, 1, 2]
    );
}

#[test]
fn bad_settings_and_data_are_named() {
    let data = vec![vec![true, false, true]; 4];
    let rbm = || Rbm::<f32>::from_data(2, &data, 0).unwrap();
    let cd = ContrastiveDivergence::new(1);
    let message = |settings: ContrastiveDivergence, data: &[Vec<bool>]| {
        settings.train(rbm(), data).unwrap_err().to_string()
    };
    assert!(message(cd, &[]).contains("data: got none"));
    assert!(message(cd, &[vec![true]]).contains("row of data: got 1, expected 3"));
    assert!(message(cd, &[vec![true, true, true], vec![]]).contains("row of data: got 0"));
    assert!(message(ContrastiveDivergence::new(0), &data).contains("sweeps"));
    assert!(message(cd.epochs(0), &data).contains("epochs"));
    assert!(message(cd.batch_size(0), &data).contains("batch_size"));
    assert!(message(cd.learning_rate(f64::NAN, 0.0), &data).contains("learning_rate"));
    assert!(message(cd.learning_rate(0.1, -1.0), &data).contains("learning_rate"));
    assert!(message(cd.momentum(1.0), &data).contains("momentum"));
    assert!(message(cd.weight_decay(f64::NAN), &data).contains("weight_decay"));
    assert!(Rbm::<f32>::from_data(2, &[], 0).is_err());
}

#[test]
fn divergence_is_an_error() {
    let data = vec![vec![true, false, true], vec![false, true, true]];
    let rbm = Rbm::<f32>::new(DMatrix::zeros(2, 3), DVector::zeros(2), DVector::zeros(3));
    let settings = ContrastiveDivergence::new(1)
        .learning_rate(1e38, 1e38)
        .weight_decay(10.0);
    let error = settings.train(rbm.unwrap(), &data).unwrap_err();
    assert!(matches!(error, Error::NotConverged { .. }), "{error}");
}
