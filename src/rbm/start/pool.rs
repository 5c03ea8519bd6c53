//! Weighted samples of an RBM, from pilots and from the hidden configurations that are known.

use std::collections::HashSet;

use nalgebra::DMatrix;
use rand::RngExt;

use super::fit::Rows;
use crate::ais::Run;
use crate::num::{log_sum_exp, sigmoid};
use crate::random::StreamRng;
use crate::rbm::configurations::{Configuration, log_sum};
use crate::rbm::model::{Rbm, draw_all};
use crate::rbm::scalar::Scalar;

/// Rows that stand for the configurations.
const CONFIGURATIONS: usize = 256;
/// Configurations that hold less than exp of this of Z, in nats, are left out.
const NEGLIGIBLE: f64 = -3.0;
/// Rows below this share of the largest weight are left out.
const LEAST_WEIGHT: f64 = 1e-5;

/// The hidden configurations of a pilot's final states, each with the log of its part of `Z^`.
pub(super) struct Drawn {
    log_z: f64,
    effective: f64,
    hidden: Vec<(f64, Vec<bool>)>,
}

impl Drawn {
    /// Draws h given each final state. Weights count for at most `sqrt(N)` times their mean (Ionides 2008).
    pub(super) fn of<T: Scalar>(rbm: &Rbm<T>, run: &Run<Vec<bool>>, rng: &mut StreamRng) -> Self {
        let log_chains = (run.chains() as f64).ln();
        let shift = run.log_z() - run.log_z_ratio() - log_chains;
        let cap = run.log_z_ratio() + 0.5 * log_chains;
        let chains = run.states().iter().zip(run.log_weights());
        let hidden = chains.map(|(state, log_weight)| {
            let hidden = draw_all(&rbm.hidden_activation(state), rng);
            (log_weight.min(cap) + shift, hidden)
        });
        Self {
            log_z: run.log_z(),
            effective: run.effective_sample_size(),
            hidden: hidden.collect(),
        }
    }
}

/// Pools pilots and configurations into samples of the RBM: the probabilities of the visible units given h, with weights.
///
/// The configurations S have their exact masses `f(h)`. A pilot adds the chains whose h is not in S, so that no mass
/// counts twice; pilots share in this by their effective sample sizes.
pub(super) fn pool<T: Scalar>(
    rbm: &Rbm<T>,
    pilots: &[Drawn],
    known: &[Configuration],
    rng: &mut StreamRng,
) -> Rows {
    let largest = pilots.iter().map(|pilot| pilot.log_z);
    let largest = largest.fold(f64::NEG_INFINITY, f64::max);
    let known = match log_sum(known) - largest > NEGLIGIBLE {
        true => known,
        false => &[],
    };
    let met: HashSet<&Vec<bool>> = known.iter().map(|(_, hidden)| hidden).collect();
    let effective: f64 = pilots.iter().map(|pilot| pilot.effective).sum();
    let mut rows = systematic(known, rng);
    for pilot in pilots {
        let log_share = (pilot.effective / effective).ln();
        let others = pilot
            .hidden
            .iter()
            .filter(|(_, hidden)| !met.contains(hidden));
        rows.extend(others.map(|(log_mass, hidden)| (log_mass + log_share, hidden)));
    }
    let most = rows.iter().map(|(log_mass, _)| *log_mass);
    let most = most.fold(f64::NEG_INFINITY, f64::max);
    rows.retain(|(log_mass, _)| *log_mass > most + LEAST_WEIGHT.ln());
    let rates = rows
        .iter()
        .map(|(_, hidden)| rbm.visible_activation(hidden).map(sigmoid));
    Rows {
        rates: DMatrix::from_columns(&Vec::from_iter(rates)),
        weights: rows
            .iter()
            .map(|(log_mass, _)| (log_mass - most).exp())
            .collect(),
    }
}

/// Draws configurations by their masses, evenly over the list; each stands for an equal part of all mass.
fn systematic<'c>(known: &'c [Configuration], rng: &mut StreamRng) -> Vec<(f64, &'c Vec<bool>)> {
    let total = log_sum_exp(known.iter().map(|(log_f, _)| *log_f));
    let each = total - (CONFIGURATIONS as f64).ln();
    let (mut left, mut rows) = (rng.random::<f64>(), Vec::new());
    for (log_f, hidden) in known {
        left += (log_f - each).exp();
        while left >= 1.0 {
            rows.push((each, hidden));
            left -= 1.0;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use nalgebra::DVector;

    use super::*;
    use crate::ais::Ais;
    use crate::random::{Purpose, stream};
    use crate::rbm::base_rate::BaseRate;
    use crate::rbm::gibbs::BlockGibbs;
    use crate::rbm::path::RbmPath;
    use crate::schedule::Schedule;

    /// The pool has the mean rates of the model where half of its configurations are known, and where none is. Known
    /// configurations that pilots count again would be too heavy by their mass.
    #[test]
    fn the_pool_has_the_means_of_the_model() {
        let weights = DMatrix::from_fn(3, 5, |j, i| 2.0 * ((1 + i + 7 * j) as f64).sin());
        let rbm = Rbm::new(
            weights,
            DVector::from_vec(vec![0.3, -0.8, 0.5]),
            DVector::zeros(5),
        );
        let rbm = rbm.unwrap();
        let exact = rbm.exact_moments().unwrap().visible;
        let (_, all) = rbm.explore(&[], 16, 0, usize::MAX).unwrap();
        assert_eq!(all.len(), 8);
        let mut rng = stream(5, Purpose::Testing, 0);
        let pilots: Vec<Drawn> = (0..2)
            .map(|seed| {
                let base = BaseRate::uniform(3, 5).unwrap();
                let path = RbmPath::new(base, rbm.clone()).unwrap();
                let ais = Ais::new(&path, BlockGibbs).chains(4_000).seed(seed);
                let run = ais.schedule(Schedule::linear(20).unwrap()).run().unwrap();
                Drawn::of(&rbm, &run, &mut rng)
            })
            .collect();
        for known in [&all[..1], &all[..2], &all[..4]] {
            let rows = pool(&rbm, &pilots, known, &mut rng);
            let total: f64 = rows.weights.iter().sum();
            let mean = &rows.rates * DVector::from_column_slice(&rows.weights) / total;
            assert!((mean - &exact).amax() < 0.02, "{exact}");
        }
    }
}
