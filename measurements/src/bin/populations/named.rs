//! The problems that the command line offers by name.

use std::f64::consts::TAU;
use std::path::{Path, PathBuf};

use annealed::prelude::*;
use annealed::{Error, Result};
use annealed_measurements::problems::latin::{Exchanges, LOG_COUNTS, LatinPath};
use annealed_measurements::problems::logistic::Logistic;
use annealed_measurements::problems::meter::Meter;
use annealed_measurements::problems::targets::{Ball, Wells, spike_and_slab, spike_and_slab_log_z};
use annealed_measurements::shared_data;
use clap::ValueEnum;
use rand::{Rng, RngExt};
use rand_distr::Exp1;

use crate::counted::CountedMoves;
use crate::methods::{Samples, Task};
use crate::problem::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Logistic regression of 208 sonar returns; log evidence -125.40, published to .03 (Dau and Chopin 2022)
    Sonar,
    /// The number of Latin squares (McKay and Wanless 2005)
    LatinSquares,
    /// A transition of the first order in 10 dimensions; closed form (Skilling 2006)
    SpikeAndSlab,
    /// Two probabilities of which only the product is known, 10^11 trials; quadrature (Surjanovic et al. 2023)
    Unid,
    /// 2^16 modes in 32 dimensions; quadrature (Noe et al. 2019)
    ManyWell,
    /// Four modes of unequal mass in the plane; closed form
    Modes,
}

impl Name {
    pub fn budget(self) -> u64 {
        match self {
            Self::Sonar => 4_600_000,
            Self::LatinSquares => 3_600_000,
            Self::SpikeAndSlab => 5_000_000,
            Self::Unid => 20_000_000,
            Self::ManyWell => 2_000_000,
            Self::Modes => 1_000_000,
        }
    }

    /// Sets up the problem; `order` is for Latin squares, `data` the file of sonar returns.
    pub fn problem(self, order: usize, data: &Path) -> Result<Problem> {
        match self {
            Self::Sonar => sonar(data),
            Self::LatinSquares => latin_squares(order),
            Self::SpikeAndSlab => first_order(),
            Self::Unid => unid(),
            Self::ManyWell => many_well(),
            Self::Modes => modes(),
        }
    }
}

pub fn sonar_file() -> PathBuf {
    shared_data().join("sonar/sonar.csv")
}

pub fn leap() -> Result<Hmc> {
    Hmc::new(0.3, 3)
}

fn sonar(data: &Path) -> Result<Problem> {
    let posterior = (Gaussian::standard(61)?, Logistic::sonar(data)?);
    Ok(Problem::tempered(-125.40, posterior, leap()?, None))
}

/// Sets up Latin squares of order 4 to 11. Each proposal to exchange two cells counts as an evaluation.
pub fn latin_squares(order: usize) -> Result<Problem> {
    let known = LOG_COUNTS.into_iter().find(|(known, _)| *known == order);
    let Some((_, exact)) = known else {
        return Err(Error::invalid("--order", order, "4 to 11"));
    };
    let meter = Meter::default();
    let kernel = CountedMoves {
        kernel: Exchanges {
            proposals: 2 * order,
            targeted: 0.8,
        },
        meter: meter.clone(),
    };
    let path = LatinPath::new(order, 7.0);
    Ok(Problem::new(exact, meter, move |method, terms, meter| {
        Task::fixed(&path, kernel.clone(), terms, meter).solve(method)
    }))
}

pub fn first_order() -> Result<Problem> {
    // The part of the slab outside of the ball has 10^-16 of the mass.
    let samples = drawn_from(spike_and_slab()?);
    let posterior = (Ball, spike_and_slab()?);
    let kernel = RandomWalkMetropolis::new(0.3)?;
    let exact = spike_and_slab_log_z();
    Ok(Problem::tempered(exact, posterior, kernel, samples))
}

/// Sets up `p_1, p_2 ~ U(0, 1)` and `y ~ Bin(n, p_1 p_2)` over `x_i = -log p_i`: a ridge of relative width 10^-5.
fn unid() -> Result<Problem> {
    const TRIALS: f64 = 1e11;
    const SUCCESSES: f64 = 1e10;
    const FAILURES: f64 = TRIALS - SUCCESSES;
    // Stirling's series of the binomial coefficient, with the density at its maximum.
    let lead = -0.5 * (TAU * TRIALS * 0.1 * 0.9).ln()
        + (1.0 / TRIALS - 1.0 / SUCCESSES - 1.0 / FAILURES) / 12.0;
    let likelihood = FunctionModel::new(move |x: &DVector<f64>| {
        let off = (-x[0] - x[1]).exp() - 0.1;
        match -0.1 < off && off < 0.9 {
            true => lead + SUCCESSES * (off / 0.1).ln_1p() + FAILURES * (-off / 0.9).ln_1p(),
            false => f64::NEG_INFINITY,
        }
    });
    let prior = FunctionModel::new(|x: &DVector<f64>| match x.min() >= 0.0 {
        true => -x.sum(),
        false => f64::NEG_INFINITY,
    })
    .with_sampler(|rng: &mut dyn Rng| DVector::from_fn(2, |_, _| rng.sample(Exp1)))
    .with_log_normalizer(0.0)?;
    let kernel = RandomWalkMetropolis::new(0.3)?;
    Ok(Problem::tempered(
        -24.494_404,
        (prior, likelihood),
        kernel,
        None,
    ))
}

fn many_well() -> Result<Problem> {
    let ends = (Gaussian::standard(32)?, Wells);
    Ok(Problem::geometric(Wells::log_z(16), ends, leap()?, None))
}

/// Sets up four Gaussian modes of unequal mass in the plane, from N((1, 0), I).
pub fn modes() -> Result<Problem> {
    let mode = |x: f64, y: f64| Gaussian::isotropic(DVector::from_vec(vec![x, y]), 0.4);
    let target = GaussianMixture::new([
        (0.4, mode(5.0, 0.0)?),
        (0.3, mode(0.0, 5.0)?),
        (0.2, mode(-5.0, 0.0)?),
        (0.1, mode(0.0, -5.0)?),
    ])?;
    let base = Gaussian::isotropic(DVector::from_vec(vec![1.0, 0.0]), 1.0)?;
    let samples = drawn_from(target.clone());
    let ends = (base, target);
    Ok(Problem::geometric(0.0, ends, leap()?, samples))
}

/// Returns a function that draws exact samples of `model`.
pub fn drawn_from<M>(model: M) -> Samples<DVector<f64>>
where
    M: Sampleable<State = DVector<f64>> + 'static,
{
    let draw = move |count, seed| {
        let samples = TargetSamples::draw(&model, count, seed);
        Ok(samples.states().to_vec())
    };
    Some(Box::new(draw))
}
