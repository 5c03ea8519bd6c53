//! Chains of a trajectory that overflow, leave the support, diverge or meet a non-finite number.

use nalgebra::DVector;

use super::preconditioner::Factor;
use super::trajectories::{At, Trajectories, read_row, row, write_row};
use super::vector::{UNREACHABLE, check_gradient, checked, diverges, set_len};
use crate::kernel::NonFinite;
use crate::num::all_finite;

/// Returns whether a log density needs no further check: it is at least `UNREACHABLE`, and neither NaN nor `+inf`.
#[inline]
fn is_usual(log_density: &f64) -> bool {
    (UNREACHABLE..f64::INFINITY).contains(log_density)
}

impl Trajectories {
    /// Replaces each position that overflowed by one that did not, so that the model can evaluate it. Returns the
    /// replaced positions with their chains.
    pub(super) fn set_aside_overflows(&mut self) -> Vec<(usize, Vec<f64>)> {
        let position = |chain| self.position(chain);
        let positions = (0..self.chains).map(|chain| (chain, position(chain)));
        let (within, beyond): (Vec<_>, Vec<_>) =
            positions.partition(|(_, position)| all_finite(position));
        if let Some((_, stand_in)) = within.first() {
            for (chain, _) in &beyond {
                let positions = self.positions.as_mut_slice();
                write_row(positions, self.chains, *chain, stand_in);
            }
        }
        beyond
    }

    /// Checks log densities and gradients, and multiplies the gradients by the transposed `factor`. `finite` says
    /// whether all gradients are finite.
    pub(super) fn finish(&mut self, at: At, factor: Option<&Factor>, finite: bool) {
        if !finite || !self.log_densities.iter().all(is_usual) {
            self.check_unusual(at);
        }
        if let Some(factor) = factor {
            self.turn_gradients(at, factor);
        }
    }

    /// Checks one by one the chains that are off the support, diverge or have a fault, and sets their gradients to 0.
    #[cold]
    fn check_unusual(&mut self, at: At) {
        let mut gradient = DVector::zeros(self.dimension());
        for chain in 0..self.chains {
            let log_density = self.log_densities[chain];
            let gradients = self.gradients.as_mut_slice();
            read_row(gradients, self.chains, chain, &mut gradient);
            if is_usual(&log_density) && all_finite(gradient.as_slice()) {
                continue;
            }
            let position = DVector::from_vec(self.position(chain));
            let found = checked(at.quantity(), log_density, &position, &mut gradient);
            let found = self.noted(chain, at, found);
            self.log_densities[chain] = found.unwrap_or(f64::NEG_INFINITY);
            if found.is_none() {
                gradient.fill(0.0);
            }
            let gradients = self.gradients.as_mut_slice();
            write_row(gradients, self.chains, chain, gradient.as_slice());
        }
    }

    /// Multiplies the gradients by the transposed factor.
    fn turn_gradients(&mut self, at: At, factor: &Factor) {
        let mut gradient = std::mem::take(&mut self.row);
        set_len(&mut gradient, self.dimension());
        for chain in 0..self.chains {
            read_row(self.gradients.as_slice(), self.chains, chain, &mut gradient);
            factor.transpose_times(&mut gradient);
            if let Err(fault) = check_gradient(&gradient) {
                let position = self.position(chain);
                self.noted::<()>(chain, at, Err(fault.at_state(&position)));
                gradient.fill(0.0);
            }
            let gradients = self.gradients.as_mut_slice();
            write_row(gradients, self.chains, chain, gradient.as_slice());
        }
        self.row = gradient;
    }

    /// Returns the value in `found`. A fault ends the chain's trajectory and gives `None`. Records the first fault of
    /// the lowest chain, but no fault of a trajectory that diverges, because such a trajectory is only refused.
    fn noted<T>(&mut self, chain: usize, at: At, found: Result<T, NonFinite>) -> Option<T> {
        let fault = match found {
            Ok(value) => return Some(value),
            Err(fault) => fault,
        };
        let is_first = self.fault.is_none_or(|(first, _)| chain < first);
        let is_refused = at == At::Proposal && self.diverges(chain);
        if is_first && !is_refused {
            self.fault = Some((chain, fault));
        }
        self.here[chain] = f64::INFINITY;
        None
    }

    fn position(&self, chain: usize) -> Vec<f64> {
        row(self.positions.as_slice(), self.chains, chain).collect()
    }

    /// Returns whether the trajectory had diverged at the point before the last drift.
    fn diverges(&self, chain: usize) -> bool {
        let squares = row(self.momenta.as_slice(), self.chains, chain).map(|p| p * p);
        let energy = 0.5 * squares.sum::<f64>() - self.left[chain];
        diverges(-self.here[chain], energy)
    }
}
