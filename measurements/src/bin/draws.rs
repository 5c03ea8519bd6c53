//! Coverage of bridge sampling from autocorrelated draws, over targets whose log Z is known.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin draws -- --seeds 200
//! ```

use annealed::Result;
use annealed::bidirectional::BridgeSampling;
use annealed::estimate::log_sum_exp;
use annealed::model::{Bernoulli, Fit, StudentT};
use annealed::prelude::*;
use annealed::rand::{RngExt, SeedableRng};
use annealed_measurements::problems::seeds::over_seeds;
use clap::Parser;
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

/// How often the intervals of bridge sampling hold, and what its warnings say.
#[derive(Debug, Parser)]
struct Options {
    /// Number of seeds
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// Only the targets whose names contain this
    #[arg(long, default_value = "")]
    only: String,
}

/// One seed: the error of log Z and its standard error, whether the 95% interval holds, and whether it warned.
struct Seen {
    off: f64,
    error: f64,
    holds: bool,
    warned: bool,
    effective: f64,
}

const CHAINS: usize = 4;
const LENGTHS: [usize; 3] = [250, 1_000, 4_000];

/// Draws four Metropolis chains that begin at draws of the target, and estimates log Z from them.
fn seen<L: Fit<State: Clone>, M: UnnormalizedModel<State = L::State>>(
    target: &M,
    exact: f64,
    (length, seed): (usize, u64),
    start: impl Fn(&mut Xoshiro256PlusPlus) -> L::State,
    propose: impl Fn(&L::State, &mut Xoshiro256PlusPlus) -> L::State,
) -> Result<Seen> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut chain = || {
        let mut state = start(&mut rng);
        let mut log_density = target.log_density(&state);
        let step = |_| {
            let proposal = propose(&state, &mut rng);
            let found = target.log_density(&proposal);
            if rng.random::<f64>().ln() < found - log_density {
                (state, log_density) = (proposal, found);
            }
            state.clone()
        };
        Vec::from_iter((0..length).map(step))
    };
    let chains = Vec::from_iter((0..CHAINS).map(|_| chain()));
    let found = BridgeSampling::<L>::new(target, &chains, seed)?;
    let (lower, upper) = found.interval();
    Ok(Seen {
        off: found.log_z() - exact,
        error: found.standard_error(),
        holds: lower <= exact && exact <= upper,
        warned: !found.warnings().is_empty(),
        effective: found.effective_draws(),
    })
}

fn walk(step: f64) -> impl Fn(&DVector<f64>, &mut Xoshiro256PlusPlus) -> DVector<f64> {
    move |state, rng| state.map(|x| x + step * rng.sample::<f64, _>(StandardNormal))
}

/// Runs all seeds of a target that can be sampled, at each length.
fn vectors<M>(options: &Options, name: &str, target: &M, exact: f64, step: f64) -> Result<()>
where
    M: Sampleable<State = DVector<f64>> + Sync,
{
    report(options, name, |length, seed| {
        let start = |rng: &mut Xoshiro256PlusPlus| target.sample(rng);
        seen::<StudentT, M>(target, exact, (length, seed), start, walk(step))
    })
}

fn report(
    options: &Options,
    name: &str,
    run: impl Fn(usize, u64) -> Result<Seen> + Sync,
) -> Result<()> {
    for length in LENGTHS {
        if !name.contains(&options.only) {
            continue;
        }
        let all = over_seeds(options.seeds, |seed| run(length, seed))?;
        let silent = Vec::from_iter(all.iter().filter(|one| !one.warned));
        let held = silent.iter().filter(|one| one.holds).count();
        let far = silent.iter().filter(|one| one.off.abs() > 4.0 * one.error);
        let mean = |of: fn(&Seen) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        println!(
            "| {name} | {length} | {:.0} | {} | {:.1}% | {} | {:.3} | {:.3} |",
            mean(|one| one.effective),
            all.len() - silent.len(),
            100.0 * held as f64 / silent.len().max(1) as f64,
            far.count(),
            mean(|one| one.off),
            mean(|one| one.error),
        );
    }
    Ok(())
}

/// Spins on a ring of 10 with a field.
fn ring(bits: &[bool]) -> f64 {
    let spin = |i: usize| if bits[i % bits.len()] { 1.0 } else { -1.0 };
    (0..bits.len())
        .map(|i| 0.4 * spin(i) * spin(i + 1) + 0.3 * spin(i))
        .sum()
}

fn main() -> Result<()> {
    let options = Options::parse();
    println!(
        "| target | draws of each of 4 chains | effective | warned of {} | silent ones that hold | silent and off by 4 errors | mean error | mean standard error |",
        options.seeds
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let of = |d: usize, mean: f64, deviation: f64| {
        Gaussian::isotropic(DVector::from_element(d, mean), deviation)
    };
    let correlated = DMatrix::from_fn(5, 5, |i, j| 0.7_f64.powi(i.abs_diff(j) as i32));
    let gaussian = Gaussian::new(DVector::from_element(5, 1.0), correlated)?;
    vectors(
        &options,
        "Gaussian, 5-d",
        &gaussian,
        gaussian.log_normalizer(),
        0.7,
    )?;
    let many = of(50, 0.0, 1.0)?;
    vectors(
        &options,
        "Gaussian, 50-d",
        &many,
        many.log_normalizer(),
        0.33,
    )?;
    let heavy = StudentT::new(of(5, 0.0, 1.0)?, 5.0)?;
    vectors(
        &options,
        "Student t, 5-d",
        &heavy,
        heavy.log_normalizer(),
        1.0,
    )?;
    let two = GaussianMixture::new([(0.4, of(2, -1.2, 1.0)?), (0.6, of(2, 1.2, 0.7)?)])?;
    vectors(&options, "two modes, 2-d", &two, 0.0, 1.5)?;
    let apart = GaussianMixture::new([(0.5, of(2, -3.0, 1.0)?), (0.5, of(2, 3.0, 1.0)?)])?;
    vectors(&options, "two modes apart, 2-d", &apart, 0.0, 2.5)?;
    let spins = FunctionModel::new(|bits: &Vec<bool>| ring(bits));
    let bits = |state: usize| Vec::from_iter((0..10).map(|i| state >> i & 1 == 1));
    let exact = log_sum_exp((0..1 << 10).map(|state| ring(&bits(state))));
    report(&options, "spins on a ring", |length, seed| {
        let flip = |from: &Vec<bool>, rng: &mut Xoshiro256PlusPlus| {
            let mut to = from.clone();
            let i = rng.random_range(0..to.len());
            to[i] = !to[i];
            to
        };
        let start = |rng: &mut Xoshiro256PlusPlus| {
            // By the inverse of the distribution function over all states.
            let mut left: f64 = rng.random();
            let found = (0..1 << 10).find(|state| {
                left -= (ring(&bits(*state)) - exact).exp();
                left < 0.0
            });
            bits(found.unwrap_or(0))
        };
        seen::<Bernoulli, _>(&spins, exact, (length, seed), start, flip)
    })
}
