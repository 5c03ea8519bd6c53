//! The path of a challenge: from a mixture of a path's base and of rival bases to the same target.

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use super::base::RivalBase;
use crate::Result;
use crate::error::Failure;
use crate::model::{Differentiable, Ends, Sampleable, UnnormalizedModel};
use crate::num::{SimdLevel, next_run, weighted, with_slice};
use crate::path::{AnnealingPath, Intermediate};

/// The geometric path from a [`RivalBase`] to the target of a path.
#[derive(Debug)]
pub struct RivalPath<P: AnnealingPath, B>(RivalBase<P, B>);

impl<P: AnnealingPath, B> Clone for RivalPath<P, B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: AnnealingPath, B> RivalPath<P, B> {
    pub(in crate::adaptive) fn new(base: RivalBase<P, B>) -> Self {
        Self(base)
    }
}

/// The model at one beta of a [`RivalPath`], or of the target cooled: a power of at least 1 of it.
#[derive(Debug)]
pub struct RivalAt<P: AnnealingPath, B> {
    base: RivalBase<P, B>,
    beta: f64,
    /// Exponents of base and target.
    powers: [f64; 2],
}

impl<P: AnnealingPath, B> RivalAt<P, B> {
    /// Returns the model at the base of the challenged path.
    pub fn old_base(&self) -> &P::At {
        &self.base.0.old
    }

    /// Returns the model at the target.
    pub fn target(&self) -> &P::At {
        &self.base.0.target
    }

    /// Returns the exponents of the mixture of bases and of the target: `1 - beta` and `beta`, or 0 and a power of at
    /// least 1 where the target is cooled.
    pub fn powers(&self) -> [f64; 2] {
        self.powers
    }

    fn blend(&self, ends: Ends) -> f64 {
        weighted(self.powers[0], ends.base) + weighted(self.powers[1], ends.target)
    }
}

impl<P, B> AnnealingPath for RivalPath<P, B>
where
    P: AnnealingPath,
    B: Sampleable<State = P::State>,
{
    type State = P::State;
    type Base = RivalBase<P, B>;
    type At = RivalAt<P, B>;

    fn base(&self) -> &Self::Base {
        &self.0
    }

    fn at(&self, beta: f64) -> RivalAt<P, B> {
        RivalAt {
            base: self.0.clone(),
            beta,
            powers: [1.0 - beta, beta],
        }
    }

    fn check(&self) -> Result<()> {
        self.0.0.path.check()
    }

    fn simd_level(&self) -> Option<SimdLevel> {
        self.0.0.path.simd_level()
    }

    fn rounding_error(&self) -> f64 {
        self.0.0.path.rounding_error()
    }
}

/// The target at powers from 1, at 0, to [`COLDEST`], at 1. It is sampled by chains that are placed there.
pub(super) struct Cooled<P: AnnealingPath, B>(pub(super) RivalBase<P, B>);

impl<P: AnnealingPath, B> Clone for Cooled<P, B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Largest power of the target.
pub(super) const COLDEST: f64 = 256.0;

impl<P, B> AnnealingPath for Cooled<P, B>
where
    P: AnnealingPath,
    B: Sampleable<State = P::State>,
{
    type State = P::State;
    type Base = RivalBase<P, B>;
    type At = RivalAt<P, B>;

    fn base(&self) -> &Self::Base {
        &self.0
    }

    fn at(&self, beta: f64) -> RivalAt<P, B> {
        RivalAt {
            base: self.0.clone(),
            beta,
            powers: [0.0, COLDEST.powf(beta)],
        }
    }
}

impl<P, B> UnnormalizedModel for RivalAt<P, B>
where
    P: AnnealingPath,
    B: UnnormalizedModel<State = P::State>,
{
    type State = P::State;

    fn log_density(&self, state: &P::State) -> f64 {
        self.blend(self.ends(state, Ends::UNKNOWN))
    }

    fn state_dimension(&self) -> Option<usize> {
        self.base.state_dimension()
    }

    fn evaluates_batches(&self) -> bool {
        self.target().evaluates_batches()
    }

    fn log_densities(&self, states: &[P::State], log_densities: &mut [f64]) {
        let mut bases = vec![f64::NAN; states.len()];
        log_densities.fill(f64::NAN);
        self.ends_of_batch(states, &mut bases, log_densities);
        for (value, base) in log_densities.iter_mut().zip(bases) {
            let target = *value;
            *value = self.blend(Ends { base, target });
        }
    }

    fn epsilon(&self) -> f64 {
        self.target().epsilon()
    }

    fn failure(&self) -> Option<Failure> {
        self.base.failure().or_else(|| self.target().failure())
    }
}

impl<P, B> Intermediate for RivalAt<P, B>
where
    P: AnnealingPath,
    B: UnnormalizedModel<State = P::State>,
{
    const HAS_ENDS: bool = true;

    fn beta(&self) -> f64 {
        self.beta
    }

    fn ends(&self, state: &P::State, known: Ends) -> Ends {
        let known = known.or_base(|| self.base.log_density(state));
        known.or_target(|| self.target().log_density(state))
    }

    fn ends_of_batch(&self, states: &[P::State], bases: &mut [f64], targets: &mut [f64]) {
        for (state, base) in states.iter().zip(bases).filter(|(_, base)| base.is_nan()) {
            *base = self.base.log_density(state);
        }
        let mut done = 0;
        while let Some(run) = next_run(done..states.len(), |state| targets[state].is_nan()) {
            done = run.end;
            let target = self.target();
            target.log_densities(&states[run.clone()], &mut targets[run]);
        }
    }

    fn log_density_at(&self, ends: Ends) -> f64 {
        self.blend(ends)
    }

    fn log_ratio(&self, previous: &Self, state: &P::State) -> f64 {
        self.log_ratio_at(previous, self.ends(state, Ends::UNKNOWN))
    }

    fn log_ratio_at(&self, previous: &Self, ends: Ends) -> f64 {
        if ends.base.is_finite() && ends.target.is_finite() {
            let change = |end: usize| self.powers[end] - previous.powers[end];
            return change(0) * ends.base + change(1) * ends.target;
        }
        let here = self.blend(ends);
        match here == f64::NEG_INFINITY {
            true => here,
            false => here - previous.blend(ends),
        }
    }
}

impl<P, B> Differentiable for RivalAt<P, B>
where
    P: AnnealingPath<State = DVector<f64>, Base: Differentiable>,
    P::At: Differentiable,
    B: Differentiable,
{
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let mut ends = Ends {
            base: 0.0,
            target: 0.0,
        };
        let [to_base, to_target] = self.powers;
        if to_base > 0.0 {
            let scale = scale * to_base;
            ends.base = self.base.accumulate_gradient(state, scale, gradient);
        }
        if to_target > 0.0 {
            let scale = scale * to_target;
            ends.target = self.target().accumulate_gradient(state, scale, gradient);
        }
        self.blend(ends)
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let [to_base, to_target] = self.powers;
        with_slice(log_densities.len(), |bases| {
            bases.fill(0.0);
            if to_base > 0.0 {
                let gradients = gradients.as_view_mut();
                let scale = scale * to_base;
                (self.base).accumulate_gradients(states, scale, gradients, bases);
            }
            log_densities.fill(0.0);
            if to_target > 0.0 {
                let (model, scale) = (self.target(), scale * to_target);
                model.accumulate_gradients(states, scale, gradients, log_densities);
            }
            for (value, &base) in log_densities.iter_mut().zip(&*bases) {
                let target = *value;
                *value = self.blend(Ends { base, target });
            }
        });
    }

    fn end_weights(&self) -> Option<[f64; 2]> {
        Some(self.powers)
    }

    fn with_end(
        &self,
        end: usize,
        work: &mut dyn FnMut(&dyn Differentiable<State = DVector<f64>>),
    ) {
        match end {
            0 => work(&self.base),
            _ => work(self.target()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::{DMatrix, dvector};

    use super::*;
    use crate::model::{Gaussian, NormalizedModel};
    use crate::path::GeometricPath;

    #[test]
    fn states_together_are_evaluated_as_alone() {
        let old = Gaussian::isotropic(dvector![0.0], 2.0).unwrap();
        let log_z = old.log_normalizer();
        let path = GeometricPath::new(old, Gaussian::standard(1).unwrap());
        let rival = Gaussian::isotropic(dvector![3.0], 0.5).unwrap();
        let base = RivalBase::new(&path, log_z, vec![(0.7, rival)]);
        let rivals = RivalPath::new(base);
        let states = DMatrix::from_column_slice(3, 1, &[-1.0, 2.5, 4.0]);
        for beta in [0.0, 0.3, 1.0] {
            let model = rivals.at(beta);
            let (mut gradients, mut log_densities) = (DMatrix::from_element(3, 1, 7.0), [0.0; 3]);
            let view = gradients.as_view_mut();
            model.accumulate_gradients(states.as_view(), 2.0, view, &mut log_densities);
            for (i, found) in log_densities.into_iter().enumerate() {
                let mut alone = dvector![7.0];
                let state = dvector![states[i]];
                let log_density = model.accumulate_gradient(&state, 2.0, &mut alone);
                assert!((log_density - found).abs() < 1e-12, "{beta}");
                assert!((alone[0] - gradients[i]).abs() < 1e-12, "{beta}");
            }
        }
    }
}
