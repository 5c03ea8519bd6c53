//! Bad input of a run ends in a typed error that names the place, or in a named warning: never in
//! a panic, and never in a number.

use std::ops::Range;

use crate::shared;
use annealed::Error;
use annealed::adaptive::FirstPass;
use annealed::ais::{Ais, RunPart};
use annealed::estimate::{LogZ, Warning, WeightedSample};
use annealed::kernel::{
    CoordinateGibbs, Mala, NonFinite, RandomWalkMetropolis, Sequence, Stage, Step, TransitionKernel,
};
use annealed::model::{Bernoulli, Gaussian, GaussianMixture, Sampleable, UnnormalizedModel};
use annealed::path::{GaussianPath, GeometricPath, Intermediate, TemperedPath};
use annealed::pilot::Pilot;
use annealed::population::Population;
use annealed::random::{Purpose, stream};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector, dvector};
use rand::{Rng, RngExt};

fn base() -> Gaussian {
    Gaussian::isotropic(dvector![0.0], 1.0).unwrap()
}

fn kernel() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.7).unwrap()
}

/// An annealed run from a standard normal to this log density.
fn run_to(
    log_density: impl Fn(f64) -> f64 + Sync,
) -> annealed::Result<annealed::ais::Run<DVector<f64>>> {
    let target = shared::function(|x: &DVector<f64>| log_density(x[0]));
    Ais::new(&GeometricPath::new(base(), target), kernel())
        .schedule(Schedule::linear(20)?)
        .chains(300)
        .seed(1)
        .threads(1) // of several panics the first one is reported
        .run()
}

fn message<T: std::fmt::Debug>(result: annealed::Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn settings_out_of_range_are_named() {
    let target = shared::function(|x: &DVector<f64>| -x[0].abs());
    let path = GeometricPath::new(base(), target);
    let ais = || Ais::new(&path, kernel()).schedule(Schedule::linear(2).unwrap());
    assert_eq!(
        message(ais().chains(0).run()),
        "invalid chains: got 0, expected at least 1"
    );
    assert!(message(ais().threads(0).run()).contains("threads"));
    assert!(message(ais().block_size(0).run()).contains("block_size"));
    assert!(message(ais().recorded_stages(0).run()).contains("recorded_stages"));
    for chains in [1 << 40, usize::MAX] {
        let text = message(ais().chains(chains).run());
        assert_eq!(
            text,
            format!("invalid chains: got {chains}, expected at most 1073741824")
        );
        assert!(message(ais().chains(chains).ranges(3)).contains("invalid chains"));
        let start = Population::start(&path, 0, chains, stream(1, Purpose::RUN, 0));
        assert!(start.unwrap_err().to_string().contains("invalid chains"));
    }
    let ranges = ais().chains(1 << 30).block_size(1).ranges(3).unwrap();
    assert_eq!(ranges[2], 715_827_882..1 << 30);
    let unknown = Ais::with_base_log_z(&path, kernel(), f64::NAN);
    assert!(message(unknown.run()).contains("log normalizer of the base"));
}

#[test]
fn ends_of_different_dimensions_are_refused_before_any_chain_moves() {
    let standard = |d| Gaussian::standard(d).unwrap();
    let mismatch = |argument, found, expected| Error::DimensionMismatch {
        argument,
        found,
        expected,
    };
    let walk = || RandomWalkMetropolis::new(0.7).unwrap();
    let path = GeometricPath::new(standard(2), standard(3));
    let error = Ais::new(&path, walk()).run().unwrap_err();
    assert_eq!(error, mismatch("target", 3, 2));
    let mixture = GaussianMixture::new([(1.0, standard(3)), (2.0, standard(3))]).unwrap();
    let path = GeometricPath::new(standard(2), mixture);
    let error = Ais::new(&path, walk()).run().unwrap_err();
    assert_eq!(error, mismatch("target", 3, 2));
    let path = TemperedPath::new(standard(2), standard(1));
    let error = Ais::new(&path, walk()).run().unwrap_err();
    assert_eq!(error, mismatch("likelihood", 1, 2));
    let bits = |n| Bernoulli::new(DVector::zeros(n)).unwrap();
    let path = GeometricPath::new(bits(4), bits(5));
    let three = Schedule::linear(3).unwrap();
    let error = Ais::new(&path, ThreeStages).schedule(three).run();
    assert_eq!(error.unwrap_err(), mismatch("target", 5, 4));
}

#[test]
fn a_gradient_of_another_length_than_the_state_is_named() {
    let target = shared::function(|x: &DVector<f64>| -x.norm_squared())
        .with_gradient(shared::gradient(|x: &DVector<f64>| -2.0 * x.rows(0, 2)));
    let path = GeometricPath::new(Gaussian::standard(3).unwrap(), target);
    let text = message(Ais::new(&path, Mala::new(0.1).unwrap()).chains(100).run());
    assert!(text.contains("chain 0 at stage 1"), "{text}");
    let named = "a gradient of length 2 at a state of dimension 3";
    assert!(text.ends_with(named), "{text}");
}

#[test]
fn betas_that_are_no_schedule_are_refused() {
    let refused = |betas: &[f64]| message(Schedule::new(betas.iter().copied()));
    assert!(refused(&[]).contains("0 values"));
    assert!(refused(&[0.0]).contains("1 values"));
    assert!(refused(&[0.1, 1.0]).contains("0.1 to 1"));
    assert!(refused(&[0.0, 0.9]).contains("0 to 0.9"));
    assert!(refused(&[0.0, 0.6, 0.4, 1.0]).contains("beta_1 = 0.6 then beta_2 = 0.4"));
    assert!(refused(&[0.0, 0.5, 0.5, 1.0]).contains("strictly increasing"));
    assert!(refused(&[0.0, f64::NAN, 1.0]).contains("strictly increasing"));
    assert!(message(Schedule::linear(0)).contains("stages"));
    assert!(message(Schedule::power(10, f64::NAN)).contains("exponent"));
    assert!(message(Schedule::power(10, 1e6)).contains("strictly increasing"));
    assert!(message(Schedule::piecewise_linear(&[(0, 0.5), (3, 1.0)])).contains("stages"));
    assert!(message(Schedule::piecewise_linear(&[(3, 0.5), (3, 0.4)])).contains("0 to 0.4"));
    assert!(message(Schedule::salakhutdinov_murray(5)).contains("at least 29"));
}

#[test]
fn a_nan_is_named_by_chain_stage_and_beta() {
    let error = run_to(|x| if x > 2.5 { f64::NAN } else { -x * x }).unwrap_err();
    match &error {
        Error::NonFinite {
            value,
            chain,
            stage,
            beta,
            ..
        } => {
            assert!(value.is_nan() && *chain < 300);
            assert!((1..=20).contains(stage) && (*beta - *stage as f64 / 20.0).abs() < 1e-12);
        }
        other => panic!("{other}"),
    }
    let text = error.to_string();
    assert!(
        text.contains("NaN in chain") && text.contains("beta ="),
        "{text}"
    );
}

#[test]
fn a_nan_in_a_proposal_is_no_silent_rejection() {
    // Chains start inside of (-6, 6) and only a proposal gets out.
    let error = run_to(|x| if x.abs() > 6.0 { f64::NAN } else { 0.3 * x * x });
    assert!(message(error).contains("log density of the proposal is NaN"));
}

#[test]
fn an_infinite_density_is_an_error() {
    let error = run_to(|x| if x > 2.5 { f64::INFINITY } else { -x * x });
    assert!(message(error).contains("inf in chain"));
}

#[test]
fn the_same_failing_chain_is_reported_on_any_number_of_threads() {
    let target = shared::function(|x: &DVector<f64>| if x[0] > 1.0 { f64::NAN } else { 0.0 });
    let path = GeometricPath::new(base(), target);
    let ais = |threads| {
        Ais::new(&path, kernel())
            .chains(2_000)
            .threads(threads)
            .run()
    };
    let first = message(ais(1));
    assert!((0..5).all(|_| message(ais(8)) == first));
}

#[test]
fn a_target_out_of_reach_is_an_error_and_not_minus_infinity() {
    let error = run_to(|x| if x > 100.0 { 0.0 } else { f64::NEG_INFINITY }).unwrap_err();
    assert_eq!(error, Error::AllWeightsZero { chains: 300 });
}

#[test]
fn chains_that_die_are_counted_and_do_not_bias() {
    // Half of the base's mass is outside: the ratio is 1/2, exactly.
    let run = run_to(|x| {
        if x > 0.0 {
            -0.5 * x * x
        } else {
            f64::NEG_INFINITY
        }
    })
    .unwrap();
    let error = run.log_z_ratio() - 0.5f64.ln();
    assert!(run.standard_error() < 0.1);
    assert!(error.abs() < 4.0 * run.standard_error());
    assert!(matches!(
        run.warnings()[0],
        Warning::DeadChains {
            dead: 100..200,
            chains: 300
        }
    ));
    assert_eq!(run.thermodynamic_log_z(), None);
    assert_eq!(run.lower_bound(), f64::NEG_INFINITY);
}

/// The standard normal cut off at 1.
struct Half;

impl UnnormalizedModel for Half {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        if x[0] < 1.0 {
            -0.5 * x[0] * x[0]
        } else {
            f64::NEG_INFINITY
        }
    }
}

impl Sampleable for Half {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        loop {
            let x = Gaussian::sample(&base(), rng);
            if x[0] < 1.0 {
                return x;
            }
        }
    }
}

#[test]
fn a_base_that_does_not_cover_the_target_is_a_warning() {
    let target = shared::function(|x: &DVector<f64>| -0.5 * (x[0] - 1.0).powi(2));
    let path = GeometricPath::new(Half, target);
    let run = Ais::with_base_log_z(&path, kernel(), 0.0)
        .chains(500)
        .run()
        .unwrap();
    let missed = |w: &Warning| matches!(w, Warning::BaseMissesTarget { chains } if *chains > 20);
    assert!(run.warnings().iter().any(missed), "{run}");
}

#[test]
fn a_base_that_excludes_its_own_sample_is_an_error() {
    let broken = shared::function(|_: &DVector<f64>| f64::NEG_INFINITY)
        .with_sampler(shared::sampler(|_| dvector![0.0]))
        .with_log_normalizer(0.0)
        .unwrap();
    let path = GeometricPath::new(broken, base());
    let text = message(Ais::new(&path, kernel()).run());
    assert!(
        text.contains("base at its own sample is -inf in chain 0 at stage 0"),
        "{text}"
    );
}

#[test]
fn proposals_that_are_never_accepted_are_a_warning() {
    let target = shared::function(|x: &DVector<f64>| -0.5 * x.norm_squared());
    let path = GeometricPath::new(base(), target);
    let run = Ais::new(&path, RandomWalkMetropolis::new(1e9).unwrap())
        .run()
        .unwrap();
    let zero = |w: &Warning| matches!(w, Warning::ZeroAcceptance { .. });
    assert!(run.warnings().iter().any(zero), "{run}");
}

#[test]
fn a_refused_move_beside_a_gibbs_sweep_is_no_warning() {
    let path = GaussianPath::new(base(), Gaussian::standard(1).unwrap()).unwrap();
    let flip = RandomWalkMetropolis::new(1e9).unwrap();
    let kernel = Sequence(CoordinateGibbs::systematic(), flip);
    let run = Ais::new(&path, &kernel).run().unwrap();
    assert_eq!(run.warnings(), []);
    let last = run.stages().last().unwrap();
    assert!(last.acceptance.is_some_and(|rate| rate < 1e-3) && last.undecided > 0);
    let survey = Pilot::new(100, 100).survey(&path, &kernel, 1).unwrap();
    let zero = |w: &Warning| w.to_string().contains("accepted");
    assert!(!survey.warnings().iter().any(zero));
}

/// The log ratio has no mean under the base, so that the thermodynamic integral is far off however many
/// stages there are; the weights are bounded and the run is right.
#[test]
fn a_cauchy_prior_gives_no_warning() {
    let prior = shared::function(|x: &DVector<f64>| -x[0].powi(2).ln_1p())
        .with_sampler(shared::sampler(|rng| {
            let u: f64 = rng.random();
            dvector![(std::f64::consts::PI * (u - 0.5)).tan()]
        }))
        .with_log_normalizer(std::f64::consts::PI.ln())
        .unwrap();
    let target = shared::function(|x: &DVector<f64>| -0.5 * x.norm_squared());
    let path = GeometricPath::new(prior, target);
    for seed in 0..20 {
        let run = Ais::new(&path, RandomWalkMetropolis::new(2.0).unwrap())
            .schedule(Schedule::linear(100).unwrap())
            .chains(500)
            .seed(seed)
            .run()
            .unwrap();
        let error = run.log_z() - 0.5 * (2.0 * std::f64::consts::PI).ln();
        assert!(run.standard_error() < 0.1 && error.abs() < 4.0 * run.standard_error());
        assert_eq!(run.warnings(), []);
    }
}

/// The target is the base times `exp(1e16)` or `exp(1e16 + 4)`.
#[test]
fn a_run_keeps_its_digits_however_large_the_log_weights() {
    let target = |x: &DVector<f64>| 1e16 + if x[0] > 0.0 { 4.0 } else { 0.0 };
    let path = GeometricPath::new(base(), shared::function(target));
    let run = Ais::new(&path, kernel())
        .schedule(Schedule::linear(1).unwrap())
        .run()
        .unwrap();
    let (one, error) = run.expectation(|_| 1.0);
    assert!((one - 1.0).abs() < 1e-9 && error < 1e-9, "{one} +- {error}");
    let recorded = run.stages().last().unwrap().var_log_weight;
    let ratio = recorded / run.estimate().var_log_weight();
    assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
}

#[test]
fn a_stage_with_most_of_the_variance_is_a_warning() {
    let target = shared::function(|x: &DVector<f64>| -0.5 * (x[0] - 4.0).powi(2));
    let path = GeometricPath::new(base(), target);
    let leap = (0..=20).map(|k| k as f64 / 40.0).chain([1.0]);
    let run = Ais::new(&path, kernel())
        .schedule(Schedule::new(leap).unwrap())
        .run()
        .unwrap();
    let leapt = |w: &Warning| matches!(w, Warning::ConcentratedVariance { stage: 21, .. });
    assert!(run.warnings().iter().any(leapt), "{run}");
}

/// Needs a schedule of exactly three stages.
struct ThreeStages;

impl<M: Intermediate> TransitionKernel<M> for ThreeStages {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        _stage: Stage<'_, M>,
        _state: &mut M::State,
        _workspace: &mut (),
        _rng: &mut R,
    ) -> Result<Step, NonFinite> {
        Ok(Step::invariant())
    }

    fn stages(&self) -> Option<usize> {
        Some(3)
    }
}

#[test]
fn a_kernel_refuses_a_schedule_of_another_length() {
    let path = GeometricPath::new(base(), base());
    let run = |steps| {
        let schedule = Schedule::linear(steps).unwrap();
        Ais::new(&path, ThreeStages).schedule(schedule).run()
    };
    assert!(run(3).is_ok());
    assert!(message(run(4)).contains("got 4, expected 3"));
}

#[test]
fn a_panic_in_a_model_is_an_error_with_chain_stage_and_beta() {
    let run = |nan: bool| {
        let outside = move || {
            if nan {
                f64::NAN
            } else {
                panic!("x is {}", "outside")
            }
        };
        run_to(move |x| if x > 2.5 { outside() } else { -x * x }).unwrap_err()
    };
    let place = |chains: Range<usize>, stage: usize, beta: f64| (chains, stage, beta.to_bits());
    let of_nan = match run(true) {
        Error::NonFinite {
            chain, stage, beta, ..
        } => place(chain..chain + 1, stage, beta),
        other => panic!("{other}"),
    };
    let panicked = run(false);
    let Error::Panicked {
        message,
        chains,
        stage,
        beta,
    } = panicked.clone()
    else {
        panic!("{panicked}")
    };
    assert_eq!(message, "x is outside");
    assert_eq!(place(chains.clone(), stage, beta), of_nan);
    assert_eq!(
        panicked.to_string(),
        format!(
            "panic in chain {} at stage {stage} (beta = {beta}): x is outside",
            chains.start
        )
    );
}

#[test]
fn a_panic_in_a_sampler_or_a_callback_names_the_chains_of_its_block() {
    let broken = shared::function(|_: &DVector<f64>| 0.0)
        .with_sampler(shared::sampler(|_| -> DVector<f64> { panic!("no sample") }))
        .with_log_normalizer(0.0)
        .unwrap();
    let path = GeometricPath::new(broken, base());
    let text = message(Ais::new(&path, kernel()).chains(20).threads(1).run());
    assert_eq!(
        text,
        "panic in chains 0..20 at stage 0 (beta = 0): no sample"
    );
    let path = GeometricPath::new(base(), base());
    let run = Ais::new(&path, kernel())
        .schedule(Schedule::linear(4).unwrap())
        .progress(|progress| assert!(progress.done < 20, "no terminal"))
        .chains(10)
        .run();
    assert_eq!(
        message(run),
        "panic in chains 0..10 at stage 2 (beta = 0.5): no terminal"
    );
}

#[cfg(feature = "rayon")]
mod on_several_threads {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use annealed::ais::{Merge, Recorder};
    use annealed::kernel::Block;

    /// Counts what it sees. Every block but the first panics once the first has begun.
    #[derive(Clone)]
    struct Breaking {
        begun: &'static AtomicBool,
        seen: &'static AtomicUsize,
    }

    impl Merge for Breaking {
        fn merge(&mut self, _right: Self) {}
    }

    impl<M: Intermediate> Recorder<M> for Breaking {
        fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
            match block.first_chain() {
                0 => self.begun.store(true, Ordering::SeqCst),
                _ if stage.index == 2 => {
                    while !self.begun.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    panic!("out of paper");
                }
                _ => {}
            }
            self.seen.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_panic_stops_the_blocks_on_both_sides() {
        static BEGUN: AtomicBool = AtomicBool::new(false);
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        let path = GeometricPath::new(base(), base());
        let run = Ais::new(&path, kernel())
            .schedule(Schedule::linear(1_000).unwrap())
            .chains(80)
            .block_size(10)
            .threads(2)
            .recorder(Breaking {
                begun: &BEGUN,
                seen: &SEEN,
            })
            .run();
        let text = message(run.map(|_| ()));
        assert!(
            text.ends_with("at stage 2 (beta = 0.002): out of paper"),
            "{text}"
        );
        // Eight blocks record 1,000 stages each where nothing stops them.
        let seen = SEEN.load(Ordering::SeqCst);
        assert!(seen < 900, "{seen} stages recorded");
    }
}

#[test]
fn matrices_that_are_no_covariance_are_refused() {
    let refused = |covariance: DMatrix<f64>| message(Gaussian::new(dvector![0.0, 0.0], covariance));
    assert!(refused(DMatrix::zeros(2, 3)).contains("covariance"));
    assert!(refused(DMatrix::identity(3, 3)).contains("got 3, expected 2"));
    assert!(
        refused(DMatrix::from_row_slice(2, 2, &[1.0, 2.0, 2.0, 1.0])).contains("positive definite")
    );
    assert!(refused(DMatrix::from_row_slice(2, 2, &[1.0, 0.5, 0.0, 1.0])).contains("symmetric"));
    assert!(refused(DMatrix::from_row_slice(2, 2, &[1.0, f64::NAN, 0.0, 1.0])).contains("NaN"));
}

#[test]
fn merging_no_parts_is_an_error() {
    assert!(RunPart::<DVector<f64>>::merge([]).is_err());
}

/// A search for the next beta evaluates the target before chains are there.
#[test]
fn a_nan_is_named_where_the_next_beta_is_sought() {
    let log_density = |x: &DVector<f64>| if x[0] > 1.5 { f64::NAN } else { 0.0 };
    let path = GeometricPath::new(base(), shared::function(log_density));
    let text = message(FirstPass::new(&path, kernel()).run());
    assert!(text.starts_with("log density is NaN in chain "), "{text}");
    assert!(
        text.contains("at stage 0 (beta = 0, largest coordinate "),
        "{text}"
    );
}
