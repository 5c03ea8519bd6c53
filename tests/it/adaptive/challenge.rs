//! A challenge finds what a run missed, and leaves a right run alone.

use crate::shared;
use annealed::Error;
use annealed::adaptive::{BaseSearch, Challenge, ChallengeRun, Judgement, Rounds};
use annealed::ais::{Ais, Run};
use annealed::estimate::{LogZ, Warning, log_sum_exp};
use annealed::kernel::{BitFlip, Hmc, Metropolis, RandomWalkMetropolis, Repeat};
use annealed::model::{
    Bernoulli, FunctionModel, Gaussian, GaussianMixture, NormalizedModel, Prior, Priors,
    UnnormalizedModel,
};
use annealed::path::{AnnealingPath, GeometricPath, TemperedPath};
use annealed::schedule::Schedule;
use nalgebra::{DVector, dvector};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use std::f64::consts::TAU;

type Vector = DVector<f64>;

fn isotropic(mean: f64, deviation: f64) -> Gaussian {
    Gaussian::isotropic(DVector::from_element(4, mean), deviation).unwrap()
}

/// Nine tenths of the mass in a spike forty times narrower than the rest; log Z is 0.
fn spike() -> GeometricPath<Gaussian, GaussianMixture> {
    let parts = [(0.1, isotropic(0.0, 1.0)), (0.9, isotropic(0.0, 0.025))];
    GeometricPath::new(isotropic(0.0, 2.0), GaussianMixture::new(parts).unwrap())
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.5).unwrap()
}

fn run<P: AnnealingPath<State = Vector, Base: NormalizedModel> + Send + Sync>(
    path: P,
    seed: u64,
) -> Run<Vector>
where
    P::At: UnnormalizedModel<State = Vector>,
{
    let schedule = Schedule::linear(100).unwrap();
    let ais = Ais::new(path, walk()).schedule(schedule);
    ais.chains(400).seed(seed).threads(1).run().unwrap()
}

/// The trait of all results says what the result's own methods say.
fn assert_face<S>(own: &ChallengeRun<'_, S>) {
    let face: &dyn annealed::estimate::LogZ = own;
    assert_eq!(face.log_z(), own.log_z());
    assert_eq!(face.standard_error(), own.standard_error());
    assert_eq!(face.interval(), own.interval_at(0.95).unwrap());
    assert_eq!(face.warnings(), own.warnings());
    assert_eq!(face.evaluations(), own.evaluations());
    let bound = face.certified_lower_bound(0.9).unwrap().unwrap();
    assert!(own.second().certified_lower_bound(0.9).unwrap().unwrap() >= bound);
    assert!(bound <= own.log_z() && face.interval_at(1.0).is_err());
    assert!(face.to_string().starts_with("log Z = "), "{face}");
}

fn assert_holds<S>(found: &ChallengeRun<'_, S>, exact: f64, largest_error: f64) {
    let (off, error) = (found.log_z() - exact, found.standard_error());
    assert!(
        off.abs() <= 4.0 * error && error <= largest_error,
        "{found}"
    );
}

#[test]
fn a_missed_spike_contradicts_and_the_second_run_holds_it() {
    let path = spike();
    for seed in 1..=3 {
        let first = run(&path, seed);
        assert!(first.interval().1 < -2.0, "{first}");
        let found = Challenge::new(&path, walk(), &first)
            .seed(seed)
            .run()
            .unwrap();
        let Judgement::Contradicted { bound, confidence } = found.judgement() else {
            panic!("{found}");
        };
        assert!(-0.5 < bound && bound < 0.0 && confidence == 0.99, "{found}");
        assert_holds(&found, 0.0, 0.1);
        assert_face(&found);
        assert!(found.evaluations() <= first.evaluations(), "{found}");
        // A challenge from the same seed has the same bits.
        let again = Challenge::new(&path, walk(), &first)
            .seed(seed)
            .threads(1)
            .run()
            .unwrap();
        assert_eq!(found.log_z(), again.log_z());
    }
}

#[test]
fn a_right_run_is_confirmed_and_one_with_a_wrong_normaliser_is_not() {
    let path = GeometricPath::new(isotropic(0.0, 1.0), isotropic(0.2, 0.8));
    let exact = isotropic(0.2, 0.8).log_normalizer();
    // Two of 100 seeds are improved on: 1 to 4 hold one of them.
    for seed in 5..=8 {
        let first = run(&path, seed);
        let found = Challenge::new(&path, walk(), &first)
            .seed(seed)
            .run()
            .unwrap();
        assert_eq!(found.judgement(), Judgement::Confirmed, "{first}\n{found}");
        assert!(found.starts() > 100 && found.modes() == 1, "{found}");
        assert_eq!(found.log_z(), first.log_z());
        assert_holds(&found, exact, 0.05);
        // A challenge whose base claims too large a log Z contradicts what is right.
        let off = path.base().log_normalizer() + 2.0;
        let wrong = Challenge::new(&path, walk(), &first)
            .base_log_z(off)
            .seed(seed)
            .run()
            .unwrap();
        assert!(
            matches!(wrong.judgement(), Judgement::Contradicted { .. }),
            "{wrong}"
        );
    }
}

/// The mixture of bases needs the base's own log normaliser, wherever log Z is counted from.
#[test]
fn log_z_is_counted_from_the_base_where_asked() {
    let (base, target) = (isotropic(0.0, 2.0), isotropic(0.2, 0.5));
    let exact = target.log_normalizer() - base.log_normalizer();
    let path = GeometricPath::new(base, target);
    let ais = Ais::with_base_log_z(&path, walk(), 0.0).schedule(Schedule::linear(100).unwrap());
    let first = ais.chains(400).run().unwrap();
    let challenge = Challenge::new(&path, walk(), &first).base_log_z(0.0);
    let found = challenge.run().unwrap();
    let second = found.second();
    let (off, error) = (second.log_z() - exact, second.standard_error());
    assert!(off.abs() <= 4.0 * error && error < 0.1, "{off} +- {error}");
    let is_contradicted = matches!(found.judgement(), Judgement::Contradicted { .. });
    assert!(!is_contradicted, "{found}");
}

/// A path normalises its base, so that runs along it are right where the mixture of bases is not.
#[test]
fn a_made_up_normaliser_is_refused() {
    let target = isotropic(0.2, 0.8);
    let base = shared::function(|x: &Vector| -0.5 * x.norm_squared()).with_sampler(
        shared::sampler(|rng: &mut dyn Rng| Vector::from_fn(4, |_, _| rng.sample(StandardNormal))),
    );
    for (log_normalizer, is_right) in [(2.0 * TAU.ln(), true), (0.0, false)] {
        let base = base.clone().with_log_normalizer(log_normalizer).unwrap();
        let path = GeometricPath::new(base, target.clone());
        let first = run(&path, 1);
        let found = Challenge::new(&path, walk(), &first).run().map(drop);
        let message = found.map_err(|error| error.to_string());
        let is_refused = |text: &String| text.contains("log normalizer") && text.contains("3.6");
        assert_eq!(message.is_ok(), is_right, "{message:?}");
        assert!(message.as_ref().err().is_none_or(is_refused), "{message:?}");
    }
}

#[test]
fn states_of_the_user_lead_to_a_mode_that_nothing_else_finds() {
    // A narrow mode far from base and wide mode, with three quarters of the mass.
    let parts = [(0.25, isotropic(0.0, 1.0)), (0.75, isotropic(9.0, 0.1))];
    let path = GeometricPath::new(isotropic(0.0, 1.0), GaussianMixture::new(parts).unwrap());
    let first = run(&path, 1);
    assert!(first.interval().1 < -1.0, "{first}");
    let alone = Challenge::new(&path, walk(), &first).run().unwrap();
    assert!(matches!(alone.judgement(), Judgement::Confirmed), "{alone}");
    let datum = DVector::from_element(4, 8.9);
    let challenge = Challenge::new(&path, walk(), &first).states([datum]);
    let found = challenge.run().unwrap();
    assert!(
        matches!(found.judgement(), Judgement::Contradicted { .. }),
        "{found}"
    );
    assert_eq!(found.modes(), 2);
    assert_holds(&found, 0.0, 0.2);
}

#[test]
fn climbs_with_a_gradient_and_without_find_a_mode_beside_the_base() {
    // Two wells: the base lies in one of them.
    let target = shared::gradient_model(1, |x: &[f64], gradient: &mut [f64]| {
        let (near, far) = (
            -0.5 * (x[0] / 0.5).powi(2),
            2.0 - 0.5 * ((x[0] - 7.0) / 0.3).powi(2),
        );
        let sum = log_sum_exp([near, far]);
        let share = (far - sum).exp();
        gradient[0] = -(1.0 - share) * x[0] / 0.25 - share * (x[0] - 7.0) / 0.09;
        sum
    });
    let exact = ((0.5 + 2_f64.exp() * 0.3) * std::f64::consts::TAU.sqrt()).ln();
    let path = GeometricPath::new(
        Gaussian::isotropic(dvector![0.0], 1.5).unwrap(),
        target.unwrap(),
    );
    let kernel = Hmc::new(0.3, 3).unwrap();
    let schedule = Schedule::linear(30).unwrap();
    let first = Ais::new(&path, kernel.clone())
        .schedule(schedule)
        .chains(300)
        .run()
        .unwrap();
    let challenge = || Challenge::new(&path, kernel.clone(), &first).budget(100_000);
    for challenge in [challenge(), challenge().with_gradient()] {
        let found = challenge.run().unwrap();
        assert_eq!(found.modes(), 2, "{found}");
        let second = found.second();
        let off = second.log_z() - exact;
        assert!(
            off.abs() < 4.0 * second.standard_error() && second.standard_error() < 0.1,
            "{found}"
        );
    }
}

#[test]
fn spins_beyond_a_transition_of_the_first_order_are_found_ordered() {
    const SPINS: usize = 60;
    // On a complete graph the energy depends on the magnetisation m alone: log f = .9 n m^5.
    let of_ones = |ones: usize| {
        let m = 2.0 * ones as f64 / SPINS as f64 - 1.0;
        0.9 * SPINS as f64 * m.powi(5)
    };
    let log_factorial = |n: usize| (1..=n).map(|i| (i as f64).ln()).sum::<f64>();
    let states = |k: usize| log_factorial(SPINS) - log_factorial(k) - log_factorial(SPINS - k);
    let exact = log_sum_exp((0..=SPINS).map(|k| states(k) + of_ones(k)));
    let target =
        FunctionModel::new(move |x: &Vec<bool>| of_ones(x.iter().filter(|on| **on).count()));
    let path = GeometricPath::new(Bernoulli::new(DVector::zeros(SPINS)).unwrap(), target);
    let kernel = Repeat::new(Metropolis(BitFlip), SPINS / 4).unwrap();
    let schedule = Schedule::linear(200).unwrap();
    let ais = Ais::new(&path, kernel.clone())
        .schedule(schedule)
        .chains(300);
    let first = ais.run().unwrap();
    assert!(first.interval().1 < exact - 5.0, "{first}; {exact}");
    let found = Challenge::fixed(&path, kernel, &first).run().unwrap();
    assert!(
        matches!(found.judgement(), Judgement::Contradicted { .. }),
        "{found}"
    );
    assert_holds(&found, exact, 0.2);
}

#[test]
fn rounds_and_a_challenge_that_finds_a_spike_share_a_budget() {
    const BUDGET: u64 = 100_000;
    let path = spike();
    for seed in 1..=2 {
        let rounds = Rounds::new(&path, walk()).chains(200).budget(BUDGET / 2);
        let first = rounds.seed(seed).run().unwrap();
        assert!(first.interval().1 < -2.0, "{first}");
        let challenge = Challenge::new(&path, walk(), &first).budget(BUDGET - first.evaluations());
        let found = challenge.seed(seed).run().unwrap();
        assert!(
            matches!(found.judgement(), Judgement::Contradicted { .. }),
            "{found}"
        );
        assert_holds(&found, 0.0, 0.1);
        assert!(
            first.evaluations() + found.evaluations() <= BUDGET,
            "{found}"
        );
        let [warning] = found.warnings() else {
            panic!("{found}");
        };
        assert!(
            matches!(*warning, Warning::FirstRunTooLow { first: of, bound: Some((bound, _)) }
                if of == first.log_z() && bound > -0.5),
            "{warning}"
        );
        assert!(found.certified_lower_bound(0.9).unwrap().unwrap() > -0.5);
    }
}

#[test]
fn rounds_that_are_right_stay_as_they_are() {
    let path = GeometricPath::new(isotropic(0.0, 1.0), isotropic(0.2, 0.8));
    let rounds = Rounds::new(&path, walk()).chains(100).budget(50_000);
    let first = rounds.run().unwrap();
    let found = Challenge::new(&path, walk(), &first).run().unwrap();
    assert_eq!(found.judgement(), Judgement::Confirmed, "{found}");
    assert_eq!(found.log_z(), first.log_z());
    assert!(found.warnings().is_empty(), "{found}");
    assert_holds(&found, isotropic(0.2, 0.8).log_normalizer(), 0.1);
    // Without a budget the challenge costs no more than the rounds.
    let first = Rounds::new(&path, walk()).chains(100).rounds(2);
    let first = first.run().unwrap();
    let of_rounds: u64 = first.rounds().iter().map(|round| round.evaluations).sum();
    assert_eq!(first.evaluations(), of_rounds);
    let found = Challenge::new(&path, walk(), &first).run().unwrap();
    assert!(found.evaluations() <= of_rounds, "{found}");
}

/// Only chains that are cooled beyond the target come to where its density is NaN.
#[test]
fn a_challenge_that_fails_names_the_cause_beside_right_rounds() {
    let zero = DVector::zeros(10);
    let wide = Gaussian::isotropic(zero.clone(), 1.5).unwrap();
    let peak = Gaussian::isotropic(zero, 1.0).unwrap();
    let log_z = peak.log_normalizer();
    let hole = shared::function(move |x: &Vector| match x.norm() < 0.3 {
        true => f64::NAN,
        false => peak.log_density(x),
    });
    let path = GeometricPath::new(wide, hole);
    let first = Rounds::new(&path, walk()).budget(100_000).run().unwrap();
    let off = first.log_z() - log_z;
    assert!(off.abs() < 4.0 * first.standard_error(), "{first}");
    let challenge = Challenge::new(&path, walk(), &first).run();
    let reason = challenge.unwrap_err().to_string();
    assert!(reason.contains("NaN"), "{reason}");
}

/// A prior in 60 dimensions whose constant is right or left out, and a target with nine tenths of its mass in a spike.
#[test]
fn a_made_up_normaliser_is_refused_in_many_dimensions() {
    const D: usize = 60;
    let part = |deviation| Gaussian::isotropic(DVector::zeros(D), deviation).unwrap();
    let parts = [(0.1, part(1.0)), (0.9, part(0.1))];
    let target = GaussianMixture::new(parts).unwrap();
    let base = shared::function(|x: &Vector| -0.125 * x.norm_squared()).with_sampler(
        shared::sampler(|rng: &mut dyn Rng| {
            Vector::from_fn(D, |_, _| 2.0 * rng.sample::<f64, _>(StandardNormal))
        }),
    );
    let exact = D as f64 * (0.5 * TAU.ln() + 2_f64.ln());
    for (log_normalizer, is_right) in [(exact, true), (0.0, false)] {
        let base = base.clone().with_log_normalizer(log_normalizer).unwrap();
        let path = GeometricPath::new(base, target.clone());
        let first = Ais::with_base_log_z(&path, walk(), exact).chains(200);
        let first = first.schedule(Schedule::linear(100).unwrap());
        let first = first.run().unwrap();
        let found = Challenge::new(&path, walk(), &first).budget(200_000).run();
        match is_right {
            true => {
                let found = found.unwrap();
                let is_contradicted = matches!(found.judgement(), Judgement::Contradicted { .. });
                assert!(is_contradicted && found.log_z() < 0.5, "{found}");
            }
            false => {
                let error = found.unwrap_err().to_string();
                assert!(error.contains("log normalizer of the base"), "{error}");
            }
        }
    }
}

/// The second run covers one of three phases: it is narrow by what it lacks, and the first run's interval is right.
#[test]
fn an_improvement_keeps_the_interval_of_the_first_run() {
    let mut state = 5_u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005);
        state = state.wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let times: Vec<f64> = (0..50).map(|_| 1000.0 * uniform()).collect();
    let mut observe = |t: &f64| {
        let noise = (-2.0 * uniform().ln()).sqrt() * (TAU * uniform()).cos();
        (TAU * 0.3137 * t + 0.7).sin() + 0.7 * noise
    };
    let observed: Vec<f64> = times.iter().map(&mut observe).collect();
    // Amplitudes in closed form, the frequency on a grid of 400,000.
    let (variance, exact) = (0.49, -79.347);
    let priors = [
        Prior::normal(0.0, 1.0),
        Prior::normal(0.0, 1.0),
        Prior::uniform(0.01, 1.0),
    ];
    let priors = Priors::new(priors.map(Result::unwrap)).unwrap();
    let likelihood = shared::gradient_model(3, |x: &[f64], gradient: &mut [f64]| {
        let mut log_likelihood = -25.0 * (TAU * variance).ln();
        for (t, y) in times.iter().zip(&observed) {
            let (sine, cosine) = (TAU * x[2] * t).sin_cos();
            let off = (y - x[0] * sine - x[1] * cosine) / variance;
            gradient[0] += off * sine;
            gradient[1] += off * cosine;
            gradient[2] += off * (x[0] * cosine - x[1] * sine) * TAU * t;
            log_likelihood -= 0.5 * off * off * variance;
        }
        log_likelihood
    });
    let path = TemperedPath::new(&priors, priors.likelihood(likelihood.unwrap()));
    let kernel = Hmc::new(0.05, 3).unwrap();
    let mut narrow = 0;
    for seed in 100..110 {
        let rounds = Rounds::new(&path, kernel.clone()).budget(150_000);
        let first = rounds.seed(seed).run().unwrap();
        let challenge = Challenge::new(&path, kernel.clone(), &first).with_gradient();
        let found = challenge.seed(seed).run().unwrap();
        let (lower, upper) = found.interval();
        let holds = lower < exact && exact < upper;
        assert!(holds || !found.warnings().is_empty(), "{found}");
        let is_improved = matches!(found.judgement(), Judgement::Improved { .. });
        // The second run alone misses.
        if is_improved && found.second().interval().1 < exact {
            assert!(holds && upper == first.interval().1, "{found}");
            assert!(!found.warnings().is_empty(), "{found}");
            narrow += 1;
        }
    }
    assert!(narrow > 0);
}

#[test]
fn a_cheap_first_run_is_challenged_at_the_least_budget() {
    let path = spike();
    let first = Ais::new(&path, walk()).schedule(Schedule::linear(10).unwrap());
    let first = first.chains(100).run().unwrap();
    let challenge = Challenge::new(&path, walk(), &first);
    let cheap = challenge.run().unwrap();
    let least = challenge.budget(5_000).run().unwrap();
    assert!((4_000..=5_000).contains(&least.evaluations()), "{least}");
    assert_eq!(cheap.evaluations(), least.evaluations());
}

#[test]
fn bad_settings_are_refused() {
    let path = spike();
    let first = run(&path, 1);
    let challenge = || Challenge::new(&path, walk(), &first);
    for (refused, argument) in [
        (challenge().confidence(1.0), "confidence"),
        (challenge().budget(4_999), "budget"),
        (
            challenge().base_log_z(f64::NAN),
            "log normalizer of the base",
        ),
    ] {
        let error = refused.run().unwrap_err();
        let Error::InvalidArgument {
            argument: found, ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(*found, argument);
    }
    for state in [DVector::zeros(3), DVector::from_element(4, f64::NAN)] {
        let error = challenge().states([state]).run().unwrap_err().to_string();
        assert!(error.starts_with("invalid states"), "{error}");
    }
    let stopped = challenge().stop_when(|| true).run();
    assert!(matches!(stopped, Err(Error::Stopped { .. })), "{stopped:?}");
}

/// Scouts and cooling stop after a stage. The search for modes, which has no stages, stops after an evaluation.
#[test]
fn a_search_stops_soon_after_it_is_asked() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    let (spike, spent) = (spike(), AtomicU64::new(0));
    let target = FunctionModel::new(|x: &Vector| {
        spent.fetch_add(1, Relaxed);
        spike.target().log_density(x)
    });
    let path = GeometricPath::new(isotropic(0.0, 2.0), target);
    let search = || BaseSearch::new(&path, walk(), 100_000);
    assert!(search().run().is_ok());
    let all = spent.swap(0, Relaxed);
    for share in [0.1, 0.4, 0.6, 0.95] {
        let most = (share * all as f64) as u64;
        let stopped = search().stop_when(|| spent.load(Relaxed) >= most).run();
        assert!(matches!(stopped, Err(Error::Stopped { .. })), "{stopped:?}");
        let late = spent.swap(0, Relaxed) - most;
        assert!(late < 3_000, "{late} evaluations of {all} after {most}");
    }
}

#[test]
fn wrong_gradients_are_refused() {
    let log_density = |x: &Vector| -2.0 * x.norm_squared();
    let gradients: [fn(&Vector) -> Vector; 3] = [
        |x| x * -8.0,
        |x| x * f64::NAN,
        |x| x.rows(0, 3).into_owned(),
    ];
    for (wrong, gradient) in gradients.into_iter().enumerate() {
        let target = shared::function(log_density).with_gradient(shared::gradient(gradient));
        let path = GeometricPath::new(isotropic(0.0, 1.0), target);
        let first = run(&path, 1);
        let challenge = Challenge::new(&path, walk(), &first).with_gradient();
        let error = challenge.run().unwrap_err();
        let is_named = match wrong {
            2 => matches!(error, Error::Panicked { .. }),
            _ => matches!(error, Error::WrongGradient { .. }),
        };
        assert!(is_named, "{error}");
    }
}
