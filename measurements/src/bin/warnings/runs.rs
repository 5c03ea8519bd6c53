//! Small runs with a known log Z, sound or with one fault.

use std::f64::consts::TAU;

use annealed::Result;
use annealed::estimate::Estimate;
use annealed::kernel::UnadjustedLangevin;
use annealed::path::GeometricAt;
use annealed::population::ResamplingScheme;
use annealed::prelude::*;
use annealed::rand::{Rng, RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cases::{
    BOTH, CHAINS, Case, ISLANDS, LADDERS, LEVELS, MACHINES, Seen, SetUp, UNADJUSTED, WEIGHTS,
};
use SetUp::{Faulty, Sound};

pub fn seen(result: &dyn LogZ, exact: f64) -> Seen {
    Seen {
        right: Seen::is_right(result.log_z() - exact, result.standard_error()),
        skewed: result.is_skewed(),
        warnings: result.warnings().to_vec(),
        challenge: None,
    }
}

pub fn normal(dimension: usize, mean: f64, deviation: f64) -> Result<Gaussian> {
    Gaussian::isotropic(DVector::from_element(dimension, mean), deviation)
}

/// Returns cases with log-normal and Pareto weights of mean 1.
pub fn weights() -> Vec<Case> {
    type Draw = fn(&mut Xoshiro256PlusPlus) -> f64;
    fn log_normal(deviation: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
        deviation * (rng.sample::<f64, _>(StandardNormal) - 0.5 * deviation)
    }
    /// Draws a log weight with `P(w > t)` proportional to `t^(-1/k)`.
    fn pareto(k: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
        (1.0 - k).ln() - k * (1.0 - rng.random::<f64>()).ln()
    }
    let draws: [(&str, SetUp, Draw); 5] = [
        ("log-normal .5", Sound, |rng| log_normal(0.5, rng)),
        ("log-normal 1", Sound, |rng| log_normal(1.0, rng)),
        ("log-normal 2.5", Faulty, |rng| log_normal(2.5, rng)),
        ("Pareto .6", Faulty, |rng| pareto(0.6, rng)),
        ("Pareto .9", Faulty, |rng| pareto(0.9, rng)),
    ];
    let case = |(name, set_up, draw): (&'static str, SetUp, Draw)| {
        Case::new((name, WEIGHTS), set_up, 1, move |seed| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let log_weights: Vec<f64> = (0..500).map(|_| draw(&mut rng)).collect();
            let estimate = Estimate::from_log_weights(&log_weights)?;
            Ok(Seen {
                right: Seen::is_right(estimate.value(), estimate.standard_error()),
                skewed: estimate.is_skewed(),
                warnings: estimate.warnings(),
                challenge: None,
            })
        })
    };
    draws.map(case).into()
}

/// Returns cases with a kernel that stands still, and with a constant that costs all digits.
pub fn chains() -> Result<Vec<Case>> {
    let target = normal(2, 2.0, 0.5)?;
    let exact = target.log_normalizer();
    let still = GeometricPath::new(Gaussian::standard(2)?, target);
    let huge = FunctionModel::new(|x: &DVector<f64>| 1e14 - 2.0 * x.norm_squared());
    let huge = GeometricPath::new(Gaussian::standard(1)?, huge);
    let stands = Case::new(("a step of 1,000", CHAINS), Faulty, 1, move |seed| {
        let ais = Ais::new(&still, RandomWalkMetropolis::new(1e3)?).threads(1);
        let ais = ais.schedule(Schedule::linear(20)?).chains(100).seed(seed);
        Ok(seen(&ais.run()?, exact))
    });
    let rounds = Case::new(("a constant of 1e14", CHAINS), Faulty, 1, move |seed| {
        let ais = Ais::new(&huge, RandomWalkMetropolis::new(0.7)?).threads(1);
        let ais = ais.schedule(Schedule::linear(20)?).chains(100).seed(seed);
        Ok(seen(&ais.run()?, 1e14 + 0.5 * (0.25 * TAU).ln()))
    });
    Ok(vec![
        stands.made_for("ZeroAcceptance"),
        rounds.made_for("Rounding"),
    ])
}

/// Returns a machine with a mode that no chain from the base rates finds.
pub fn machine() -> Result<Vec<Case>> {
    const UNITS: usize = 60;
    // With its first hidden unit on, the first 30 visible units are on as well.
    let gain = |w: f64| 30.0 * ((-2.0 + w).exp().ln_1p() - (-2_f64).exp().ln_1p());
    let weights = DMatrix::from_fn(3, UNITS, |j, i| match j {
        0 if i < 30 => 4.0,
        0 => 0.0,
        _ => 0.3 * ((i * j) as f64).sin(),
    });
    let hidden = DVector::from_vec(vec![9_f64.ln() - gain(4.0), -0.5, -0.5]);
    let visible = DVector::from_element(UNITS, -2.0);
    let rbm: Rbm<f64> = Rbm::new(weights, hidden, visible.clone())?;
    let exact = rbm.exact_log_normalizer()?;
    let path = RbmPath::new(BaseRate::new(3, visible)?, rbm)?;
    let case = Case::new(("RBM, a mode missed", MACHINES), Faulty, 5, move |seed| {
        let ais = Ais::new(&path, BlockGibbs).threads(1).chains(100);
        let run = ais.schedule(Schedule::linear(100)?).seed(seed).run()?;
        Ok(seen(&run, exact))
    });
    Ok(vec![case.made_for("BelowBound")])
}

/// Returns unadjusted Langevin moves on a smooth target, and on a beta density, whose gradient diverges at the edges.
pub fn unadjusted() -> Result<Vec<Case>> {
    let target = normal(2, 1.0, 0.7)?;
    let exact = target.log_normalizer();
    let smooth = GeometricPath::new(Gaussian::standard(2)?, target);
    let inside = |x: &DVector<f64>| 0.0 < x[0] && x[0] < 1.0;
    let uniform = move |x: &DVector<f64>| if inside(x) { 0.0 } else { f64::NEG_INFINITY };
    let prior = FunctionModel::new(uniform)
        .with_gradient(|_: &DVector<f64>| DVector::zeros(1))
        .with_sampler(|rng: &mut dyn Rng| DVector::from_element(1, rng.random::<f64>()))
        .with_log_normalizer(0.0)?;
    let beta = FunctionModel::new(move |x: &DVector<f64>| match inside(x) {
        true => 2.0 * x[0].ln() + 8.0 * (1.0 - x[0]).ln(),
        false => f64::NEG_INFINITY,
    })
    .with_gradient(|x: &DVector<f64>| DVector::from_element(1, 2.0 / x[0] - 8.0 / (1.0 - x[0])));
    let edge = TemperedPath::new(prior, beta);
    let sound = Case::new(("ULA, smooth", UNADJUSTED), Sound, 2, move |seed| {
        let ais = Ais::new(&smooth, UnadjustedLangevin::new(0.1)?).threads(1);
        let ais = ais.schedule(Schedule::linear(50)?).chains(200).seed(seed);
        Ok(seen(&ais.run()?, exact))
    });
    let faulty = Case::new(("ULA, Beta(3, 9)", UNADJUSTED), Faulty, 2, move |seed| {
        let ais = Ais::new(&edge, UnadjustedLangevin::new(0.01)?).threads(1);
        let ais = ais.schedule(Schedule::linear(30)?).chains(1_000).seed(seed);
        Ok(seen(&ais.run()?, -495_f64.ln()))
    });
    Ok(vec![sound, faulty.made_for("MissingMass")])
}

/// Returns chains resampled within 20 blocks, within one, and within one so often that its families merge.
pub fn islands() -> Result<Vec<Case>> {
    let target = normal(3, 1.0, 0.4)?;
    let seldom = Resampling::when_ess_below(0.5)?;
    let often = Resampling::every(1)?.scheme(ResamplingScheme::Multinomial);
    let mut cases = Vec::new();
    for (name, set_up, block_size, stages, resampling) in [
        ("20 islands", Sound, 20, 50, seldom.clone()),
        ("one block", Sound, 400, 50, seldom),
        ("one block, resampled often", Faulty, 400, 200, often),
    ] {
        let exact = target.log_normalizer();
        let path = GeometricPath::new(Gaussian::standard(3)?, target.clone());
        let case = Case::new((name, ISLANDS), set_up, 2, move |seed| {
            let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5)?).threads(1);
            let ais = ais.resampling(resampling.clone()).block_size(block_size);
            let ais = ais.schedule(Schedule::power(stages, 2.0)?).chains(400);
            Ok(seen(&ais.seed(seed).run()?, exact))
        });
        cases.push(match set_up {
            Sound => case,
            Faulty => case.made_for("FewFamilies"),
        });
    }
    Ok(cases)
}

/// Returns islands on two targets. One is wider than the base along one axis, and its chains hardly move or move well.
/// The base covers the other, and its chains move well or slowly.
pub fn still() -> Result<Vec<Case>> {
    let correlated = DMatrix::from_fn(10, 10, |i, j| 0.9_f64.powi(i.abs_diff(j) as i32));
    let wide = Gaussian::new(DVector::from_element(10, 1.0), correlated)?;
    let covered = normal(10, 0.4, 0.6_f64.sqrt())?;
    let walk = RandomWalkMetropolis::new;
    let leaps = Repeat::new(Hmc::new(0.3, 3)?, 3)?;
    Ok(vec![
        of_islands("32 islands, 10-d", Sound, covered.clone(), walk(0.3)?),
        of_islands("steps of .1", Sound, covered, walk(0.1)?),
        of_islands("long axis, Hmc", Sound, wide.clone(), leaps),
        of_islands("steps of .2", Faulty, wide.clone(), walk(0.2)?),
        of_islands("steps of .05", Faulty, wide, walk(0.05)?),
    ])
}

fn of_islands<K>(name: &'static str, set_up: SetUp, target: Gaussian, kernel: K) -> Case
where
    K: for<'p> TransitionKernel<GeometricAt<'p, Gaussian, Gaussian>>
        + Clone
        + Send
        + Sync
        + 'static,
{
    let exact = target.log_normalizer();
    Case::new((name, ISLANDS), set_up, 5, move |seed| {
        let path = GeometricPath::new(Gaussian::standard(10)?, target.clone());
        let ais = Ais::new(&path, kernel.clone()).threads(1);
        let ais = ais.resampling(Resampling::every(1)?).block_size(100);
        let ais = ais.schedule(Schedule::power(40, 2.0)?).chains(32 * 100);
        Ok(seen(&ais.seed(seed).run()?, exact))
    })
}

/// Returns forward and reverse runs of four targets. A result is right if both directions are right.
pub fn both() -> Result<Vec<Case>> {
    let mixture = |modes: [(f64, [f64; 3]); 3], deviation| {
        let mode = |(weight, centre): (f64, [f64; 3])| {
            Ok((
                weight,
                Gaussian::isotropic(DVector::from_column_slice(&centre), deviation)?,
            ))
        };
        GaussianMixture::new(modes.map(mode).into_iter().collect::<Result<Vec<_>>>()?)
    };
    let wells = [
        (0.5, [2.0, 0.0, 0.0]),
        (0.3, [-2.0, 1.0, 0.0]),
        (0.2, [0.0, -2.0, 1.0]),
    ];
    let far = wells.map(|(weight, [x, y, z])| (weight, [8.0 * x, y, z]));
    let mut cases = Vec::new();
    for (stages, names) in [
        (5, ["wells, K = 5", "narrow, K = 5", "funnel, K = 5"]),
        (20, ["wells, K = 20", "narrow, K = 20", "funnel, K = 20"]),
        (
            160,
            ["wells, K = 160", "narrow, K = 160", "funnel, K = 160"],
        ),
    ] {
        let set_up = if stages < 100 { Faulty } else { Sound };
        let base = |deviation| normal(3, 0.0, deviation);
        let narrow = normal(3, 2.0, 0.2)?;
        let exact = narrow.log_normalizer();
        cases.push(pair(
            names[0],
            set_up,
            stages,
            (base(1.0)?, mixture(wells, 0.2)?, 0.0),
        ));
        cases.push(pair(names[1], set_up, stages, (base(1.0)?, narrow, exact)));
        let exact = TAU.ln() + 0.5 * (TAU * 9.0).ln();
        cases.push(pair(
            names[2],
            Faulty,
            stages,
            (base(3.0)?, funnel(), exact),
        ));
    }
    let missed = (normal(3, 0.0, 1.0)?, mixture(far, 1.0)?, 0.0);
    cases.push(pair("modes out of reach", Faulty, 100, missed).made_for("ForwardReverseGap"));
    let hopeless = (normal(3, 0.0, 1.0)?, mixture(far, 0.05)?, 0.0);
    cases.push(pair("modes out of reach, narrow", Faulty, 5, hopeless).made_for("LittleOverlap"));
    Ok(cases)
}

/// Returns the funnel `v ~ N(0, 3^2)`, two `x ~ N(0, e^v)`, without its constant.
fn funnel() -> impl Sampleable<State = DVector<f64>> + Sync + Send + 'static {
    let log_density = |x: &DVector<f64>| {
        let rest = x.rows_range(1..).norm_squared();
        -0.5 * (x[0] * x[0] / 9.0 + 2.0 * x[0] + rest * (-x[0]).exp())
    };
    FunctionModel::new(log_density).with_sampler(|rng: &mut dyn Rng| {
        let v = 3.0 * rng.sample::<f64, _>(StandardNormal);
        let scale = (0.5 * v).exp();
        DVector::from_fn(3, |i, _| match i {
            0 => v,
            _ => scale * rng.sample::<f64, _>(StandardNormal),
        })
    })
}

/// Joins both directions along a geometric path, with 100 chains each way.
fn pair<T>(
    name: &'static str,
    set_up: SetUp,
    stages: usize,
    (base, target, exact): (Gaussian, T, f64),
) -> Case
where
    T: UnnormalizedModel<State = DVector<f64>> + Sampleable + Sync + Send + 'static,
{
    Case::new((name, BOTH), set_up, 2, move |seed| {
        let path = GeometricPath::new(&base, &target);
        let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5)?).threads(1);
        let ais = ais
            .schedule(Schedule::power(stages, 2.0)?)
            .chains(100)
            .seed(seed);
        let forward = ais.run()?;
        let reverse = ais.reverse(&TargetSamples::draw(&target, 100, seed))?;
        let right = seen(&forward, exact).right && seen(&reverse, exact).right;
        let bridge = seen(&Bridge::new(&forward, &reverse)?, exact);
        Ok(Seen { right, ..bridge })
    })
}

/// Returns ladders with enough betas and rounds for two modes, and with too few.
pub fn ladders() -> Result<Vec<Case>> {
    let mode = |mean| Ok((0.5, normal(2, mean, 0.7)?));
    let modes: Result<Vec<_>> = [-3.0, 3.0].into_iter().map(mode).collect();
    let modes = GaussianMixture::new(modes?)?;
    let mut cases = Vec::new();
    for (name, set_up, betas, rounds) in [
        ("12 betas, 9 rounds", Sound, 12, 9),
        ("2 betas, 9 rounds", Faulty, 2, 9),
        ("12 betas, 2 rounds", Faulty, 12, 2),
    ] {
        let path = GeometricPath::new(normal(2, 0.0, 3.0)?, modes.clone());
        let case = Case::new((name, LADDERS), set_up, 5, move |seed| {
            let tempering = Tempering::new(&path, RandomWalkMetropolis::new(1.0)?).threads(1);
            let tempering = tempering.schedule(Schedule::power(betas, 2.0)?);
            Ok(seen(&tempering.rounds(rounds).seed(seed).run()?, 0.0))
        });
        cases.push(match (betas, rounds) {
            (_, 2) => case.made_for("FewRoundTrips"),
            _ => case,
        });
    }
    let path = GeometricPath::new(normal(1, 0.0, 1.0)?, normal(1, 20.0, 1.0)?);
    let far = Case::new(
        ("3 betas to a far target", LADDERS),
        Faulty,
        5,
        move |seed| {
            let tempering = Tempering::new(&path, RandomWalkMetropolis::new(1.0)?).threads(1);
            let tempering = tempering.schedule(Schedule::linear(3)?).rounds(6);
            Ok(seen(&tempering.seed(seed).run()?, 0.5 * TAU.ln()))
        },
    );
    cases.push(far.made_for("RejectedSwaps"));
    Ok(cases)
}

/// Returns levels that reach the mass, and levels that end before it.
pub fn levels() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, set_up, most) in [("levels", Sound, 1_000), ("4 levels", Faulty, 4)] {
        let likelihood = FunctionModel::new(|x: &DVector<f64>| -50.0 * x.norm_squared());
        let problem = TemperedPath::new(Gaussian::standard(3)?, likelihood);
        let exact = -1.5 * 101_f64.ln();
        let case = Case::new((name, LEVELS), set_up, 10, move |seed| {
            let levels = NestedSmc::new(&problem, RandomWalkMetropolis::new(0.5)?).threads(1);
            let levels = levels.islands(20).chains(32).moves(10).max_levels(most);
            Ok(seen(&levels.seed(seed).run()?, exact))
        });
        cases.push(match set_up {
            Sound => case,
            Faulty => case.made_for("LevelsEnded"),
        });
    }
    Ok(cases)
}
