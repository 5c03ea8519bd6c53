//! A categorical unit beside the hidden ones: the component of a mixture that a chain belongs to.

use crate::num::{Simd, vectorized};
use crate::random::{LANES, Lanes};
use crate::rbm::Scalar;
use crate::rbm::components::{ComponentWeights, Components};
use crate::rbm::engine::elementwise::exp_nonpositive;
use crate::rbm::engine::layers::{Row, WIDTH, Words};
use crate::rbm::engine::panels::{ActiveUnits, Panels, WeightMatrix};

/// The C components of a mixture, with log densities `x_c = theta_c.v - sum_i log(1 + e^(theta_ci))`. The density at
/// position t (0 to 1) of a path's segment has the factor `sum_c exp(a_c(t))`, with `a_c(t) = (1 - t) x_c + w_c(t)`.
#[derive(Debug, Clone)]
pub(crate) struct Categorical<T> {
    /// The logits `theta`, in the form for products with visible units.
    up: Panels<Row<T>>,
    /// The logits `theta` again: for each panel of visible units, one row per component.
    logits: Vec<Row<T>>,
    offsets: Vec<f64>,
    pub(crate) weights: ComponentWeights,
}

/// The categorical units of a block of chains.
#[derive(Debug, Clone, Default)]
pub(crate) struct CategoricalBuffers<T> {
    words: Words,
    products: Vec<Row<T>>,
    /// Log densities by component, for each group of [`LANES`] chains.
    log_densities: Vec<[f64; LANES]>,
    /// Cumulative sums of the components' probabilities, up to a factor, for one group of chains.
    sums: Vec<[f64; LANES]>,
    /// Log weights `w_c` of the components at both ends of a stage.
    weights: (Vec<f64>, Vec<f64>),
    /// Component of each chain.
    chosen: Vec<[u32; LANES]>,
    /// For each chain, the log ratio of the factor `sum_c exp(a_c)` between the two ends of a stage.
    log_ratios: Vec<[f64; LANES]>,
    /// Biases of one panel of visible units, for each component.
    biases: Vec<Row<T>>,
}

impl<T: Scalar> Categorical<T> {
    /// Creates the unit from the components of a mixture, with their weights on the geometric path.
    pub(crate) fn new(components: &Components<T>) -> Self {
        let (visible, count) = components.logits.shape();
        let mut logits = vec![Row::zero(); visible.div_ceil(WIDTH) * count];
        for (c, theta) in components.logits.column_iter().enumerate() {
            let places = logits[c..].iter_mut().step_by(count);
            for (place, row) in places.zip(Row::panels(theta.as_slice())) {
                *place = row;
            }
        }
        Self {
            up: Panels::new(WeightMatrix::Transposed(&components.logits)),
            logits,
            offsets: components.offsets.clone(),
            weights: ComponentWeights::geometric(&components.shares),
        }
    }

    /// Sets the chains' log ratios for a stage from position `t.0` to `t.1`, and draws each chain's component at `t.1`.
    pub(crate) fn weigh_and_draw(
        &self,
        engine: Simd,
        t: (f64, f64),
        visible: &ActiveUnits,
        lanes: &mut Lanes,
        buffers: &mut CategoricalBuffers<T>,
    ) {
        self.find_log_densities(engine, visible, buffers);
        let (chains, components) = (visible.chains(), self.offsets.len());
        let (before, after) = &mut buffers.weights;
        for (weights, t) in [(&mut *before, t.0), (&mut *after, t.1)] {
            weights.clear();
            weights.extend(self.weights.at(t));
        }
        let groups = chains.div_ceil(LANES);
        buffers.sums.resize(components, [0.0; LANES]);
        buffers.chosen.resize(groups, [0; LANES]);
        buffers.log_ratios.resize(groups, [0.0; LANES]);
        // A chain needs one uniform, so the words of one panel of units serve `WIDTH` chains.
        let words = buffers
            .words
            .draw::<T>(engine, lanes, chains.div_ceil(WIDTH));
        let words = words.flat_map(|words| words.chunks_exact(T::WORDS));
        let groups = buffers.log_densities.chunks_exact(components).zip(words);
        let results = buffers.chosen.iter_mut().zip(&mut buffers.log_ratios);
        let (ends, sums) = ((&before[..], &after[..]), &mut buffers.sums);
        vectorized!(engine, FUSED, {
            for ((log_densities, words), (chosen, log_ratios)) in groups.zip(results) {
                let (high, low) = (&words[0], &words[T::WORDS - 1]);
                let uniforms = std::array::from_fn(|l| T::uniform::<FUSED>(high[l], low[l]));
                *chosen = draw::<T, FUSED>(log_densities, t, ends, &uniforms, sums, log_ratios);
            }
        });
    }

    fn find_log_densities(
        &self,
        engine: Simd,
        visible: &ActiveUnits,
        buffers: &mut CategoricalBuffers<T>,
    ) {
        let (chains, components) = (visible.chains(), self.offsets.len());
        buffers.products.resize(chains, Row::zero());
        buffers.log_densities.clear();
        let padded = chains.div_ceil(LANES) * components;
        buffers.log_densities.resize(padded, [0.0; LANES]);
        for (panel, offsets) in self.offsets.chunks(WIDTH).enumerate() {
            self.up
                .multiply(engine, panel, visible, &mut buffers.products);
            for (chain, product) in buffers.products.iter().enumerate() {
                let first = chain / LANES * components + panel * WIDTH;
                let log_densities = &mut buffers.log_densities[first..][..offsets.len()];
                let sums = offsets.iter().zip(product.0.as_flattened());
                for (log_densities, (offset, product)) in log_densities.iter_mut().zip(sums) {
                    log_densities[chain % LANES] = offset + product.as_();
                }
            }
        }
    }
}

impl<T: Scalar> CategoricalBuffers<T> {
    pub(crate) fn log_ratios(&self) -> &[f64] {
        self.log_ratios.as_flattened()
    }

    /// Returns the biases `bias + (1 - t) theta_c` of a panel of visible units at position t, all in units of ln 2, and
    /// the component of each chain.
    pub(crate) fn biases(
        &mut self,
        engine: Simd,
        unit: &Categorical<T>,
        panel: usize,
        bias: &Row<T>,
        t: f64,
    ) -> (&[Row<T>], &[u32]) {
        let components = unit.offsets.len();
        let logits = &unit.logits[panel * components..][..components];
        let factor = T::nearest(std::f64::consts::LOG2_E * (1.0 - t));
        self.biases.resize(components, Row::zero());
        vectorized!(engine, FUSED, {
            for (biases, logits) in self.biases.iter_mut().zip(logits) {
                *biases = logits.times_plus::<FUSED>(factor, bias);
            }
        });
        (&self.biases, self.chosen.as_flattened())
    }
}

/// Draws a component c for [`LANES`] chains, in proportion to `exp(a_c(t_1))`, and sets the log ratios of a stage from
/// `t_0` to `t_1`. `weights` holds `w_c` at both positions.
#[inline(always)]
fn draw<T: Scalar, const FUSED: bool>(
    log_densities: &[[f64; LANES]],
    t: (f64, f64),
    weights: (&[f64], &[f64]),
    uniforms: &[T; LANES],
    sums: &mut [[f64; LANES]],
    log_ratios: &mut [f64; LANES],
) -> [u32; LANES] {
    let before = log_sum::<FUSED>(log_densities, t.0, weights.0, sums);
    let after = log_sum::<FUSED>(log_densities, t.1, weights.1, sums);
    let total = sums[sums.len() - 1];
    for l in 0..LANES {
        log_ratios[l] = after[l] - before[l];
    }
    // The number of cumulative sums below a uniform level is the index of the drawn component.
    let mut chosen = [0; LANES];
    for sums in &sums[..sums.len() - 1] {
        for l in 0..LANES {
            chosen[l] += u32::from(sums[l] < uniforms[l].as_() * total[l]);
        }
    }
    chosen
}

/// Returns `log sum_c exp(a_c(t))`, and writes the cumulative sums over the components, up to a factor, to `sums`.
#[inline(always)]
fn log_sum<const FUSED: bool>(
    log_densities: &[[f64; LANES]],
    t: f64,
    weights: &[f64],
    sums: &mut [[f64; LANES]],
) -> [f64; LANES] {
    let (mut largest, mut total) = ([f64::NEG_INFINITY; LANES], [0.0; LANES]);
    for ((x, weight), a) in log_densities.iter().zip(weights).zip(&mut *sums) {
        for l in 0..LANES {
            a[l] = (1.0 - t) * x[l] + weight;
            largest[l] = if a[l] > largest[l] { a[l] } else { largest[l] };
        }
    }
    for sums in sums {
        for l in 0..LANES {
            total[l] += exp_nonpositive::<f64, FUSED>(sums[l] - largest[l]);
        }
        *sums = total;
    }
    for l in 0..LANES {
        largest[l] += total[l].ln();
    }
    largest
}

#[cfg(test)]
mod tests {
    use crate::num::log_add_exp;

    use super::*;

    /// Tests steps up to the whole path, along which probability moves from one component to the other.
    #[test]
    fn ratios_and_draws_are_those_of_the_law() {
        let mut log_densities = [[0.0; LANES]; 2];
        let [first, second] = &mut log_densities;
        for (l, (first, second)) in (0..16_u8).map(f64::from).zip(first.iter_mut().zip(second)) {
            (*first, *second) = (-300.0 + l, -300.0 + 9.0 * l * l);
        }
        let weights = |t: f64| [-1.0 - 5.0 * t, -0.5 - 90.0 * t];
        for t in [
            (0.0, 0.04),
            (0.9, 0.901),
            (1.0, 0.5),
            (0.0, 1.0),
            (0.2, 0.2),
        ] {
            let (mut sums, mut ratios) = ([[0.0; LANES]; 2], [0.0; LANES]);
            let (before, after) = (weights(t.0), weights(t.1));
            let (uniforms, ends) = ([0.25; LANES], (&before[..], &after[..]));
            let chosen =
                draw::<f64, true>(&log_densities, t, ends, &uniforms, &mut sums, &mut ratios);
            for l in 0..LANES {
                let log_densities = log_densities.map(|x| x[l]);
                let at = |t: f64, c: usize| (1.0 - t) * log_densities[c] + weights(t)[c];
                let log_sum = |t: f64| log_add_exp(at(t, 0), at(t, 1));
                let exact = log_sum(t.1) - log_sum(t.0);
                assert!((ratios[l] - exact).abs() < 1e-12, "{t:?}, {l}");
                let first = 1.0 / (1.0 + (at(t.1, 1) - at(t.1, 0)).exp());
                assert_eq!(chosen[l], u32::from(first < 0.25), "{t:?}, {l}");
            }
        }
    }
}
