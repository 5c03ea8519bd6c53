//! The first pass of many data, which finds stages for all and step sizes for each.

use std::ops::Range;
use std::time::Instant;

use nalgebra::DVector;

use super::runner::LogLikelihoods;
use crate::adaptive::{Barrier, Gain};
use crate::kernel::{Block, DatumSizes, EachDatum, TransitionKernel};
use crate::model::{Latent, LatentPrior, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::path::{TemperedAt, TemperedPath, dimension};
use crate::pilot::{distance, next_stage, stages_left, sums};
use crate::population::Populations;
use crate::random::{Purpose, stream};
use crate::work::{Halt, Pulse, Single, Stepped, Task};
use crate::{Error, Result};

/// The result of a first pass of [`LogLikelihoods`]: what it found about the path, and a kernel with step sizes for each
/// datum.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TunedByDatum<K> {
    /// The barrier along the path, of the worse data.
    pub barrier: Barrier,
    /// The kernel.
    pub kernel: K,
    /// Evaluations of the density; a gradient counts as one more.
    pub evaluations: u64,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// The data whose distances set a stage: nine tenths of all have a shorter distance.
const WORSE: f64 = 0.9;
/// Distance of a stage, `sqrt(N / CESS - 1)`: the conditional ESS is half of the chains.
const DISTANCE: f64 = 1.0;
/// Relative error at which the search for a stage's length ends.
const PRECISION: f64 = 0.1;

/// The task of a first pass.
pub(super) struct FirstPassByDatum<'s, 'e, P, L, K>(pub(super) &'s LogLikelihoods<'e, P, L, K>);

/// A first pass under way.
struct AtWork<'s, 'e, P, L, K>
where
    P: Sampleable + NormalizedModel + UnnormalizedModel<State = DVector<f64>>,
    L: UnnormalizedModel<State = Latent>,
{
    settings: &'s LogLikelihoods<'e, P, L, K>,
    populations: Populations<&'s TemperedPath<LatentPrior<P>, L>>,
    /// Logarithms of the factors of the step size: at each beta, one for each datum.
    knots: Vec<(f64, Vec<f64>)>,
    log_sizes: Vec<f64>,
    /// Number of evaluations per chain.
    evaluations: usize,
}

impl<P, L, K> AtWork<'_, '_, P, L, K>
where
    P: Sampleable + NormalizedModel + UnnormalizedModel<State = DVector<f64>> + Send + Sync,
    L: UnnormalizedModel<State = Latent> + Send + Sync,
    K: EachDatum + Send + Sync,
    for<'p> K::Adapted: TransitionKernel<TemperedAt<'p, LatentPrior<P>, L>>,
{
    fn kernel(&self, knots: Vec<(f64, Vec<f64>)>) -> K::Adapted {
        self.settings.kernel.adapted(DatumSizes::new(knots))
    }

    /// Moves all chains, while the acceptance of each datum's chains adapts its step size.
    fn moves(&mut self, moves: usize) -> Result<()> {
        let (beta, kernel) = (self.populations.beta(), &self.settings.kernel);
        let target = kernel.optimal_acceptance();
        let longest = (kernel.longest_step_size() / kernel.step_size().at(beta)).ln();
        let mut gains = Vec::from_iter(self.log_sizes.iter().map(|_| Gain::default()));
        for _ in 0..moves {
            let kernel = self.kernel(vec![(beta, self.log_sizes.clone())]);
            self.populations.stay(&kernel)?;
            let accepted = self.populations.map(&|at| Ok(acceptances(at.block())))?;
            for (datum, acceptance) in accepted.into_iter().flatten() {
                let change = gains[datum].increment(acceptance - target);
                self.log_sizes[datum] = (self.log_sizes[datum] + change).min(longest);
            }
            self.evaluations += kernel.evaluations(dimension(self.populations.path()));
        }
        self.knots.push((beta, self.log_sizes.clone()));
        Ok(())
    }

    /// Goes one stage on, and resamples the chains of each datum among themselves. Returns the stage's distance.
    fn stage(&mut self, guess: f64) -> Result<f64> {
        let found = next_stage(
            &mut self.populations,
            guess,
            DISTANCE,
            PRECISION,
            &|all, here, there| {
                let distances = all.map(&|at| {
                    let block = at.block();
                    let of = |(_, chains)| distance(sums(block, chains, here, there));
                    Ok(Vec::from_iter(by_datum(block.states()).map(of)))
                })?;
                let mut distances = distances.concat();
                distances.sort_unstable_by(f64::total_cmp);
                Ok(distances[((distances.len() - 1) as f64 * WORSE).round() as usize])
            },
        )?;
        self.evaluations += found.evaluations;
        self.populations.map(&|at| {
            at.weigh_to(found.beta)?;
            let block = at.block_mut();
            let data = Vec::from_iter(by_datum(block.states()));
            for (datum, chains) in data {
                let alive = chains.clone().any(|chain| block.is_alive(chain));
                check_alive(alive, datum)?;
                block.resample_among(chains, Latent::clone);
            }
            block.level_weights_to(0.0);
            Ok(())
        })?;
        Ok(found.distance)
    }
}

impl<P, L, K> Task for FirstPassByDatum<'_, '_, P, L, K>
where
    P: Sampleable + NormalizedModel + UnnormalizedModel<State = DVector<f64>> + Send + Sync,
    L: UnnormalizedModel<State = Latent> + Send + Sync,
    K: EachDatum + Send + Sync,
    for<'p> K::Adapted: TransitionKernel<TemperedAt<'p, LatentPrior<P>, L>>,
{
    type Output = Single<TunedByDatum<K::Adapted>>;

    fn chains(&self, _block: usize) -> Range<usize> {
        0..self.0.all_chains()
    }

    fn run(&self, _block: usize, pulse: &mut dyn Pulse) -> Result<Self::Output, Halt> {
        let (settings, begun) = (self.0, Instant::now());
        let first = stream(settings.seed, Purpose::FIRST_PASS, 0);
        let blocks = settings.blocks().collect();
        let mut at = AtWork {
            settings,
            populations: Populations::start_blocks(&settings.path, blocks, first)?,
            knots: Vec::new(),
            log_sizes: vec![0.0; settings.number_of_data()],
            evaluations: 0,
        };
        let kernel = at.kernel(vec![(0.0, at.log_sizes.clone())]);
        at.populations.check_model(&kernel, &[1.0, 0.0])?;
        at.moves(2 * settings.moves)?;
        let (mut betas, mut intensities, mut length) = (vec![0.0], Vec::new(), 1e-3);
        while betas[betas.len() - 1] < 1.0 {
            let beta = betas[betas.len() - 1];
            pulse.at((0..settings.all_chains(), betas.len() - 1, beta));
            let distance = at.stage(length)?;
            at.moves(settings.moves)?;
            betas.push(at.populations.beta());
            intensities.push(distance.powi(2).ln_1p().sqrt());
            length = at.populations.beta() - beta;
            let (all, next) = (settings.all_chains(), at.populations.beta());
            let left = Some((all * stages_left(next, length)) as u64);
            let stepped = Stepped::of(all, next >= 1.0);
            pulse.pass(Stepped { left, ..stepped })?;
        }
        at.populations.check_model(&kernel, &[1.0])?;
        let knots = std::mem::take(&mut at.knots);
        let kernel = at.kernel(knots);
        Ok(Single(TunedByDatum {
            barrier: Barrier::new(betas, intensities),
            kernel,
            evaluations: (at.evaluations * settings.all_chains()) as u64,
            seconds: begun.elapsed().as_secs_f64(),
        }))
    }

    fn width(&self) -> usize {
        self.0.blocks().count()
    }
}

/// Returns the data of neighbouring chains, with the places of their chains.
fn by_datum(states: &[Latent]) -> impl Iterator<Item = (usize, Range<usize>)> {
    let mut end = 0;
    let same = |one: &Latent, other: &Latent| one.datum() == other.datum();
    states.chunk_by(same).map(move |chains| {
        let first = end;
        end += chains.len();
        (chains[0].datum(), first..end)
    })
}

/// Returns the mean acceptance of the last move of each datum's chains.
fn acceptances(block: &Block<Latent>) -> Vec<(usize, f64)> {
    let mean = |(datum, chains): (usize, Range<usize>)| {
        let count = chains.len() as f64;
        (datum, block.accepted()[chains].iter().sum::<f64>() / count)
    };
    by_datum(block.states()).map(mean).collect()
}

/// Refuses a datum whose chains all have weight zero.
pub(super) fn check_alive(alive: bool, datum: usize) -> Result<()> {
    let found = format!("likelihood 0 at all chains of datum {datum}");
    Error::check(
        alive,
        "data",
        found,
        "a likelihood above 0 where the prior has mass",
    )
}
