//! Functions that return a `Result` do not panic: they are called with numbers and sizes that nobody means.

use annealed::adaptive::FirstPass;
use annealed::ais::{Ais, Run, RunPart};
use annealed::bidirectional::TargetSamples;
use annealed::drift::{
    BumpFeatures, EnsembleModifier, QuadratureModifier, RidgeModifier, RidgePath, RidgePrior,
    Sinusoid,
};
use annealed::estimate::{BennettEstimate, Estimate, importance_weighted_bound, jackknife};
use annealed::harmonium::{CategoricalUnits, GaussianUnits, Harmonium};
use annealed::kernel::{
    Hmc, Mala, Preconditioner, RandomWalkMetropolis, Slice, StepSize, TransitionKernel, Tunable,
    UnadjustedLangevin,
};
use annealed::learned::{
    AmortizedTransitions, AuxiliaryPath, ConditionalGaussian, Coupling, Family, InvertibleMap,
    LearnedTransitions, Mean, mode_occupancy,
};
use annealed::model::{
    Bernoulli, Gaussian, GaussianMixture, JointPrior, NormalizedModel, Prior, Priors, Sampleable,
    StudentT, UniformBox, UnnormalizedModel,
};
use annealed::nested::{LevelPath, NestedSmc};
use annealed::path::{AnnealingPath, GaussianPath, MomentPath, TemperedPath};
use annealed::pilot::{
    BinnedSchedule, Friction, ScheduleMetric, Survey, SurveyPoint, VarOpt, allocate_stages,
};
use annealed::population::{Population, Resampling};
use annealed::random::{Purpose, stream};
use annealed::rbm::{
    BaseRate, ContrastiveDivergence, ExactMatching, MomentChains, PersistentMatching, Rbm,
    RbmMatching, RbmMoments, RbmPath,
};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use nalgebra::{DMatrix, DVector, dmatrix, dvector};

type Vector = DVector<f64>;

const NUMBERS: [f64; 11] = [
    0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e308,
    5e-324,
    1e154,
];

/// Vectors of up to three equal entries.
fn vectors() -> Vec<Vector> {
    let of = |n: usize| NUMBERS.map(|x| DVector::from_element(n, x));
    (0..4).flat_map(of).collect()
}

/// Matrices of up to three rows and columns.
fn matrices() -> Vec<DMatrix<f64>> {
    let sizes = (0..16).map(|i| (i / 4, i % 4));
    let of = |(rows, columns)| {
        let entry = |x: f64| move |i, j| if i == j { x } else { 0.1 * x };
        NUMBERS.map(|x| DMatrix::from_fn(rows, columns, entry(x)))
    };
    sizes.flat_map(of).collect()
}

/// Asks a model for its densities and its normaliser, whatever they are.
fn ask<M: Sampleable<State = Vector> + NormalizedModel>(model: &Result<M>) {
    let Ok(model) = model else { return };
    let state = model.sample(&mut stream(1, Purpose::RUN, 0));
    for x in NUMBERS {
        model.log_density(&DVector::from_element(state.len(), x));
    }
    model.log_normalizer();
}

#[test]
fn models_of_any_numbers_are_made_or_refused() {
    for v in vectors() {
        for m in matrices() {
            ask(&Gaussian::new(v.clone(), m.clone()));
            ask(&Gaussian::from_precision(v.clone(), m));
        }
        for w in vectors() {
            ask(&Gaussian::diagonal(v.clone(), w.clone()));
            let _ = GaussianUnits::new(v.clone(), w);
        }
        for x in NUMBERS {
            ask(&Gaussian::isotropic(v.clone(), x));
        }
        let _ = Bernoulli::new(v.clone());
        let _ = Bernoulli::from_probabilities(&v);
        let _ = Preconditioner::deviations(v.clone());
        let _ = BaseRate::<f64>::new(2, v.clone()).map(|base| base.log_normalizer());
        let _ = GaussianUnits::from_data(&[v.clone(), DVector::zeros(2)], 1.0);
        let _ = GaussianUnits::from_data(&[v], 0.0);
    }
    for (a, b) in pairs() {
        for prior in [
            Prior::normal,
            Prior::log_normal,
            Prior::gamma,
            Prior::inverse_gamma,
            Prior::beta,
            Prior::uniform,
        ] {
            ask(&prior(a, b).and_then(|prior| Priors::new([prior])));
            let ordered = prior(a, b).and_then(|prior| JointPrior::ordered(prior, 3));
            ask(&ordered.and_then(|ordered| Priors::new([ordered])));
            let effects = prior(a, b).and_then(|prior| {
                let effects = JointPrior::effects(prior, 2, None, Some(0))?;
                Priors::new([prior.into(), effects])
            });
            ask(&effects);
        }
        ask(&JointPrior::dirichlet([a, b, a]).and_then(|simplex| Priors::new([simplex])));
        ask(&JointPrior::correlation(3, a).and_then(|law| Priors::new([law])));
        for c in NUMBERS {
            ask(&Prior::student_t(a, b, c).and_then(|prior| Priors::new([prior])));
            let gaussian = Gaussian::isotropic(dvector![a], b);
            ask(&gaussian.and_then(|gaussian| StudentT::new(gaussian, c)));
        }
        ask(&UniformBox::new([(a, b)]));
        for dimension in [1, 2] {
            let normal = |dimension| Gaussian::standard(dimension).unwrap();
            let _ = GaussianMixture::new([(a, normal(1)), (b, normal(dimension))]);
        }
        let _ = BumpFeatures::new(1, &[dvector![a]], &[b]);
    }
}

fn pairs() -> impl Iterator<Item = (f64, f64)> {
    NUMBERS.into_iter().flat_map(|a| NUMBERS.map(|b| (a, b)))
}

#[test]
fn schedules_kernels_and_estimates_of_any_numbers_are_made_or_refused() -> Result<()> {
    let likelihood = TemperedPath::new(Gaussian::standard(1)?, Gaussian::standard(1)?);
    for (a, b) in pairs() {
        let _ = StepSize::knots([(a, b), (b, a)]);
        let _ = StepSize::knots([(a, b)]).map(|size| NUMBERS.map(|x| size.at(x)));
        let metric = ScheduleMetric::new(vec![0.0, a, 1.0], vec![b, a, 1.0]);
        let _ = metric.and_then(|metric| metric.smoothed(3).floored(a)?.schedule(5));
        let _ = Schedule::piecewise_linear(&[(3, a), (2, b)]);
        let _ = Schedule::power(5, a);
        if let Ok(schedule) = Schedule::new([0.0, a, b, 1.0]) {
            let _ = schedule.with_step_limit(a).is_ok() || schedule.with_speed_limit(b).is_ok();
        }
        let bennett = BennettEstimate::from_log_weights(&[a, b, 0.0], &[b, 1.0, a]);
        let _ = bennett.and_then(|estimate| estimate.interval_at(a));
        let _ = Estimate::from_log_weights(&[a, b, 0.0]).map(|estimate| estimate.warnings());
        let _ = Estimate::from_log_weights(&[a]).map(|estimate| estimate.interval());
        let _ = importance_weighted_bound(&[a, b, 0.0], 2);
        let _ = jackknife(&[a, b, 0.0, 1.0], 2, 1);
        let _ = LevelPath::new(&likelihood, [a, b]).is_ok();
        let _ = allocate_stages(&[a, b], 10);
        let _ = BinnedSchedule::default().with_costs(&[a, b], 10);
        let schedule = Schedule::linear(2)?;
        let _ = QuadratureModifier::new(&likelihood, &schedule, (a, b), 11).is_ok();
        let prior = RidgePrior::new(dmatrix![1.0, 0.5; 0.2, 1.0], 1.0, 0.5)?;
        let _ = prior.log_smoothed(&wave(1.0), a, b);
        let point = |beta| SurveyPoint {
            stage: 1,
            beta,
            squared_steps: a,
            derivative_variance: b,
            unweighted_variance: b,
            var_log_weight: a,
            effective_sample_size: b,
            dead: 500,
            acceptance: Some(a),
        };
        if let Ok(survey) = Survey::new(10, vec![point(0.0), point(1.0)]) {
            survey.warnings();
            let _ = Friction::default().schedule(&survey, 5);
            let _ = VarOpt::default().schedule(&survey, 5);
            let _ = BinnedSchedule::default().schedule(&survey, 5);
        }
        let _ = RandomWalkMetropolis::new(a).is_ok() && Mala::new(a).is_ok();
        let _ =
            Hmc::new(a, 1).is_ok() && Slice::new(a).is_ok() && UnadjustedLangevin::new(b).is_ok();
        let _ = Resampling::when_ess_below(a);
    }
    Ok(())
}

fn wave(amplitude: f64) -> Sinusoid {
    Sinusoid {
        amplitude,
        frequency: 1.0,
        phase: 0.0,
    }
}

#[test]
fn matrices_of_any_shape_are_taken_or_refused() {
    let vectors = vectors();
    for m in matrices() {
        let _ = Preconditioner::covariance(&m);
        let _ = CategoricalUnits::new(m.clone());
        let _ = RidgePrior::new(m.clone(), 1.0, m.sum());
        let waves = (0..m.nrows()).map(|_| wave(1.0));
        if let Ok(path) = RidgePath::new(m.clone(), waves, m.sum(), 1.0, 1.0) {
            let _ = RidgeModifier::new(&path, &Schedule::linear(2).unwrap(), 11);
            let _ = path.into_vectors().is_ok();
        }
        for v in vectors.iter().step_by(3) {
            for w in vectors.iter().step_by(3) {
                if let Ok(rbm) = Rbm::<f64>::new(m.clone(), v.clone(), w.clone()) {
                    let _ = rbm.exact_log_normalizer().is_ok() && rbm.exact_moments().is_ok();
                    let _ = rbm.cast::<f32>();
                }
            }
        }
    }
}

/// All that takes two sizes, which do not fit or are 0.
#[test]
fn sizes_that_do_not_fit_are_refused() -> Result<()> {
    let rbm = || {
        let (a, b) = (dvector![0.1, 0.2], dvector![0.0, 0.1, 0.2]);
        Rbm::<f64>::new(DMatrix::from_element(2, 3, 0.3), a, b).unwrap()
    };
    let two = Schedule::linear(2)?;
    for (n, k) in (0..16).map(|i| (i / 4, i % 4)) {
        let rows = vec![vec![true; k]; n];
        let ragged: Vec<_> = (0..n).map(|length| vec![true; length]).collect();
        for data in [&rows, &ragged] {
            let _ = Rbm::<f32>::from_data(n, data, 1);
            let _ = BaseRate::<f32>::from_data(n, data, 1.0);
            let _ = RbmMoments::from_data(&rbm(), data);
            let _ = rbm().log_likelihood(data, 1.0, &BaseRate::uniform(2, 3)?);
            let training = ContrastiveDivergence::new(k).epochs(n).batch_size(n);
            let _ = training.train(rbm(), data).is_ok();
        }
        let _ = BaseRate::uniform(n, k).and_then(|base| RbmPath::new(base, rbm()));
        let _ = rbm().exact_samples(n, 1);
        let moments = BaseRate::<f64>::uniform(n.max(1), k.max(1))?.moments();
        let _ = rbm().exact_moments()?.average(&moments, 0.5);
        let _ = BaseRate::<f64>::from_moments(&moments, NUMBERS[n + k]);
        let persistent = PersistentMatching::full().updates(2).particles(n);
        let _ = persistent.match_moments(&rbm(), &moments);
        let _ = ExactMatching::default()
            .iterations(n)
            .match_moments(&rbm(), &moments);
        let _ = MomentChains::full()
            .chains(n)
            .sweeps(k)
            .burn_in(n)
            .moments(&rbm());
        let _ = CategoricalUnits::from_data(n, &[vec![5; k], vec![1; n]], 1.0);
        let _ = CategoricalUnits::uniform(2, k).and_then(|units| Harmonium::start(n, units, 1));
        let _ = CategoricalUnits::uniform(n, 2)
            .and_then(|units| Harmonium::new(DMatrix::zeros(n, k), DVector::zeros(k), units));
        let _ = AmortizedTransitions::new(Mean::Affine, n, k, 1, 1);
        let _ = LearnedTransitions::new(Mean::Gated { hidden: k }, n, k, 1);
        let _ = ConditionalGaussian::from_parameters(Mean::Affine, n, vec![0.0; k]);
        let normal = |n: usize| Gaussian::standard(n.max(1)).unwrap();
        for coupling in [
            Coupling { hidden: k, bins: 1 },
            Coupling { hidden: 1, bins: k },
        ] {
            let rng = &mut stream(1, Purpose::TESTING, 0);
            if let Ok(map) = InvertibleMap::new(coupling, n, rng) {
                let _ = map.apply(&DVector::zeros(k)).is_ok();
                let _ = map.invert(&DVector::zeros(k)).is_ok();
            }
        }
        let mixture = Family::Mixture {
            mean: Mean::Affine,
            components: k,
        };
        let _ = LearnedTransitions::new(mixture, n, k, 1);
        let auxiliary = AuxiliaryPath::new(GaussianPath::new(normal(n), normal(n))?, k);
        assert_eq!(auxiliary.is_ok(), k > 0);
        let _ = mode_occupancy(&vec![DVector::zeros(n); k], &vec![DVector::zeros(k); n]);
        let _ = GaussianPath::new(normal(n), normal(k)).is_ok();
        let _ = MomentPath::new(normal(n), normal(k)).is_ok();
        let _ = Gaussian::laplace(&normal(n), DVector::zeros(k));
        let square = |_: &Vector| DMatrix::identity(k, n);
        let _ = Gaussian::laplace_with_hessian(&normal(n), DVector::zeros(n), square);
        let found = annealed::testing::gradient_error(&normal(n), &DVector::zeros(k));
        assert_eq!(found.is_ok(), n.max(1) == k, "{found:?}");
        let path = GaussianPath::new(normal(n), normal(n))?;
        let features = BumpFeatures::new(k.max(1), &[DVector::zeros(k.max(1))], &[1.0])?;
        let _ = EnsembleModifier::fit(&path, features, &two, 0.1, 10, 1).is_ok();
        let found = QuadratureModifier::new(&path, &two, (-3.0, 3.0), 11);
        assert_eq!(found.is_ok(), n < 2);
        if n >= 2 {
            let (argument, found) = (found.unwrap_err(), n);
            let expected = Error::DimensionMismatch {
                argument: "states of the path",
                found,
                expected: 1,
            };
            assert_eq!(argument, expected);
        }
        assert_runs_refuse(n, k)?;
    }
    Ok(())
}

type Problem = TemperedPath<Gaussian, Gaussian>;

fn runs<'p, K>(path: &'p Problem, kernel: K) -> bool
where
    K: TransitionKernel<<&'p Problem as AnnealingPath>::At> + Sync,
{
    let schedule = Schedule::linear(2).unwrap();
    let ais = Ais::new(path, kernel).chains(4).schedule(schedule);
    ais.run().is_ok()
}

/// Runs in two dimensions from states, or with shapes, of `n`.
fn assert_runs_refuse(n: usize, k: usize) -> Result<()> {
    let path = TemperedPath::new(Gaussian::standard(2)?, Gaussian::standard(2)?);
    let walk = || RandomWalkMetropolis::new(1.0).unwrap();
    let two = Schedule::linear(2)?;
    let ais = Ais::new(&path, walk()).chains(20).schedule(two);
    let state = DVector::zeros(n);
    let samples = TargetSamples::exact(vec![state.clone(); k]);
    assert_eq!(ais.reverse(&samples).is_ok(), n == 2 && k > 0);
    assert_eq!(
        ais.raise(std::slice::from_ref(&state), k).is_ok(),
        n == 2 && k > 0
    );
    assert_eq!(ais.sandwich(&state).is_ok(), n == 2);
    let flow = LearnedTransitions::new(Mean::Affine, n.max(1), k.max(1), 1)?;
    assert_eq!(runs(&path, flow), n == 2 && k == 2);
    let shape = || Preconditioner::deviations(DVector::from_element(n.max(1), 1.0));
    let hmc = || Hmc::new(1.0, 2).unwrap().preconditioned(shape().unwrap());
    let found = [
        runs(&path, walk().preconditioned(shape()?)),
        runs(&path, Mala::new(1.0)?.preconditioned(shape()?)),
        runs(&path, hmc()),
        FirstPass::fixed(&path, hmc()).run().is_ok(),
    ];
    assert_eq!(found, [n == 2; 4]);
    let levels = NestedSmc::new(&path, walk().preconditioned(shape()?));
    assert_eq!(levels.chains(4).moves(3).run().is_ok(), n == 2);
    let streams = (0..k).map(|index| stream(1, Purpose::RUN, index));
    let states = vec![DVector::zeros(2); k];
    let mut population = Population::from_states(&path, 1.0, 0, states, streams.collect())?;
    population.advance_to(&walk(), 1.0)
}

#[test]
fn empty_lists_are_refused() {
    assert!(GaussianMixture::new([]).is_err());
    assert!(Priors::new([] as [Prior; 0]).is_err());
    assert!(UniformBox::new([]).is_err());
    assert!(StepSize::knots([]).is_err());
    assert!(Preconditioner::knots([]).is_err());
    assert!(ScheduleMetric::new(vec![], vec![]).is_err());
    assert!(Survey::new(0, vec![]).is_err());
    assert!(Estimate::from_log_weights(&[]).is_err());
    assert!(BennettEstimate::from_log_weights(&[], &[]).is_err());
    assert!(LearnedTransitions::from_transitions(vec![]).is_err());
    assert!(Schedule::new([]).is_err());
    assert!(Run::<(), ()>::pooled(&[]).is_err());
    assert!(RunPart::<(), ()>::merge([]).is_err());
    assert!(RunPart::<(), ()>::join([]).is_err());
    let _ = Resampling::at([]);
    let _ = allocate_stages(&[], 0);
}

/// Functions that return no `Result` panic with a message that names the dimension, and the one they expected.
#[test]
fn a_state_that_does_not_fit_is_named() {
    let message = |work: Box<dyn Fn() -> f64 + std::panic::UnwindSafe>| {
        let panic = std::panic::catch_unwind(work).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    };
    let bits = vec![true; 5];
    let rbm = Rbm::<f32>::new(DMatrix::zeros(2, 3), DVector::zeros(2), DVector::zeros(3)).unwrap();
    let base = BaseRate::<f32>::uniform(2, 3).unwrap();
    let coins = Bernoulli::new(DVector::zeros(3)).unwrap();
    let categories = Harmonium::start(2, CategoricalUnits::uniform(3, 3).unwrap(), 1).unwrap();
    let normal = Gaussian::standard(3).unwrap();
    let visible: [Box<dyn Fn() -> f64 + std::panic::UnwindSafe>; 7] = [
        Box::new({
            let (rbm, bits) = (rbm.clone(), bits.clone());
            move || rbm.log_density(&bits)
        }),
        Box::new({
            let (rbm, bits) = (rbm.clone(), bits.clone());
            move || rbm.hidden_probabilities(&bits).sum()
        }),
        Box::new({
            let (rbm, bits) = (rbm.clone(), bits.clone());
            move || rbm.energy(&bits, &[true; 2])
        }),
        Box::new({
            let bits = bits.clone();
            move || base.log_density(&bits)
        }),
        Box::new(move || coins.log_density(&bits)),
        Box::new(move || categories.log_density(&vec![0; 5])),
        Box::new(move || normal.log_density(&DVector::zeros(5))),
    ];
    for work in visible {
        assert_eq!(message(work), "a state of dimension 5, expected 3");
    }
    let hidden = move || rbm.energy(&[true; 3], &[true; 5]);
    let expected = "a hidden state of dimension 5, expected 2";
    assert_eq!(message(Box::new(hidden)), expected);
}
