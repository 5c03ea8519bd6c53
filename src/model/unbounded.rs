//! A likelihood of parameters as a function of coordinates without bounds.

use nalgebra::{DMatrix, DMatrixView, DMatrixViewMut, DVector};

use crate::error::{Failure, demand_dimension};
use crate::model::transformed_prior::times;
use crate::model::{Differentiable, Priors, UnnormalizedModel};
use crate::num::{set_zero, with_buffer};

/// A likelihood of parameters as a function of the coordinates of their [`Priors`], made by [`Priors::likelihood`]. Its
/// value contains no Jacobian, because the prior includes it. Its gradient follows by the chain rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Unbounded<M> {
    priors: Priors,
    likelihood: M,
}

impl Priors {
    /// Creates a likelihood of the coordinates from a likelihood of the parameters. A
    /// [`GradientModel`](crate::model::GradientModel) keeps its gradient.
    pub fn likelihood<M>(&self, likelihood: M) -> Unbounded<M>
    where
        M: UnnormalizedModel<State = DVector<f64>>,
    {
        Unbounded {
            priors: self.clone(),
            likelihood,
        }
    }
}

impl<M: UnnormalizedModel<State = DVector<f64>>> UnnormalizedModel for Unbounded<M> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        with_buffer(self.priors.parameter_count(), |parameters| {
            self.priors.write_parameters(state, parameters);
            self.likelihood.log_density(parameters)
        })
    }

    /// Returns the priors' number of coordinates. If the likelihood has more or fewer parameters than the priors, adds
    /// the difference, so a path refuses the model for its dimension.
    fn state_dimension(&self) -> Option<usize> {
        let parameters = self.priors.parameter_count();
        let own = self.likelihood.state_dimension().unwrap_or(parameters);
        Some((self.priors.dimension() + own).saturating_sub(parameters))
    }

    fn evaluates_batches(&self) -> bool {
        self.likelihood.evaluates_batches()
    }

    fn log_densities(&self, states: &[DVector<f64>], log_densities: &mut [f64]) {
        let parameters = states.iter().map(|state| self.priors.parameters(state));
        self.likelihood
            .log_densities(&Vec::from_iter(parameters), log_densities);
    }

    fn epsilon(&self) -> f64 {
        self.likelihood.epsilon()
    }

    fn failure(&self) -> Option<Failure> {
        self.likelihood.failure()
    }
}

impl<M: Differentiable> Differentiable for Unbounded<M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let count = self.priors.parameter_count();
        with_buffer(count, |parameters| {
            with_buffer(count, |slopes| {
                self.priors.write_parameters(state, parameters);
                set_zero(slopes.as_mut_slice());
                let model = &self.likelihood;
                let log_likelihood = model.accumulate_gradient(parameters, scale, slopes);
                if log_likelihood > f64::NEG_INFINITY {
                    self.priors.pull_back(state, parameters, slopes, gradient);
                }
                log_likelihood
            })
        })
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let Some(singles) = self.priors.singles() else {
            return self.accumulate_by_rows(states, scale, gradients, log_densities);
        };
        demand_dimension("a state", states.ncols(), singles.len());
        let zeros = || DMatrix::zeros(states.nrows(), singles.len());
        let (mut parameters, mut rates, mut slopes) = (zeros(), zeros(), zeros());
        let columns = parameters.column_iter_mut().zip(rates.column_iter_mut());
        let columns = states.column_iter().zip(columns);
        for (prior, (u, (mut x, mut rate))) in singles.iter().zip(columns) {
            prior.write_column(u.as_slice(), x.as_mut_slice(), rate.as_mut_slice());
        }
        let (parameters, to) = (parameters.as_view(), slopes.as_view_mut());
        (self.likelihood).accumulate_gradients(parameters, scale, to, log_densities);
        slopes.zip_apply(&rates, |slope, rate| *slope = times(*slope, rate));
        for (mut total, slopes) in gradients.column_iter_mut().zip(slopes.column_iter()) {
            let each = total.iter_mut().zip(slopes.iter()).zip(&*log_densities);
            for ((total, slope), log_density) in each {
                // Without a branch the loop can use vector registers.
                *total += match *log_density > f64::NEG_INFINITY {
                    true => *slope,
                    false => 0.0,
                };
            }
        }
    }
}

impl<M: Differentiable> Unbounded<M> {
    /// Accumulates gradients as [`Differentiable::accumulate_gradients`], for priors of several parameters.
    fn accumulate_by_rows(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let (chains, count) = (states.nrows(), self.priors.parameter_count());
        let mut state = DVector::zeros(states.ncols());
        let mut parameters = DMatrix::zeros(chains, count);
        let mut own = DVector::zeros(count);
        for row in 0..chains {
            state.tr_copy_from(&states.row(row));
            self.priors.write_parameters(&state, &mut own);
            parameters.row_mut(row).tr_copy_from(&own);
        }
        let mut slopes = DMatrix::zeros(chains, count);
        self.likelihood.accumulate_gradients(
            parameters.as_view(),
            scale,
            slopes.as_view_mut(),
            log_densities,
        );
        let (mut of_own, mut gradient) = (DVector::zeros(count), DVector::zeros(states.ncols()));
        for (row, log_density) in log_densities.iter().enumerate() {
            if *log_density > f64::NEG_INFINITY {
                state.tr_copy_from(&states.row(row));
                own.tr_copy_from(&parameters.row(row));
                of_own.tr_copy_from(&slopes.row(row));
                gradient.tr_copy_from(&gradients.row(row));
                (self.priors).pull_back(&state, &own, &mut of_own, &mut gradient);
                gradients.row_mut(row).tr_copy_from(&gradient);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;
    use crate::model::{JointPrior, Prior, accumulate_each};

    /// The sum of log and square root of `|x|`; `-inf` with a slope of NaN in states with a number 7.
    struct Rough(usize);

    impl UnnormalizedModel for Rough {
        type State = DVector<f64>;

        fn log_density(&self, x: &DVector<f64>) -> f64 {
            self.accumulate_gradient(x, 0.0, &mut x.clone())
        }
    }

    impl Differentiable for Rough {
        fn accumulate_gradient(
            &self,
            x: &DVector<f64>,
            scale: f64,
            gradient: &mut DVector<f64>,
        ) -> f64 {
            assert_eq!(x.len(), self.0);
            if x.iter().any(|x| *x == 7.0) {
                gradient.fill(f64::NAN);
                return f64::NEG_INFINITY;
            }
            for (to, x) in gradient.iter_mut().zip(x.iter()) {
                *to += scale * (x.recip() + x.signum() * 0.5 * x.abs().powf(-0.5));
            }
            x.iter().map(|x| x.abs().ln() + x.abs().sqrt()).sum()
        }
    }

    fn all() -> Result<Vec<JointPrior>> {
        let singles = [
            Prior::normal(0.3, 1.7)?,
            Prior::student_t(4.0, -1.0, 0.5)?,
            Prior::log_normal(0.3, 0.7)?,
            Prior::inverse_gamma(3.5, 2.0)?,
            Prior::half_cauchy(0.5)?,
            Prior::uniform(-1.0, 4.0)?,
            Prior::truncated_normal(1.0, 2.0, 0.0, f64::INFINITY)?,
        ];
        Ok(singles.map(JointPrior::from).to_vec())
    }

    fn assert_rows_are_columns(model: &impl Differentiable, states: &DMatrix<f64>) {
        let start = states.map(|u| 0.1 * u - 2.0);
        let by = |columns: bool| {
            let (mut gradients, mut found) = (start.clone(), vec![0.0; states.nrows()]);
            let (u, to) = (states.as_view(), gradients.as_view_mut());
            match columns {
                true => model.accumulate_gradients(u, 0.3, to, &mut found),
                false => accumulate_each(model, u, 0.3, to, &mut found),
            }
            (found, gradients)
        };
        assert_eq!(by(true), by(false));
    }

    /// Priors of single parameters go by columns, others by rows. Each row gets the bits that it gets alone.
    #[test]
    fn rows_together_have_the_bits_of_each_alone() {
        let singles = all().unwrap();
        let mut mixed = singles.clone();
        mixed.push(JointPrior::dirichlet([2.0, 3.0, 4.0]).unwrap());
        for list in [singles, mixed] {
            let priors = Priors::new(list).unwrap();
            let d = priors.dimension();
            let mut states = DMatrix::from_fn(9, d, |i, j| ((3 * i + 5 * j) as f64).sin() * 2.0);
            // A parameter at which the likelihood is 0, and one that saturates.
            (states[(2, 0)], states[(4, 2)]) = (7.0, -900.0);
            let likelihood = priors.likelihood(Rough(priors.parameter_count()));
            assert_rows_are_columns(&priors, &states);
            assert_rows_are_columns(&likelihood, &states);
        }
    }
}
