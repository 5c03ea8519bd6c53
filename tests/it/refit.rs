//! Rounds whose base is refitted: unbiased, of smaller errors, and no worse where no Gaussian fits.

use crate::shared;
use annealed::adaptive::{NoRefit, Rounds, RoundsRun};
use annealed::estimate::{LogZ, WeightedSample};
use annealed::kernel::{Hmc, RandomWalkMetropolis};
use annealed::model::{
    Differentiable, Gaussian, GaussianMixture, NormalizedModel, Prior, Priors, StudentT,
    UniformBox, UnnormalizedModel,
};
use annealed::path::{GeometricPath, TemperedPath};
use nalgebra::{DMatrix, DVector, dmatrix, dvector};

type Vectors<K> = RoundsRun<DVector<f64>, K>;

/// A normal likelihood of correlated parameters, and the log evidence with the prior N(0, I).
fn correlated(dimension: usize) -> (Gaussian, f64) {
    let covariance = DMatrix::from_fn(dimension, dimension, |i, j| {
        0.05 * 0.9_f64.powi(i.abs_diff(j) as i32)
    });
    let mean = DVector::from_element(dimension, 1.5);
    let sum = &covariance + DMatrix::identity(dimension, dimension);
    let likelihood = Gaussian::new(mean.clone(), covariance).unwrap();
    // The evidence is N(mean; 0, I + S), and the likelihood lacks its constant.
    let data = Gaussian::new(DVector::zeros(dimension), sum).unwrap();
    let evidence = data.log_density(&mean) - data.log_normalizer() + likelihood.log_normalizer();
    (likelihood, evidence)
}

#[test]
fn errors_are_smaller_and_right_at_equal_evaluations() {
    let (likelihood, evidence) = correlated(6);
    let path = TemperedPath::new(Gaussian::standard(6).unwrap(), likelihood);
    let rounds = |seed| {
        Rounds::new(&path, Hmc::new(0.5, 3).unwrap())
            .chains(64)
            .budget(100_000)
            .seed(seed)
    };
    let (mut squares, mut gain, mut students) = (0.0, 0.0, 0);
    for seed in 0..20 {
        let refitted = rounds(seed).refit().run().unwrap();
        let plain = rounds(seed).run().unwrap();
        let z = (refitted.log_z() - evidence) / refitted.standard_error();
        assert!(z.abs() < 4.0, "{refitted}");
        squares += z * z / 20.0;
        gain += plain.standard_error() / refitted.standard_error() / 20.0;
        assert!(refitted.evaluations() <= 100_000 && plain.refit().is_none());
        let base = refitted.refit().expect("a Gaussian fits");
        students += usize::from(base.degrees_of_freedom().is_some());
        assert!(base.own_share() < 0.1, "{refitted}");
    }
    assert!((0.3..2.2).contains(&squares), "{squares}");
    assert!(gain > 3.0, "{gain}");
    // The tails of 64 states may look heavy by chance.
    assert!(students <= 3, "{students}");
}

/// Returns the mean of values and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Estimates Z from the states of a run as if a Gaussian fitted to the same states had drawn them.
fn from_its_own_states<K>(run: &Vectors<K>, target: &Gaussian) -> f64 {
    let moment = |f: &dyn Fn(f64) -> f64| run.run().expectation(|x| f(x[0])).0;
    let centre = moment(&|x| x);
    let deviation = moment(&|x| (x - centre).powi(2)).sqrt();
    let fitted = Gaussian::isotropic(dvector![centre], 1.15 * deviation).unwrap();
    let ratio = |x: &DVector<f64>| {
        (target.log_density(x) - fitted.log_density(x) + fitted.log_normalizer()).exp()
    };
    let states = run.run().states();
    states.iter().map(ratio).sum::<f64>() / states.len() as f64
}

#[test]
fn the_mean_of_many_small_runs_is_right() {
    let target = Gaussian::isotropic(dvector![2.0], 0.3).unwrap();
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target.clone());
    let (mut ratios, mut twin) = (Vec::new(), Vec::new());
    for seed in 0..400 {
        let rounds = Rounds::new(&path, RandomWalkMetropolis::new(0.5).unwrap()).chains(24);
        let run = rounds.rounds(2).moves(1).seed(seed).refit().run().unwrap();
        ratios.push((run.log_z() - target.log_normalizer()).exp());
        let wrong = from_its_own_states(&run, &target);
        twin.push(wrong / target.log_normalizer().exp());
    }
    let (ratio, error) = mean(&ratios);
    assert!(
        (ratio - 1.0).abs() < 4.0 * error && error < 0.02,
        "{ratio} +- {error}"
    );
    let (wrong, error) = mean(&twin);
    assert!((wrong - 1.0).abs() > 4.0 * error, "{wrong} +- {error}");
}

#[test]
fn heavy_tails_get_a_student_t() {
    let gaussian = Gaussian::new(dvector![3.0, 0.0], dmatrix![1.0, 0.5; 0.5, 1.0]).unwrap();
    let target = StudentT::new(gaussian, 3.0).unwrap();
    let base = Gaussian::isotropic(DVector::zeros(2), 3.0).unwrap();
    let path = GeometricPath::new(base, &target);
    let rounds = Rounds::new(&path, Hmc::new(0.5, 3).unwrap());
    let run = rounds.budget(200_000).seed(1).refit().run().unwrap();
    let nu = run.refit().and_then(|base| base.degrees_of_freedom());
    assert!(nu.is_some_and(|nu| nu <= 5.0), "{run}");
    let error = run.log_z() - target.log_normalizer();
    assert!(
        error.abs() < 4.0 * run.standard_error() && run.standard_error() < 0.05,
        "{run}"
    );
}

#[test]
fn two_modes_are_kept() {
    let at = |x: f64| Gaussian::isotropic(DVector::from_element(3, x), 0.5).unwrap();
    let target = GaussianMixture::new([(0.3, at(-2.0)), (0.7, at(2.0))]).unwrap();
    let base = Gaussian::isotropic(DVector::zeros(3), 3.0).unwrap();
    let path = GeometricPath::new(base, target);
    let rounds = Rounds::new(&path, Hmc::new(0.5, 3).unwrap()).budget(300_000);
    let run = rounds.seed(1).refit().run().unwrap();
    assert!(run.log_z().abs() < 4.0 * run.standard_error(), "{run}");
    assert!(run.refit().is_some() && run.standard_error() < 0.1, "{run}");
    let (left, error) = run.run().expectation(|x| f64::from(u8::from(x[0] < 0.0)));
    assert!((left - 0.3).abs() < 4.0 * error, "{left} +- {error}");
}

/// Eight coordinates with wells at about -1.7 and 1.7 that hold 15% and 85%, and their log Z.
fn wells() -> (impl Differentiable<State = DVector<f64>> + Send + Sync, f64) {
    let well = |x: f64| -x.powi(4) + 6.0 * x * x + 0.5 * x;
    let wells = shared::gradient_model(8, move |x: &[f64], slope: &mut [f64]| {
        for (slope, x) in slope.iter_mut().zip(x) {
            *slope = -4.0 * x.powi(3) + 12.0 * x + 0.5;
        }
        x.iter().map(|x| well(*x)).sum()
    });
    let mass: f64 = (-4_000..4_000)
        .map(|i| 1e-3 * well(1e-3 * f64::from(i)).exp())
        .sum();
    (wells.unwrap(), 8.0 * mass.ln())
}

#[test]
fn many_modes_keep_the_base() {
    let (target, exact) = wells();
    let path = GeometricPath::new(Gaussian::standard(8).unwrap(), target);
    // Few chains come from fewer ancestors, and their first rounds may show one mode.
    for (seed, chains) in [(0, 256), (1, 256), (26, 64), (35, 64)] {
        let rounds = Rounds::new(&path, Hmc::new(0.3, 3).unwrap()).chains(chains);
        let run = rounds.budget(400_000).seed(seed).refit().run().unwrap();
        let found = run.no_refit();
        assert!(
            matches!(found, Some(NoRefit::Modes { modes, .. }) if modes > 2),
            "{run}"
        );
        assert!(
            run.to_string().contains("base: the path's own, since"),
            "{run}"
        );
        let error = (run.log_z() - exact).abs();
        assert!(
            run.refit().is_none() && error < 4.0 * run.standard_error(),
            "{run}"
        );
        assert!(run.standard_error() < 0.5, "{run}");
    }
}

/// A regression with ten coefficients and a horseshoe prior (Carvalho, Polson and Scott 2010), non-centred: ridges that no
/// Gaussian or Student t covers.
#[test]
fn a_horseshoe_keeps_its_base() {
    const OBSERVED: [f64; 10] = [0.03, -0.12, 0.2, 4.0, -2.5, 0.01, 0.07, -0.18, 0.9, -0.02];
    let mut priors = vec![Prior::normal(0.0, 1.0).unwrap(); 10];
    priors.resize(21, Prior::half_cauchy(1.0).unwrap());
    let priors = Priors::new(priors).unwrap();
    let likelihood = shared::gradient_model(21, |x: &[f64], gradient: &mut [f64]| {
        let (variance, global) = (0.0256, x[20]);
        let mut log_likelihood = 0.0;
        for (i, y) in OBSERVED.iter().enumerate() {
            let (z, local) = (x[i], x[10 + i]);
            let off = (y - z * local * global) / variance;
            gradient[i] += off * local * global;
            gradient[10 + i] += off * z * global;
            gradient[20] += off * z * local;
            log_likelihood -= 0.5 * off * off * variance;
        }
        log_likelihood
    });
    let path = TemperedPath::new(&priors, priors.likelihood(likelihood.unwrap()));
    let rounds = Rounds::new(&path, Hmc::new(0.2, 3).unwrap()).budget(600_000);
    let run = rounds.seed(2).refit().run().unwrap();
    assert!(run.refit().is_none(), "{run}");
    assert!(
        matches!(run.no_refit(), Some(NoRefit::Tails { .. })),
        "{run}"
    );
}

#[test]
fn a_target_with_edges_keeps_its_base() {
    let base = UniformBox::new([(0.0, 2.0), (0.0, 2.0)]).unwrap();
    let likelihood = shared::function(|x: &DVector<f64>| -3.0 * (x[0] + x[1]));
    let path = TemperedPath::new(base, likelihood);
    let rounds = Rounds::new(&path, RandomWalkMetropolis::new(0.3).unwrap());
    let run = rounds.budget(200_000).seed(1).refit().run().unwrap();
    assert!(
        run.refit().is_none() && run.no_refit() == Some(NoRefit::Edges),
        "{run}"
    );
    let exact = 2.0 * ((1.0 - (-6.0_f64).exp()) / 3.0 / 2.0).ln();
    assert!(
        (run.log_z() - exact).abs() < 4.0 * run.standard_error(),
        "{run}"
    );
}
