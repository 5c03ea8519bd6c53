//! Moments of an RBM: exact by enumeration, or estimated from Gibbs chains or data.

use nalgebra::{DMatrix, DVector};

use crate::num::setters;
use crate::random::{Lanes, Purpose, StreamRng, stream, successive};
use crate::rbm::base_rate::check_data;
use crate::rbm::engine::add;
use crate::rbm::enumerate::{Enumeration, STATES, StateBlock, check_log_normalizer, map_tasks};
use crate::rbm::train::{ParameterSums, Sampler, TrainingChains};
use crate::rbm::{Rbm, Scalar};
use crate::{Error, Result};

/// Log density, relative to the highest found, below which blocks are skipped. `2^25` such states have a probability
/// below 1e-12.
const NEGLIGIBLE: f64 = -45.0;

/// Moments of an RBM as an exponential family: the gradient of `log Z` in `b`, `a` and `W`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RbmMoments {
    /// `E[v]` (D).
    pub visible: DVector<f64>,
    /// `E[h]` (M).
    pub hidden: DVector<f64>,
    /// `E[h v^T]` (M x D).
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "crate::num::serial::matrix")
    )]
    pub interaction: DMatrix<f64>,
}

impl RbmMoments {
    /// Returns `(1 - beta)` times these moments plus `beta` times `other`.
    ///
    /// # Errors
    /// If the numbers of units differ.
    pub fn average(&self, other: &Self, beta: f64) -> Result<Self> {
        let (hidden, visible) = self.interaction.shape();
        other.check_shape(hidden, visible)?;
        Ok(Self {
            visible: &self.visible * (1.0 - beta) + &other.visible * beta,
            hidden: &self.hidden * (1.0 - beta) + &other.hidden * beta,
            interaction: &self.interaction * (1.0 - beta) + &other.interaction * beta,
        })
    }

    /// Returns the largest absolute difference between corresponding moments. No moment may be NaN.
    ///
    /// # Panics
    /// If the numbers of units differ.
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

    /// Checks the shape and, to 1e-6, `max(0, E[h] + E[v] - 1) <= E[h v] <= min(E[h], E[v])` for each pair of units.
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

/// Sums over the states s of one task, in units of `exp(reference)`. A row holds the sums of `f(s) E[unit | s]` for one
/// unit of the other layer, and the last row holds the sums of `f(s)`.
struct MomentSums {
    reference: f64,
    /// For each row, a sum per state of the low units, the enumerated units that differ within a block.
    low: Vec<[f64; STATES]>,
    /// For each enumerated unit that is not low, a column of sums over the states in which this unit is on.
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
        add(self.low.as_flattened_mut(), part.low.as_flattened());
        self.high += part.high;
    }
}

impl<T: Scalar> Rbm<T> {
    /// Returns `E[v]`, `E[h]` and `E[h v^T]`, exact by enumeration of the smaller layer.
    ///
    /// # Errors
    /// Same as [`exact_log_normalizer`](Self::exact_log_normalizer).
    pub fn exact_moments(&self) -> Result<RbmMoments> {
        Ok(self.log_normalizer_and_moments()?.1)
    }

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

    /// Returns the mean energy `-(b.E[v] + a.E[h] + sum_ji W_ji E[h_j v_i])` under a distribution with these moments.
    ///
    /// Two RBMs have the symmetrised Kullback-Leibler divergence `E(s') - E(s) + E'(s) - E'(s')`, where E and E' are
    /// their mean energies, and s and s' their moments.
    ///
    /// # Panics
    /// If the moments have another shape.
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

/// Number of chains that move together. It is fixed, so the number of threads does not change the result.
const BLOCK: usize = 125;

/// Gibbs chains from random bits that estimate the moments of an RBM of any size. The estimates are biased if the
/// chains miss modes. Runs along a path built on them stay unbiased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct MomentChains {
    chains: usize,
    sweeps: usize,
    burn_in: usize,
    seed: u64,
}

impl MomentChains {
    /// Creates the setting of Grosse et al. (2013): 1,000 chains of 10,000 sweeps, with a burn-in of 1,000.
    pub fn full() -> Self {
        Self {
            chains: 1_000,
            sweeps: 10_000,
            burn_in: 1_000,
            seed: 0,
        }
    }

    setters! {
        /// Sets the number of chains.
        chains: usize,

        /// Sets the number of sweeps of each chain, including the burn-in.
        sweeps: usize,

        /// Sets the number of sweeps left out at the start.
        burn_in: usize,

        /// Sets the seed of the chains.
        seed: u64,
    }

    /// Estimates the moments of `rbm`.
    ///
    /// # Errors
    /// If there is no chain, or no sweep after the burn-in.
    pub fn moments<T: Scalar>(&self, rbm: &Rbm<T>) -> Result<RbmMoments> {
        Error::check_count("chains", self.chains, 1)?;
        Error::check_count("sweeps", self.sweeps, self.burn_in.saturating_add(1))?;
        let rbm = rbm.cast::<f32>()?;
        let number = self.chains.div_ceil(BLOCK);
        let streams = successive(stream(self.seed, Purpose::MOMENTS, 0)).take(number);
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

    fn block(&self, rbm: &Rbm<f32>, block: usize, mut rng: StreamRng) -> RbmMoments {
        let chains = BLOCK.min(self.chains - block * BLOCK);
        let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
        let mut chains = TrainingChains::random(hidden, visible, chains, &mut rng);
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
    /// Computes the moments of `data`, with hidden units distributed as in `rbm`. They are close to the moments of a
    /// well-trained `rbm`.
    ///
    /// # Errors
    /// If there are no data, or the length of a row is not D.
    pub fn from_data<T: Scalar>(rbm: &Rbm<T>, data: &[Vec<bool>]) -> Result<Self> {
        Error::check_dimension("row of data", check_data(data)?, rbm.visible_units())?;
        let rbm = rbm.cast::<f32>()?;
        let mut total = Self::zeros(rbm.hidden_units(), rbm.visible_units());
        let sampler = Sampler::new(&rbm);
        for rows in data.chunks(BLOCK) {
            let mut chains =
                TrainingChains::zeros(rbm.hidden_units(), rbm.visible_units(), rows.len());
            chains.start_at(rows.iter());
            total.add(&chains.sums(&sampler, 1.0).into());
        }
        total.scale(1.0 / data.len() as f64);
        Ok(total)
    }
}
