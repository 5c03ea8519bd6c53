//! Chains of a trajectory that overflow, leave the support, diverge or meet a non-finite number.

use nalgebra::DVector;

use super::metropolis::PROPOSAL;
use super::preconditioner::Factor;
use super::trajectories::{Trajectories, read_row, row, write_row};
use super::vector::{UNREACHABLE, check_gradient, checked, diverges, set_len};
use crate::kernel::NonFinite;
use crate::num::all_finite;

/// The end of a trajectory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum At {
    Start,
    Proposal,
}

impl At {
    fn quantity(self) -> &'static str {
        match self {
            Self::Start => "log density",
            Self::Proposal => PROPOSAL,
        }
    }
}

/// Returns whether the log density is neither out of reach nor a fault.
#[inline]
fn is_usual(log_density: &f64) -> bool {
    (UNREACHABLE..f64::INFINITY).contains(log_density)
}

impl Trajectories {
    /// Replaces positions that overflowed by one that did not, which the model can evaluate, and returns them with their
    /// chains.
    pub(super) fn set_aside_overflows(&mut self) -> Vec<(usize, Vec<f64>)> {
        if all_finite(&self.positions) {
            return Vec::new();
        }
        let position = |chain| row(&self.positions, self.chains, chain).collect::<Vec<_>>();
        let positions = (0..self.chains).map(|chain| (chain, position(chain)));
        let (within, beyond): (Vec<_>, Vec<_>) =
            positions.partition(|(_, position)| all_finite(position));
        if let Some((_, stand_in)) = within.first() {
            for (chain, _) in &beyond {
                write_row(&mut self.positions, self.chains, *chain, stand_in);
            }
        }
        beyond
    }

    /// Checks log densities and gradients, and turns the gradients by `factor`.
    pub(super) fn finish(&mut self, at: At, factor: Option<&Factor>) {
        let mut log_densities = self.log_densities.iter();
        if !log_densities.all(is_usual) || !all_finite(&self.gradients) {
            self.check_unusual(at);
        }
        if let Some(factor) = factor {
            self.turn_gradients(at, factor);
        }
    }

    /// Checks one by one the chains that are off the support, diverge or have a fault. Their gradient is 0.
    #[cold]
    fn check_unusual(&mut self, at: At) {
        let dimension = self.positions.len() / self.chains;
        let (mut position, mut gradient) = (DVector::zeros(dimension), DVector::zeros(dimension));
        for chain in 0..self.chains {
            let log_density = self.log_densities[chain];
            read_row(&self.gradients, self.chains, chain, &mut gradient);
            if is_usual(&log_density) && all_finite(gradient.as_slice()) {
                continue;
            }
            read_row(&self.positions, self.chains, chain, &mut position);
            let found = checked(at.quantity(), log_density, &position, &mut gradient);
            let found = self.noted(chain, at, found);
            self.log_densities[chain] = found.unwrap_or(f64::NEG_INFINITY);
            if found.is_none() {
                gradient.fill(0.0);
            }
            write_row(&mut self.gradients, self.chains, chain, gradient.as_slice());
        }
    }

    /// Multiplies the gradients by the transposed factor.
    fn turn_gradients(&mut self, at: At, factor: &Factor) {
        let dimension = self.positions.len() / self.chains;
        let mut gradient = std::mem::take(&mut self.one.gradient);
        set_len(&mut gradient, dimension);
        for chain in 0..self.chains {
            read_row(&self.gradients, self.chains, chain, &mut gradient);
            factor.transpose_times(&mut gradient);
            if let Err(fault) = check_gradient(&gradient) {
                let position: Vec<f64> = row(&self.positions, self.chains, chain).collect();
                self.noted::<()>(chain, at, Err(fault.at_state(&position)));
                gradient.fill(0.0);
            }
            write_row(&mut self.gradients, self.chains, chain, gradient.as_slice());
        }
        self.one.gradient = gradient;
    }

    /// Records the first fault of the lowest chain. A trajectory that diverges is refused without a fault.
    fn noted<T>(&mut self, chain: usize, at: At, found: Result<T, NonFinite>) -> Option<T> {
        match found {
            Ok(value) => Some(value),
            Err(fault) => {
                if at == At::Proposal && self.diverges(chain) {
                    self.here[chain] = f64::INFINITY;
                } else if self.fault.is_none_or(|(first, _)| chain < first) {
                    self.fault = Some((chain, fault));
                }
                None
            }
        }
    }

    /// Returns whether the trajectory had diverged at the point before the last drift.
    fn diverges(&self, chain: usize) -> bool {
        let squares = row(&self.momenta, self.chains, chain).map(|p| p * p);
        let energy = 0.5 * squares.sum::<f64>() - self.left[chain];
        diverges(-self.here[chain], energy)
    }
}
