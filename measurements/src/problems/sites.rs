//! Discrete models: sites that each take one of a few values, moved by a heat bath.

use annealed::kernel::{NonFinite, Stage, Step};
use annealed::path::GeometricAt;
use annealed::prelude::*;
use rand::{Rng, RngExt};

pub trait Sites: UnnormalizedModel<State = Vec<u8>> {
    /// Returns the number of values, at most 4.
    fn values(&self) -> u8;

    /// Returns `log f` as a function of the value at one site, up to a constant.
    fn log_at(&self, state: &[u8], site: usize, value: u8) -> f64;
}

pub struct Fair {
    pub sites: usize,
    pub values: u8,
}

impl UnnormalizedModel for Fair {
    type State = Vec<u8>;

    fn log_density(&self, _state: &Vec<u8>) -> f64 {
        0.0
    }
}

impl NormalizedModel for Fair {
    fn log_normalizer(&self) -> f64 {
        self.sites as f64 * f64::from(self.values).ln()
    }
}

impl Sampleable for Fair {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<u8> {
        let mut draw = || rng.random_range(0..self.values);
        (0..self.sites).map(|_| draw()).collect()
    }
}

impl Sites for Fair {
    fn values(&self) -> u8 {
        self.values
    }

    fn log_at(&self, _state: &[u8], _site: usize, _value: u8) -> f64 {
        0.0
    }
}

/// A kernel that draws each site in turn given the others.
#[derive(Clone, Copy)]
pub struct HeatBath;

impl<A: Sites + Sampleable, B: Sites> TransitionKernel<GeometricAt<'_, A, B>> for HeatBath {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, GeometricAt<'_, A, B>>,
        state: &mut Vec<u8>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let path = stage.model.path();
        let (base, target, beta) = (path.base(), path.target(), stage.beta);
        for site in 0..state.len() {
            let log_at = |value| {
                (1.0 - beta) * base.log_at(state, site, value)
                    + beta * target.log_at(state, site, value)
            };
            state[site] = draw(target.values(), log_at, rng);
        }
        Ok(Step::invariant())
    }
}

/// Draws a value with probability in proportion to `exp(log_at(value))`.
fn draw<R: Rng + ?Sized>(values: u8, log_at: impl Fn(u8) -> f64, rng: &mut R) -> u8 {
    let first = log_at(0);
    let mut cumulative = [1.0; 4];
    for value in 1..usize::from(values) {
        cumulative[value] = cumulative[value - 1] + (log_at(value as u8) - first).exp();
    }
    let height = rng.random::<f64>() * cumulative[usize::from(values) - 1];
    let above = cumulative[..usize::from(values) - 1]
        .iter()
        .filter(|&&c| height >= c);
    above.count() as u8
}
