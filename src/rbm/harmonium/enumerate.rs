//! Exact sums over all states of the hidden units, and exact samples.

use nalgebra::DMatrix;
use rand::{Rng, RngExt};

use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::WeightSums;
use crate::rbm::enumerate::{MAX_ENUMERATED_UNITS, check_log_normalizer, map_tasks};
use crate::rbm::harmonium::VisibleUnits;
use crate::rbm::harmonium::model::Harmonium;
use crate::{Error, Result};

/// The logarithm to base 2 of the number of states that are reached from one fresh sum. It is small, so that rounding errors
/// do not pile up.
const CHUNK_BITS: usize = 6;

/// The largest number of independent tasks. It is fixed, so that the result does not depend on the number of threads.
const MAX_TASKS: usize = 64;

/// A harmonium as a model of its hidden units, with the visible ones summed out.
struct Enumeration<'a, V> {
    harmonium: &'a Harmonium<V>,
    /// `W^T` (S x M).
    fields: DMatrix<f64>,
}

impl<'a, V: VisibleUnits> Enumeration<'a, V> {
    fn new(harmonium: &'a Harmonium<V>) -> Result<Self> {
        let (units, most) = (harmonium.hidden_units(), MAX_ENUMERATED_UNITS);
        let expected = format!("at most {most}, to enumerate their states");
        Error::check(units <= most, "hidden units", units, expected)?;
        Ok(Self {
            fields: harmonium.weights().transpose(),
            harmonium,
        })
    }

    /// Number of states that are reached from one fresh sum.
    fn states_per_chunk(&self) -> usize {
        1 << self.harmonium.hidden_units().min(CHUNK_BITS)
    }

    fn chunks(&self) -> usize {
        (1 << self.harmonium.hidden_units()) / self.states_per_chunk()
    }

    /// `a.h + log sum_v r(v) exp(h^T W s(v))` for the states of a chunk: hidden unit k is bit k of a state. They are visited in
    /// Gray order, in which one unit flips from each to the next.
    fn log_masses(&self, chunk: usize) -> Vec<f64> {
        let (harmonium, states) = (self.harmonium, self.states_per_chunk());
        let mut state = chunk * states;
        let hidden = units(harmonium, state);
        let mut field = harmonium.field(&hidden);
        let biases = harmonium.hidden_bias().iter().zip(hidden);
        let mut bias: f64 = biases.filter(|(_, on)| *on).map(|(bias, _)| bias).sum();
        let mut log_masses = vec![0.0; states];
        for next in 1..=states {
            log_masses[state % states] = bias + harmonium.visible().tilted(&field).log_normalizer();
            if next < states {
                let unit = next.trailing_zeros() as usize;
                state ^= 1 << unit;
                let sign = if state >> unit & 1 == 1 { 1.0 } else { -1.0 };
                field.axpy(sign, &self.fields.column(unit), 1.0);
                bias += sign * harmonium.hidden_bias()[unit];
            }
        }
        log_masses
    }

    /// What `visit` makes of the chunks of each task, in the order of the states.
    fn map<A: Send>(
        &self,
        visit: impl Fn(&mut dyn Iterator<Item = f64>) -> A + Send + Sync,
    ) -> Vec<A> {
        let (chunks, tasks) = (self.chunks(), self.chunks().min(MAX_TASKS));
        map_tasks(tasks, |task| {
            let mine = chunks / tasks * task..chunks / tasks * (task + 1);
            visit(&mut mine.flat_map(|chunk| self.log_masses(chunk)))
        })
    }

    fn log_normalizer(&self) -> Result<f64> {
        let mut total = WeightSums::default();
        for part in self.map(|log_masses| WeightSums::of(log_masses)) {
            total.merge(&part);
        }
        check_log_normalizer(total.log_sum())
    }
}

/// The hidden units in a state.
fn units<V: VisibleUnits>(harmonium: &Harmonium<V>, state: usize) -> Vec<bool> {
    (0..harmonium.hidden_units())
        .map(|k| state >> k & 1 == 1)
        .collect()
}

impl<V: VisibleUnits> Harmonium<V> {
    /// The exact `log Z`, by enumeration of the hidden units. It gives the same bits on any number of threads.
    ///
    /// # Errors
    /// Where there are more than [`MAX_ENUMERATED_UNITS`] hidden units, or `log Z` overflows.
    pub fn exact_log_normalizer(&self) -> Result<f64> {
        Enumeration::new(self)?.log_normalizer()
    }
}

/// A harmonium whose hidden units have been enumerated, so that it is normalised and sampled exactly.
///
/// It holds a cumulative probability for each state of the hidden units. That is 8 MiB for 20 units and 256 MiB for 25.
///
/// ```
/// use annealed::harmonium::{EnumeratedHarmonium, GaussianUnits, Harmonium};
/// use annealed::model::{NormalizedModel, Sampleable};
/// use annealed::nalgebra::{dmatrix, dvector};
/// use annealed::random::{Purpose, stream};
///
/// let units = GaussianUnits::new(dvector![0.0], dvector![1.0])?;
/// let exact = EnumeratedHarmonium::new(Harmonium::new(dmatrix![2.0], dvector![-1.0], units)?)?;
/// // With the hidden unit off, the mass is that of a standard normal; on, it is e^(-1 + 2^2 / 2) times as large.
/// let log_z = 0.5 * std::f64::consts::TAU.ln() + (1.0 + 1_f64.exp()).ln();
/// assert!((exact.log_normalizer() - log_z).abs() < 1e-14);
/// let mut rng = stream(1, Purpose::Data, 0);
/// assert_eq!(exact.sample(&mut rng).len(), 1);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct EnumeratedHarmonium<V> {
    harmonium: Harmonium<V>,
    log_normalizer: f64,
    /// Sums of probabilities up to and including each state of the hidden units.
    cumulative: Vec<f64>,
}

impl<V: VisibleUnits> EnumeratedHarmonium<V> {
    /// Enumerates the hidden units.
    ///
    /// # Errors
    /// As [`Harmonium::exact_log_normalizer`].
    pub fn new(harmonium: Harmonium<V>) -> Result<Self> {
        let enumeration = Enumeration::new(&harmonium)?;
        let log_normalizer = enumeration.log_normalizer()?;
        let parts = enumeration.map(|log_masses| log_masses.collect::<Vec<f64>>());
        let mut cumulative = parts.concat();
        let mut sum = 0.0;
        for p in &mut cumulative {
            sum += (*p - log_normalizer).exp();
            *p = sum;
        }
        Ok(Self {
            harmonium,
            log_normalizer,
            cumulative,
        })
    }

    /// The harmonium.
    pub fn harmonium(&self) -> &Harmonium<V> {
        &self.harmonium
    }
}

impl<V: VisibleUnits> UnnormalizedModel for EnumeratedHarmonium<V> {
    type State = V::State;

    fn log_density(&self, visible: &V::State) -> f64 {
        self.harmonium.log_density(visible)
    }

    fn state_dimension(&self) -> Option<usize> {
        self.harmonium.state_dimension()
    }
}

impl<V: VisibleUnits> NormalizedModel for EnumeratedHarmonium<V> {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }
}

impl<V: VisibleUnits> Sampleable for EnumeratedHarmonium<V> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> V::State {
        let last = self.cumulative.len() - 1;
        // The last sum is 1 but for rounding; scaling by it keeps the index in range.
        let level = rng.random::<f64>() * self.cumulative[last];
        let state = self.cumulative.partition_point(|&c| c <= level).min(last);
        self.harmonium
            .visible_given(&units(&self.harmonium, state))
            .sample(rng)
    }
}
