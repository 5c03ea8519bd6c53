//! Coverage of bridge sampling from autocorrelated draws, over targets whose log Z is known.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin draws -- --seeds 200
//! ```
//!
//! One target reads a data file that is not in this repository.

mod chains;

use std::collections::BTreeMap;

use annealed::Result;
use annealed::bidirectional::BridgeSampling;
use annealed::estimate::{Warning, log_sum_exp};
use annealed::kernel::Preconditioner;
use annealed::model::{Bernoulli, Fit, StudentT};
use annealed::prelude::*;
use annealed::rand::{RngExt, SeedableRng};
use annealed_measurements::problems::hierarchies::non_centred_schools;
use annealed_measurements::problems::motion;
use annealed_measurements::problems::regression::Regression;
use annealed_measurements::problems::seeds::over_seeds;
use annealed_measurements::shared_data;
use clap::Parser;
use rand_xoshiro::Xoshiro256PlusPlus;

use chains::{CHAINS, metropolis, moved, walk};

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

/// One seed: the error of log Z and its standard error, whether the 95% interval covers log Z, and the names of its
/// warnings.
struct Seen {
    off: f64,
    error: f64,
    holds: bool,
    warned: Vec<String>,
    effective: f64,
}

impl Seen {
    fn is_off(&self) -> bool {
        self.off.abs() > 4.0 * self.error
    }
}

const LENGTHS: [usize; 3] = [250, 1_000, 4_000];
/// Number of moves before the first draw, for chains that do not begin at draws of the target.
const WARM_UP: usize = 1_000;

/// Estimates log Z from chains of draws.
fn seen<L: Fit<State: Clone>, M: UnnormalizedModel<State = L::State>>(
    target: &M,
    exact: f64,
    chains: &[Vec<L::State>],
    seed: u64,
) -> Result<Seen> {
    let found = BridgeSampling::<L>::new(target, chains, seed)?;
    let (lower, upper) = found.interval();
    Ok(Seen {
        off: found.log_z() - exact,
        error: found.standard_error(),
        holds: lower <= exact && exact <= upper,
        warned: found.warnings().iter().map(Warning::name).collect(),
        effective: found.effective_draws(),
    })
}

/// Runs all seeds of a target at each length, and prints one line per length.
fn report(
    options: &Options,
    name: &str,
    run: impl Fn(usize, u64) -> Result<Seen> + Sync,
) -> Result<()> {
    if !name.contains(&options.only) {
        return Ok(());
    }
    for length in LENGTHS {
        let all = over_seeds(options.seeds, |seed| run(length, seed))?;
        let silent = Vec::from_iter(all.iter().filter(|one| one.warned.is_empty()));
        // Warnings of right runs.
        let mut names = BTreeMap::new();
        for name in all
            .iter()
            .filter(|one| !one.is_off())
            .flat_map(|one| &one.warned)
        {
            *names.entry(name.clone()).or_insert(0) += 1;
        }
        let names = Vec::from_iter(names.iter().map(|(name, count)| format!("{name} {count}")));
        let held = silent.iter().filter(|one| one.holds).count();
        let far = silent.iter().filter(|one| one.is_off());
        let square = |one: &&Seen| (one.off / one.error).powi(2);
        let of_silent = silent.len().max(1) as f64;
        let mean = |of: fn(&Seen) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        println!(
            "| {name} | {length} | {:.0} | {} | {held} of {} | {} | {:.3} | {:.4} | {:.2} | {} |",
            mean(|one| one.effective),
            all.len() - silent.len(),
            silent.len(),
            far.count(),
            mean(|one| one.off),
            mean(|one| one.error),
            (silent.iter().copied().map(|one| square(&one)).sum::<f64>() / of_silent).sqrt(),
            names.join(", "),
        );
    }
    Ok(())
}

/// Draws chains of a target that can be sampled, by a random walk and independently.
fn walks<L: Fit<State = DVector<f64>>, M>(
    options: &Options,
    name: &str,
    target: &M,
    exact: f64,
    step: f64,
) -> Result<()>
where
    M: Sampleable<State = DVector<f64>> + Sync,
{
    report(options, name, |length, seed| {
        let start = |rng: &mut Xoshiro256PlusPlus| target.sample(rng);
        let chains = metropolis(target, (length, seed), start, walk(step));
        seen::<L, M>(target, exact, &chains, seed)
    })?;
    report(
        options,
        &format!("{name}, independent draws"),
        |length, seed| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut chain = |_| Vec::from_iter((0..length).map(|_| target.sample(&mut rng)));
            let chains = Vec::from_iter((0..CHAINS).map(&mut chain));
            seen::<L, M>(target, exact, &chains, seed)
        },
    )
}

/// Spins on a ring of 10 with a field.
fn ring(bits: &[bool]) -> f64 {
    let spin = |i: usize| if bits[i % bits.len()] { 1.0 } else { -1.0 };
    (0..bits.len())
        .map(|i| 0.4 * spin(i) * spin(i + 1) + 0.3 * spin(i))
        .sum()
}

fn spins(options: &Options) -> Result<()> {
    let target = FunctionModel::new(|bits: &Vec<bool>| ring(bits));
    let bits = |state: usize| Vec::from_iter((0..10).map(|i| state >> i & 1 == 1));
    let exact = log_sum_exp((0..1 << 10).map(|state| ring(&bits(state))));
    report(options, "ten spins on a ring", |length, seed| {
        let flip = |from: &Vec<bool>, rng: &mut Xoshiro256PlusPlus| {
            let mut to = from.clone();
            let i = rng.random_range(0..to.len());
            to[i] = !to[i];
            to
        };
        let start = |rng: &mut Xoshiro256PlusPlus| {
            // Inverts the distribution function over all states.
            let mut left: f64 = rng.random();
            let found = (0..1 << 10).find(|state| {
                left -= (ring(&bits(*state)) - exact).exp();
                left < 0.0
            });
            bits(found.unwrap_or(0))
        };
        let chains = metropolis(&target, (length, seed), start, flip);
        seen::<Bernoulli, _>(&target, exact, &chains, seed)
    })
}

/// Targets that can be sampled.
fn laws(options: &Options) -> Result<()> {
    let of = |d: usize, mean: f64, deviation: f64| {
        Gaussian::isotropic(DVector::from_element(d, mean), deviation)
    };
    let correlated = DMatrix::from_fn(5, 5, |i, j| 0.7_f64.powi(i.abs_diff(j) as i32));
    let gaussian = Gaussian::new(DVector::from_element(5, 1.0), correlated)?;
    let exact = gaussian.log_normalizer();
    walks::<StudentT, _>(options, "Gaussian, 5-d", &gaussian, exact, 0.7)?;
    let many = of(50, 0.0, 1.0)?;
    let exact = many.log_normalizer();
    report(options, "Gaussian, 50-d", |length, seed| {
        let start = |rng: &mut Xoshiro256PlusPlus| many.sample(rng);
        let chains = moved(&many, &Hmc::new(0.25, 4)?, (length, 0, seed), start)?;
        seen::<StudentT, _>(&many, exact, &chains, seed)
    })?;
    let heavy = StudentT::new(of(5, 0.0, 1.0)?, 5.0)?;
    let exact = heavy.log_normalizer();
    walks::<StudentT, _>(options, "Student t of 5 degrees, 5-d", &heavy, exact, 1.0)?;
    let two = GaussianMixture::new([(0.4, of(2, -1.2, 1.0)?), (0.6, of(2, 1.2, 0.7)?)])?;
    walks::<StudentT, _>(options, "two modes that overlap, 2-d", &two, 0.0, 1.5)?;
    let apart = GaussianMixture::new([(0.5, of(2, -3.0, 1.0)?), (0.5, of(2, 3.0, 1.0)?)])?;
    let name = "two modes six deviations apart, 2-d";
    walks::<StudentT, _>(options, name, &apart, 0.0, 2.5)?;
    walks::<GaussianMixture, _>(options, "the same by a mixture", &apart, 0.0, 2.5)
}

/// Posteriors, sampled by kernels of the crate.
fn posteriors(options: &Options) -> Result<()> {
    let (schools, exact) = non_centred_schools();
    report(
        options,
        "eight schools, non-centred, 10-d",
        |length, seed| {
            let kernel = Repeat::new(RandomWalkMetropolis::new(0.5)?, 5)?;
            let start = |_: &mut Xoshiro256PlusPlus| DVector::zeros(10);
            let chains = moved(&schools, &kernel, (length, WARM_UP, seed), start)?;
            seen::<StudentT, _>(&schools, exact, &chains, seed)
        },
    )?;
    let (brownian, exact) = (motion::brownian()?, motion::log_z(132));
    report(options, "Brownian motion, 32-d", |length, seed| {
        let start = |_: &mut Xoshiro256PlusPlus| {
            DVector::from_fn(32, |i, _| if i < 2 { -2.0 } else { -0.2 })
        };
        let chains = moved(
            &brownian,
            &Hmc::new(0.015, 25)?,
            (length, WARM_UP, seed),
            start,
        )?;
        seen::<StudentT, _>(&brownian, exact, &chains, seed)
    })?;
    let file = shared_data().join("targets/german_credit.csv");
    if !file.is_file() {
        eprintln!("skipped: reads ../shared/data/targets/german_credit.csv, which is not there");
        return Ok(());
    }
    let credit = Regression::credit(&file)?;
    let laplace = Gaussian::laplace(&credit, DVector::zeros(25))?;
    let shape = Preconditioner::covariance(&laplace.covariance())?;
    let kernel = Hmc::new(0.5, 3)?.preconditioned(shape);
    report(options, "German credit, 25-d", |length, seed| {
        let start = |rng: &mut Xoshiro256PlusPlus| laplace.sample(rng);
        let chains = moved(&credit, &kernel, (length, WARM_UP / 10, seed), start)?;
        seen::<StudentT, _>(&credit, -585.098, &chains, seed)
    })
}

fn main() -> Result<()> {
    let options = Options::parse();
    println!(
        "| target | draws of each of 4 chains | effective | warned of {} | silent ones that hold | silent and off by 4 errors \
         | mean error | mean standard error | root mean square error over standard error | warnings of right runs |",
        options.seeds
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|---|");
    laws(&options)?;
    spins(&options)?;
    posteriors(&options)
}
