//! The moments of an RBM: exact by enumeration, or estimated from Gibbs chains or data.

use nalgebra::{DMatrix, DVector};

use crate::num::setters;
use crate::random::{Lanes, Purpose, StreamRng, stream, successive};
use crate::rbm::base_rate::check_data;
use crate::rbm::engine::add_scaled;
use crate::rbm::enumerate::{Enumeration, STATES, StateBlock, check_log_normalizer, map_tasks};
use crate::rbm::train::{Chains, ParameterSums, Sampler};
use crate::rbm::{Rbm, Scalar};
use crate::{Error, Result};

/// Blocks of states this far below the likeliest state in log probability are passed over. Even
/// `2^25` such states hold less than 1e-12 together.
const NEGLIGIBLE: f64 = -45.0;

/// The moments of an RBM as an exponential family: the gradient of `log Z` in `b`, `a` and `W`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RbmMoments {
    /// `E[v]` (D).
    pub visible: DVector<f64>,
    /// `E[h]` (M).
    pub hidden: DVector<f64>,
    /// `E[h v^T]` (M x D).
    pub interaction: DMatrix<f64>,
}

impl RbmMoments {
    /// `(1 - beta)` times these moments and `beta` times the others.
    ///
    /// # Errors
    /// Where the numbers of units differ.
    pub fn average(&self, other: &Self, beta: f64) -> Result<Self> {
        let (hidden, visible) = self.interaction.shape();
        other.check_shape(hidden, visible)?;
        Ok(Self {
            visible: &self.visible * (1.0 - beta) + &other.visible * beta,
            hidden: &self.hidden * (1.0 - beta) + &other.hidden * beta,
            interaction: &self.interaction * (1.0 - beta) + &other.interaction * beta,
        })
    }

    /// The largest difference between a moment and its counterpart; NaN where one is.
    ///
    /// # Panics
    /// Where the numbers of units differ.
    pub fn largest_difference(&self, other: &Self) -> f64 {
        let visible = (&self.visible - &other.visible).amax();
        let hidden = (&self.hidden - &other.hidden).amax();
        let interaction = (&self.interaction - &other.interaction).amax();
        visible.max(hidden).max(interaction)
    }

    pub(crate) fn zeros(hidden: usize, visible: usize) -> Self {
        Self {
            visible: DVector::zeros(visible),
            hidden: DVector::zeros(hidden),
            interaction: DMatrix::zeros(hidden, visible),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.visible += &other.visible;
        self.hidden += &other.hidden;
        self.interaction += &other.interaction;
    }

    pub(crate) fn scale(&mut self, factor: f64) {
        self.visible *= factor;
        self.hidden *= factor;
        self.interaction *= factor;
    }

    /// Checks that there is a moment for each unit and each pair, and that each pair of units has a
    /// distribution: `max(0, E[h] + E[v] - 1) <= E[h v] <= min(E[h], E[v])`, to 1e-6.
    pub(crate) fn check(&self, hidden: usize, visible: usize) -> Result<()> {
        self.check_shape(hidden, visible)?;
        Error::check_finite("visible moments", self.visible.iter().copied())?;
        Error::check_finite("hidden moments", self.hidden.iter().copied())?;
        Error::check_finite("interaction", self.interaction.iter().copied())?;
        for (i, &v) in self.visible.iter().enumerate() {
            for (j, &h) in self.hidden.iter().enumerate() {
                let both = self.interaction[(j, i)];
                let least = both.min(h - both).min(v - both).min(1.0 - h - v + both);
                if least < -1e-6 {
                    return Err(Error::invalid(
                        "moments",
                        format!("E[h_{j}] = {h}, E[v_{i}] = {v}, E[h_{j} v_{i}] = {both}"),
                        "moments of a distribution over bits",
                    ));
                }
            }
        }
        Ok(())
    }

    pub(super) fn check_shape(&self, hidden: usize, visible: usize) -> Result<()> {
        Error::check_dimension("visible moments", self.visible.len(), visible)?;
        Error::check_dimension("hidden moments", self.hidden.len(), hidden)?;
        Error::check_dimension("rows of the interaction", self.interaction.nrows(), hidden)?;
        Error::check_dimension(
            "columns of the interaction",
            self.interaction.ncols(),
            visible,
        )
    }
}

impl From<ParameterSums<f32>> for RbmMoments {
    fn from(sums: ParameterSums<f32>) -> Self {
        Self {
            visible: sums.visible_bias.map(f64::from),
            hidden: sums.hidden_bias.map(f64::from),
            interaction: sums.weights.map(f64::from),
        }
    }
}

/// Sums over the states s of one task, in units of `exp(reference)`. There is a row for each unit
/// of the other layer, with sums of `f(s) E[unit | s]`, and a last row with sums of `f(s)`.
struct MomentSums {
    reference: f64,
    /// For each row, a sum for each state of the low units.
    low: Vec<[f64; STATES]>,
    /// For each enumerated unit that is not low, a column of sums over the states in which it is on.
    high: DMatrix<f64>,
}

impl MomentSums {
    fn zeros(enumeration: &Enumeration) -> Self {
        let rows = enumeration.other_units() + 1;
        Self {
            reference: f64::NEG_INFINITY,
            low: vec![[0.0; STATES]; rows],
            high: DMatrix::zeros(rows, enumeration.high_units()),
        }
    }

    fn add(&mut self, enumeration: &Enumeration, first_state: usize, block: &StateBlock) {
        let highest = block.highest();
        if highest > self.reference {
            self.rescale(highest);
        }
        if highest - self.reference < NEGLIGIBLE {
            return;
        }
        let p = block.relative(self.reference);
        enumeration.add_means(first_state, block, &p, &mut self.low, &mut self.high);
    }

    fn rescale(&mut self, reference: f64) {
        let factor = (self.reference - reference).exp();
        for sum in self.low.as_flattened_mut() {
            *sum *= factor;
        }
        self.high *= factor;
        self.reference = reference;
    }

    fn merge(&mut self, mut part: Self) {
        if part.reference > self.reference {
            self.rescale(part.reference);
        } else {
            part.rescale(self.reference);
        }
        add_scaled(self.low.as_flattened_mut(), 1.0, part.low.as_flattened());
        self.high += part.high;
    }
}

impl<T: Scalar> Rbm<T> {
    /// `E[v]`, `E[h]` and `E[h v^T]`, exactly, by enumerating the smaller layer.
    ///
    /// # Errors
    /// As [`exact_log_normalizer`](Self::exact_log_normalizer).
    pub fn exact_moments(&self) -> Result<RbmMoments> {
        Ok(self.log_normalizer_and_moments()?.1)
    }

    /// `log Z` and its gradient, the moments, in one enumeration.
    pub(crate) fn log_normalizer_and_moments(&self) -> Result<(f64, RbmMoments)> {
        let enumeration = Enumeration::new(self)?;
        let mut total = MomentSums::zeros(&enumeration);
        let parts = enumeration.fold(
            |_| MomentSums::zeros(&enumeration),
            |sums, first_state, block| sums.add(&enumeration, first_state, block),
        );
        for part in parts {
            total.merge(part);
        }
        let (others, units) = (enumeration.other_units(), enumeration.units());
        let columns = enumeration.columns(&total.low, &total.high);
        let weight = columns[(others, units)];
        let log_normalizer = check_log_normalizer(total.reference + weight.ln())?;
        let moments = columns / weight;
        let other = moments.view((0, units), (others, 1)).column(0).into_owned();
        let enumerated = moments.row(others).columns(0, units).transpose();
        let products = moments.view((0, 0), (others, units)).into_owned();
        let (visible, hidden, interaction) = if enumeration.over_hidden {
            (other, enumerated, products.transpose())
        } else {
            (enumerated, other, products)
        };
        let moments = RbmMoments {
            visible,
            hidden,
            interaction,
        };
        Ok((log_normalizer, moments))
    }

    /// The mean of this machine's energy under any distribution that has these moments:
    /// `-(b.E[v] + a.E[h] + sum_ji W_ji E[h_j v_i])`.
    ///
    /// Two machines with mean energies E and E' and moments s and s' have the symmetrised
    /// Kullback-Leibler divergence `E(s') - E(s) + E'(s) - E'(s')`.
    ///
    /// # Panics
    /// Where the moments are not those of a machine of this shape.
    pub fn mean_energy(&self, moments: &RbmMoments) -> f64 {
        let dot = |parameters: &[T], moments: &[f64]| -> f64 {
            assert_eq!(parameters.len(), moments.len(), "number of moments");
            let pairs = parameters.iter().zip(moments);
            pairs
                .map(|(parameter, moment)| parameter.as_() * moment)
                .sum()
        };
        -(dot(self.visible_bias().as_slice(), moments.visible.as_slice())
            + dot(self.hidden_bias().as_slice(), moments.hidden.as_slice())
            + dot(self.weights().as_slice(), moments.interaction.as_slice()))
    }
}

/// Chains that move together. Fixed, so that the result does not depend on the threads.
const BLOCK: usize = 125;

/// Gibbs chains, from random bits, that estimate the moments of an RBM that is too large to enumerate.
///
/// Hidden units count by their probabilities given the visible units. The estimates are biased where the chains do not reach
/// every mode; a run along a path that is built on them stays unbiased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct MomentChains {
    chains: usize,
    sweeps: usize,
    burn_in: usize,
    seed: u64,
}

impl MomentChains {
    /// 1,000 chains of 10,000 sweeps, the first 1,000 of which are left out: the setting of Grosse et al. (2013).
    pub fn full() -> Self {
        Self {
            chains: 1_000,
            sweeps: 10_000,
            burn_in: 1_000,
            seed: 0,
        }
    }

    setters! {
        /// Number of chains.
        chains: usize,

        /// Number of sweeps of each chain, including those left out.
        sweeps: usize,

        /// Number of sweeps left out at the start.
        burn_in: usize,

        /// The seed of the chains.
        seed: u64,
    }

    /// The moments of `rbm`.
    ///
    /// # Errors
    /// Where there is no chain, or no sweep after the burn-in.
    pub fn moments<T: Scalar>(&self, rbm: &Rbm<T>) -> Result<RbmMoments> {
        Error::check_count("chains", self.chains, 1)?;
        Error::check_count("sweeps", self.sweeps, self.burn_in.saturating_add(1))?;
        let rbm = rbm.cast::<f32>()?;
        let number = self.chains.div_ceil(BLOCK);
        let streams = successive(stream(self.seed, Purpose::Moments, 0)).take(number);
        let streams: Vec<StreamRng> = streams.collect();
        let blocks = map_tasks(number, |block| {
            self.block(&rbm, block, streams[block].clone())
        });
        let mut total = RbmMoments::zeros(rbm.hidden_units(), rbm.visible_units());
        for block in &blocks {
            total.add(block);
        }
        let counted = (self.sweeps - self.burn_in) as f64;
        total.scale(1.0 / (self.chains as f64 * counted));
        Ok(total)
    }

    /// Sums over one block's chains and sweeps, in double precision beyond one sweep.
    fn block(&self, rbm: &Rbm<f32>, block: usize, mut rng: StreamRng) -> RbmMoments {
        let chains = BLOCK.min(self.chains - block * BLOCK);
        let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
        let mut chains = Chains::random(hidden, visible, chains, &mut rng);
        let mut lanes = Lanes::from_rng(&mut rng);
        let sampler = Sampler::new(rbm);
        let mut total = RbmMoments::zeros(hidden, visible);
        for sweep in 0..self.sweeps {
            chains.sweep(&sampler, &mut lanes);
            if sweep >= self.burn_in {
                total.add(&chains.sums(&sampler, 1.0).into());
            }
        }
        total
    }
}

impl RbmMoments {
    /// The moments of data, with the hidden units distributed as in `rbm` given each row.
    ///
    /// They cost one pass over the data, and are close to the moments of `rbm` where it is well trained.
    ///
    /// # Errors
    /// Where there are no data, or a row does not have D entries.
    pub fn from_data<T: Scalar>(rbm: &Rbm<T>, data: &[Vec<bool>]) -> Result<Self> {
        Error::check_dimension("row of data", check_data(data)?, rbm.visible_units())?;
        let rbm = rbm.cast::<f32>()?;
        let mut total = Self::zeros(rbm.hidden_units(), rbm.visible_units());
        let sampler = Sampler::new(&rbm);
        for rows in data.chunks(BLOCK) {
            let mut chains = Chains::zeros(rbm.hidden_units(), rbm.visible_units(), rows.len());
            chains.start_at(rows.iter());
            total.add(&chains.sums(&sampler, 1.0).into());
        }
        total.scale(1.0 / data.len() as f64);
        Ok(total)
    }
}
