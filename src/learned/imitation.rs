//! Learned transitions that start as an imitation of a kernel.

use nalgebra::{Cholesky, DMatrix, DVector};
use rand::Rng;

use crate::kernel::{TransitionKernel, check_stages};
use crate::learned::conditional::{ConditionalGaussian, JUMP, Mean, gate};
use crate::learned::flow::LearnedTransitions;
use crate::learned::network::Pass;
use crate::learned::transition::Transition;
use crate::path::AnnealingPath;
use crate::population::Population;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Ridge penalty, relative to the mean square of the features. At 1e-9 nearly collinear hidden units stall training.
const RIDGE: f64 = 1e-3;

impl LearnedTransitions {
    /// Creates transitions that imitate `kernel`, as a start for training. It runs `chains` chains through the schedule
    /// with the kernel. Least squares fit each `q_t` to their moves from `z_{t-1}` to `z_t`, and each `r_t` to the
    /// moves back. Hidden units stay random; gates and `log sigma` are constant:
    ///
    /// ```
    /// use annealed::learned::{LearnedTransitions, Mean};
    /// use annealed::kernel::UnadjustedLangevin;
    /// use annealed::model::Gaussian;
    /// use annealed::path::GeometricPath;
    /// use annealed::schedule::Schedule;
    /// use nalgebra::dvector;
    ///
    /// let target = Gaussian::isotropic(dvector![1.0, -1.0], 0.5)?;
    /// let path = GeometricPath::new(Gaussian::standard(2)?, target);
    /// let schedule = Schedule::linear(4)?;
    /// let langevin = UnadjustedLangevin::new(0.3)?;
    /// let mean = Mean::Gated { hidden: 16 };
    /// let flow = LearnedTransitions::imitating(&langevin, mean, &path, &schedule, 1_000, 1)?;
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new); no more chains of positive weight than a regression has unknowns; an error of the kernel.
    pub fn imitating<P, K>(
        kernel: &K,
        mean: Mean,
        path: P,
        schedule: &Schedule,
        chains: usize,
        seed: u64,
    ) -> Result<Self>
    where
        P: AnnealingPath<State = DVector<f64>>,
        K: TransitionKernel<P::At>,
    {
        Error::check_at_least("chains", chains, 1)?;
        check_stages("steps of the schedule", kernel.stages(), schedule)?;
        let mut rng = stream(seed, Purpose::IMITATION_WEIGHTS, 0);
        let first = stream(seed, Purpose::IMITATION, 0);
        let mut population = Population::start(path, 0, chains, first)?;
        let mut transitions = Vec::with_capacity(schedule.stages());
        for &beta in &schedule.betas()[1..] {
            let left = population.block().states().to_vec();
            population.advance_to(kernel, beta)?;
            let block = population.block();
            // Chains of weight zero do not move, so they would bias the fit towards staying.
            let left = columns(block.alive().map(|i| &left[i]));
            let reached = columns(block.alive().map(|i| &block.states()[i]));
            transitions.push(Transition::new(
                regression(mean, &left, &reached, &mut rng)?,
                regression(mean, &reached, &left, &mut rng)?,
            )?);
        }
        Self::from_transitions(transitions)
    }
}

fn columns<'a>(states: impl Iterator<Item = &'a DVector<f64>>) -> DMatrix<f64> {
    let states: Vec<_> = states.cloned().collect();
    match states.is_empty() {
        true => DMatrix::zeros(0, 0),
        false => DMatrix::from_columns(&states),
    }
}

/// Fits a conditional density to pairs of states: a column of `reached`, given the same column of `given`. Least
/// squares set the output weights; the gate and sigma are constant.
fn regression<R: Rng + ?Sized>(
    mean: Mean,
    given: &DMatrix<f64>,
    reached: &DMatrix<f64>,
    rng: &mut R,
) -> Result<ConditionalGaussian> {
    let mut density = ConditionalGaussian::new(mean, given.nrows(), rng)?;
    let mut pass = Pass::default();
    density.forward(given, &mut pass);
    let features = pass.units.features(given).clone().insert_row(0, 1.0);
    let coefficients = least_squares(&features, &outputs_for(mean, given, reached))?;
    density.set_mean_outputs(&coefficients);
    density.forward(given, &mut pass);
    let squares = (reached - &pass.means).map(|x| x * x);
    density.set_deviations(&squares.column_mean().map(f64::sqrt));
    Ok(density)
}

/// Returns the network outputs that give these `means` if the gate's output is 0.
fn outputs_for(mean: Mean, given: &DMatrix<f64>, means: &DMatrix<f64>) -> DMatrix<f64> {
    match mean {
        Mean::Affine => means.clone(),
        Mean::Residual { .. } => means - given,
        Mean::Gated { .. } => {
            let gate = gate(0.0);
            (means - given * gate) / ((1.0 - gate) * JUMP)
        }
    }
}

/// Returns the C that minimises `|C features - outputs|^2`, up to a slight ridge.
fn least_squares(features: &DMatrix<f64>, outputs: &DMatrix<f64>) -> Result<DMatrix<f64>> {
    let (unknowns, samples) = features.shape();
    let expected = format!("more than the {unknowns} unknowns of a regression");
    Error::check(samples > unknowns, "chains alive", samples, expected)?;
    let transposed = features.transpose();
    let mut gram = features * &transposed;
    let ridge = RIDGE * gram.trace() / unknowns as f64;
    (0..unknowns).for_each(|i| gram[(i, i)] += ridge);
    let gram = Cholesky::new(gram).ok_or_else(|| Error::NotConverged {
        what: "the regression on a kernel's moves",
        detail: "the moves are not finite or overflow when squared".into(),
    })?;
    let by_outputs = features * outputs.transpose();
    Ok(gram.solve(&by_outputs).transpose())
}
