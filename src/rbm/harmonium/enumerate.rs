//! Exact sums over all hidden states of a harmonium, and exact samples.

use nalgebra::DMatrix;
use rand::Rng;

use crate::Result;
use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::WeightSums;
use crate::rbm::enumerate::{
    CHUNK_BITS, Cumulative, check_enumerable, check_log_normalizer, chunks_of, gray_order,
    map_chunks, units_of,
};
use crate::rbm::harmonium::{Harmonium, VisibleUnits};
use crate::rbm::model::masked_sum_of;

/// A harmonium as a model of its hidden units, with the visible ones summed out.
struct HarmoniumEnumeration<'a, V> {
    harmonium: &'a Harmonium<V>,
    /// `W^T` (S x M).
    fields: DMatrix<f64>,
}

impl<'a, V: VisibleUnits> HarmoniumEnumeration<'a, V> {
    fn new(harmonium: &'a Harmonium<V>) -> Result<Self> {
        check_enumerable("hidden units", harmonium.hidden_units())?;
        Ok(Self {
            fields: harmonium.weights().transpose(),
            harmonium,
        })
    }

    /// Returns `a.h + log sum_v r(v) exp(h^T W s(v))` for each state of a chunk.
    fn log_masses(&self, chunk: usize) -> Vec<f64> {
        let (harmonium, bits) = (self.harmonium, self.fields.ncols().min(CHUNK_BITS));
        let first = chunk << bits;
        let hidden = units_of(first, self.fields.ncols());
        let mut field = harmonium.field(&hidden);
        let mut bias = masked_sum_of(harmonium.hidden_bias().as_slice(), &hidden);
        let mut log_masses = vec![0.0; 1 << bits];
        for (state, flipped) in gray_order(first, 0, bits) {
            if let Some((unit, sign)) = flipped {
                field.axpy(sign, &self.fields.column(unit), 1.0);
                bias += sign * harmonium.hidden_bias()[unit];
            }
            log_masses[state - first] = bias + harmonium.visible().tilted(&field).log_normalizer();
        }
        log_masses
    }

    /// Applies `visit` to the log masses of each task's states, and returns the results in the order of the states.
    fn map<A: Send>(
        &self,
        visit: impl Fn(&mut dyn Iterator<Item = f64>) -> A + Send + Sync,
    ) -> Vec<A> {
        map_chunks(chunks_of(self.fields.ncols()), |_, chunks| {
            visit(&mut chunks.flat_map(|chunk| self.log_masses(chunk)))
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

impl<V: VisibleUnits> Harmonium<V> {
    /// Returns the exact `log Z` by enumeration of the hidden units, with the same bits for any number of threads.
    ///
    /// # Errors
    /// If there are more than [`MAX_ENUMERATED_UNITS`](crate::rbm::MAX_ENUMERATED_UNITS) hidden units, or `log Z` overflows.
    pub fn exact_log_normalizer(&self) -> Result<f64> {
        HarmoniumEnumeration::new(self)?.log_normalizer()
    }
}

/// A harmonium with enumerated hidden units, which is normalised and sampled exactly. It stores a cumulative
/// probability per hidden state: 8 MiB for 20 hidden units, 256 MiB for 25.
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
/// let mut rng = stream(1, Purpose::DATA, 0);
/// assert_eq!(exact.sample(&mut rng).len(), 1);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct EnumeratedHarmonium<V> {
    harmonium: Harmonium<V>,
    log_normalizer: f64,
    cumulative: Cumulative,
}

impl<V: VisibleUnits> EnumeratedHarmonium<V> {
    /// Creates the model by enumeration of the hidden units.
    ///
    /// # Errors
    /// Same as [`Harmonium::exact_log_normalizer`].
    pub fn new(harmonium: Harmonium<V>) -> Result<Self> {
        let enumeration = HarmoniumEnumeration::new(&harmonium)?;
        let log_normalizer = enumeration.log_normalizer()?;
        let probabilities = enumeration.map(|log_masses| {
            Vec::from_iter(log_masses.map(|log_mass| (log_mass - log_normalizer).exp()))
        });
        Ok(Self {
            harmonium,
            log_normalizer,
            cumulative: Cumulative::of(probabilities.concat()),
        })
    }

    /// Returns the harmonium.
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
        let hidden = units_of(self.cumulative.draw(rng), self.harmonium.hidden_units());
        self.harmonium.visible_given(&hidden).sample(rng)
    }
}
