//! The path from a prior to a posterior, on which the likelihood is tempered.

use std::ops::Range;

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use crate::Result;
use crate::model::{
    Differentiable, LocalDensity, NormalizedModel, Sampleable, UnnormalizedModel,
    check_same_dimension, forward_model,
};
use crate::num::{next_run, weighted, with_slice};
use crate::path::{AnnealingPath, BetaDerivative, Intermediate, PathAt};

/// A model divided by its normaliser: `log f(x) - log Z`, whose own log Z is 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalized<M> {
    model: M,
    log_normalizer: f64,
}

impl<M: NormalizedModel> Normalized<M> {
    /// Divides by the model's own normaliser.
    pub fn new(model: M) -> Self {
        Self {
            log_normalizer: model.log_normalizer(),
            model,
        }
    }
}

impl<M: UnnormalizedModel> UnnormalizedModel for Normalized<M> {
    type State = M::State;

    fn log_density(&self, state: &M::State) -> f64 {
        self.model.log_density(state) - self.log_normalizer
    }

    fn state_dimension(&self) -> Option<usize> {
        self.model.state_dimension()
    }

    fn evaluates_batches(&self) -> bool {
        self.model.evaluates_batches()
    }

    fn log_densities(&self, states: &[M::State], log_densities: &mut [f64]) {
        self.model.log_densities(states, log_densities);
        log_densities
            .iter_mut()
            .for_each(|x| *x -= self.log_normalizer);
    }
}

impl<M: UnnormalizedModel> NormalizedModel for Normalized<M> {
    fn log_normalizer(&self) -> f64 {
        0.0
    }
}

impl<C, M: LocalDensity<C>> LocalDensity<C> for Normalized<M> {
    fn log_density_change(&self, state: &M::State, change: &C) -> f64 {
        self.model.log_density_change(state, change)
    }
}

forward_model! { [M] Normalized<M> as M, self => self.model; Sampleable }

impl<M: Differentiable> Differentiable for Normalized<M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.model.accumulate_gradient(state, scale, gradient) - self.log_normalizer
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let model = &self.model;
        model.accumulate_gradients(states, scale, gradients, log_densities);
        log_densities
            .iter_mut()
            .for_each(|x| *x -= self.log_normalizer);
    }
}

/// The path from a prior to a posterior, by tempering the likelihood:
///
/// `log f_beta(x) = log p(x) + beta log L(x)`.
///
/// The prior p is *normalised*: the model given is divided by its normaliser. The log Z of the
/// target is then the log evidence, `log integral p(x) L(x) dx`, provided that `L` carries the
/// constants of the likelihood.
///
/// ```
/// use annealed::model::{FunctionModel, Gaussian};
/// use annealed::ais::Ais;
/// use annealed::kernel::RandomWalkMetropolis;
/// use annealed::path::TemperedPath;
/// use nalgebra::DVector;
///
/// // One observation y = 1 of N(theta, 1), and the prior theta ~ N(0, 1): evidence N(1; 0, 2).
/// let log_likelihood = |theta: &DVector<f64>| {
///     -0.5 * (1.0 - theta[0]).powi(2) - 0.5 * std::f64::consts::TAU.ln()
/// };
/// let path = TemperedPath::new(Gaussian::standard(1)?, FunctionModel::new(log_likelihood));
/// let run = Ais::new(&path, RandomWalkMetropolis::new(1.0)?).seed(3).run()?;
/// let exact = -0.25 - 0.5 * (2.0 * std::f64::consts::TAU).ln();
/// assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TemperedPath<P, L> {
    prior: Normalized<P>,
    log_likelihood: L,
}

impl<P, L> TemperedPath<P, L>
where
    P: Sampleable + NormalizedModel,
    L: UnnormalizedModel<State = P::State>,
{
    /// The path for a prior and a likelihood. [`FunctionModel`](crate::model::FunctionModel) makes
    /// a likelihood of a closure.
    pub fn new(prior: P, log_likelihood: L) -> Self {
        Self {
            prior: Normalized::new(prior),
            log_likelihood,
        }
    }
}

impl<P, L> TemperedPath<P, L> {
    /// The prior p, normalised.
    pub fn prior(&self) -> &Normalized<P> {
        &self.prior
    }

    /// The likelihood L.
    pub fn likelihood(&self) -> &L {
        &self.log_likelihood
    }
}

impl<P, L> AnnealingPath for TemperedPath<P, L>
where
    P: Sampleable,
    L: UnnormalizedModel<State = P::State>,
{
    type State = P::State;
    type Base = Normalized<P>;
    type At<'a>
        = PathAt<'a, Self>
    where
        Self: 'a;

    fn base(&self) -> &Normalized<P> {
        &self.prior
    }

    fn at(&self, beta: f64) -> PathAt<'_, Self> {
        PathAt { path: self, beta }
    }

    fn check(&self) -> Result<()> {
        check_same_dimension("likelihood", &self.log_likelihood, &self.prior)
    }
}

/// The tempered posterior at one beta of a [`TemperedPath`].
pub type TemperedAt<'a, P, L> = PathAt<'a, TemperedPath<P, L>>;

impl<P, L> UnnormalizedModel for TemperedAt<'_, P, L>
where
    P: UnnormalizedModel,
    L: UnnormalizedModel<State = P::State>,
{
    type State = P::State;

    /// `-inf` where the prior excludes the state. The likelihood is then not evaluated, since it
    /// may be undefined there.
    fn log_density(&self, state: &P::State) -> f64 {
        let prior = self.path.prior.log_density(state);
        if prior == f64::NEG_INFINITY || self.beta == 0.0 {
            return prior;
        }
        prior + self.beta * self.path.log_likelihood.log_density(state)
    }

    /// As the likelihood.
    fn evaluates_batches(&self) -> bool {
        self.path.log_likelihood.evaluates_batches()
    }

    fn log_densities(&self, states: &[P::State], log_densities: &mut [f64]) {
        self.path.prior.log_densities(states, log_densities);
        if self.beta == 0.0 {
            return;
        }
        with_slice(states.len(), |likelihoods| {
            let mut done = 0;
            while let Some(run) = next_within(log_densities, done) {
                done = run.end;
                let likelihoods = &mut likelihoods[run.clone()];
                let model = &self.path.log_likelihood;
                model.log_densities(&states[run.clone()], likelihoods);
                for (value, likelihood) in log_densities[run].iter_mut().zip(likelihoods) {
                    *value += self.beta * *likelihood;
                }
            }
        });
    }
}

/// The next stretch of states that the prior does not exclude, given their log densities under it.
fn next_within(prior: &[f64], from: usize) -> Option<Range<usize>> {
    next_run(from..prior.len(), |state| prior[state] != f64::NEG_INFINITY)
}

impl<P, L> TemperedAt<'_, P, L> {
    fn tempered_ratio(&self, previous: &Self, log_likelihood: f64) -> f64 {
        if log_likelihood == f64::NEG_INFINITY && self.beta > 0.0 {
            return log_likelihood;
        }
        weighted(self.beta - previous.beta, log_likelihood)
    }
}

impl<P, L> Intermediate for TemperedAt<'_, P, L>
where
    P: UnnormalizedModel,
    L: UnnormalizedModel<State = P::State>,
{
    fn beta(&self) -> f64 {
        self.beta
    }

    /// `(beta - beta') log L(x)`, and `-inf` where `L(x) = 0` and `beta > 0`. The prior is not
    /// evaluated, since no chain is where it is 0.
    fn log_ratio(&self, previous: &Self, state: &P::State) -> f64 {
        self.tempered_ratio(previous, self.path.log_likelihood.log_density(state))
    }

    fn log_ratio_and_density(&self, previous: &Self, state: &P::State) -> (f64, f64) {
        let prior = self.path.prior.log_density(state);
        if prior == f64::NEG_INFINITY || self.beta == 0.0 {
            return (self.log_ratio(previous, state), prior);
        }
        let log_likelihood = self.path.log_likelihood.log_density(state);
        let log_density = prior + self.beta * log_likelihood;
        (self.tempered_ratio(previous, log_likelihood), log_density)
    }

    fn log_ratios_and_densities(
        &self,
        previous: &Self,
        states: &[P::State],
        log_ratios: &mut [f64],
        log_densities: &mut [f64],
    ) {
        self.path.prior.log_densities(states, log_densities);
        let mut done = 0;
        while let Some(run) = next_within(log_densities, done) {
            done = run.end;
            let likelihoods = &mut log_ratios[run.clone()];
            let model = &self.path.log_likelihood;
            model.log_densities(&states[run], likelihoods);
        }
        let found = log_ratios.iter_mut().zip(log_densities);
        for (state, (log_ratio, log_density)) in states.iter().zip(found) {
            if *log_density == f64::NEG_INFINITY {
                *log_ratio = self.log_ratio(previous, state);
                continue;
            }
            let log_likelihood = *log_ratio;
            if self.beta != 0.0 {
                *log_density += self.beta * log_likelihood;
            }
            *log_ratio = self.tempered_ratio(previous, log_likelihood);
        }
    }
}

impl<C, P, L> LocalDensity<C> for TemperedAt<'_, P, L>
where
    P: LocalDensity<C>,
    L: LocalDensity<C, State = P::State>,
{
    /// `-inf` where the prior excludes the changed state, at which the likelihood may be undefined.
    fn log_density_change(&self, state: &P::State, change: &C) -> f64 {
        let of_prior = self.path.prior.log_density_change(state, change);
        if of_prior == f64::NEG_INFINITY || self.beta == 0.0 {
            return of_prior;
        }
        let likelihood = &self.path.log_likelihood;
        of_prior + self.beta * likelihood.log_density_change(state, change)
    }
}

impl<P, L> BetaDerivative for TemperedAt<'_, P, L>
where
    P: UnnormalizedModel,
    L: UnnormalizedModel<State = P::State>,
{
    /// `log L(x)`.
    fn beta_derivative(&self, state: &P::State) -> f64 {
        self.path.log_likelihood.log_density(state)
    }
}

impl<P, L> Differentiable for TemperedAt<'_, P, L>
where
    P: Differentiable,
    L: Differentiable,
{
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.accumulate_mean_gradient(self, state, scale, gradient)
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let prior = &self.path.prior;
        prior.accumulate_gradients(states, scale, gradients.as_view_mut(), log_densities);
        if self.beta == 0.0 {
            return;
        }
        with_slice(log_densities.len(), |likelihoods| {
            let mut done = 0;
            while let Some(run) = next_within(log_densities, done) {
                done = run.end;
                let likelihoods = &mut likelihoods[run.clone()];
                let rows = (run.start, run.len());
                self.path.log_likelihood.accumulate_gradients(
                    states.rows(rows.0, rows.1),
                    scale * self.beta,
                    gradients.rows_mut(rows.0, rows.1),
                    likelihoods,
                );
                for (value, likelihood) in log_densities[run].iter_mut().zip(likelihoods) {
                    *value += weighted(self.beta, *likelihood);
                }
            }
        });
    }

    /// The gradient at the mean of the two betas.
    fn accumulate_mean_gradient(
        &self,
        previous: &Self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let middle = 0.5 * (previous.beta + self.beta);
        let prior = self.path.prior.accumulate_gradient(state, scale, gradient);
        if prior == f64::NEG_INFINITY || middle == 0.0 {
            return prior;
        }
        let likelihood = &self.path.log_likelihood;
        let likelihood = likelihood.accumulate_gradient(state, scale * middle, gradient);
        prior + weighted(self.beta, likelihood)
    }
}
