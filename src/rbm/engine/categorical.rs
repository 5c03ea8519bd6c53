//! A categorical unit beside the hidden ones: the component of a mixture that a chain belongs to.

use nalgebra::DMatrix;

use crate::num::{Simd, vectorized};
use crate::random::{LANES, Lanes};
use crate::rbm::Scalar;
use crate::rbm::engine::elementwise::{Positions, exp_nonpositive};
use crate::rbm::engine::layers::{Row, WIDTH, Words};
use crate::rbm::engine::panels::WeightMatrix;
use crate::rbm::engine::product::{Inputs, Weights};

/// The C components of a mixture, with logits `theta_c` and activations `x_c = lambda_c + theta_c.v`. At position t
/// of its segment a model has the factor `(1/C) sum_c exp((1 - t) x_c)`.
#[derive(Debug, Clone)]
pub(crate) struct Categorical<T> {
    engine: Simd,
    /// `theta`, in the form for products with visible units.
    up: Weights<T>,
    /// `theta`: for each panel of visible units, one row per component.
    logits: Vec<Row<T>>,
    /// `lambda`.
    offsets: Vec<f64>,
}

/// The categorical units of a block of chains.
#[derive(Debug, Clone, Default)]
pub(crate) struct CategoricalBuffers<T> {
    words: Words,
    products: Vec<Row<T>>,
    /// Activations by component, for each group of [`LANES`] chains.
    activations: Vec<[f64; LANES]>,
    /// Cumulative sums over the components, for one group of chains.
    sums: Vec<[T; LANES]>,
    /// Component of each chain.
    chosen: Vec<[u32; LANES]>,
    /// Log ratio of the factor, for each chain.
    log_ratios: Vec<[f64; LANES]>,
    /// Biases of one panel of visible units, for each component.
    biases: Vec<Row<T>>,
}

impl<T: Scalar> Categorical<T> {
    /// Creates the unit from `theta` (D x C) and `lambda` (C).
    pub(crate) fn new(engine: Simd, theta: &DMatrix<T>, lambda: &[f64]) -> Self {
        let (visible, components) = theta.shape();
        let mut logits = vec![Row::zero(); visible.div_ceil(WIDTH) * components];
        for (c, theta) in theta.column_iter().enumerate() {
            let places = logits[c..].iter_mut().step_by(components);
            for (place, row) in places.zip(Row::panels(theta.as_slice())) {
                *place = row;
            }
        }
        Self {
            engine,
            up: Weights::new(engine, WeightMatrix::Transposed(theta)),
            logits,
            offsets: lambda.to_vec(),
        }
    }

    /// Sets the log ratios of a stage and draws each chain's component at its end. `t` holds both positions.
    pub(crate) fn weigh_and_draw(
        &self,
        t: (f64, f64),
        visible: &mut Inputs<'_, T>,
        lanes: &mut Lanes,
        buffers: &mut CategoricalBuffers<T>,
    ) {
        self.activate(visible, buffers);
        let (chains, components) = (visible.chains(), self.offsets.len());
        let CategoricalBuffers {
            words,
            activations,
            sums,
            chosen,
            log_ratios,
            ..
        } = buffers;
        sums.resize(components, [T::zero(); LANES]);
        chosen.resize(chains.div_ceil(LANES), [0; LANES]);
        log_ratios.resize(chains.div_ceil(LANES), [0.0; LANES]);
        let words = words.draw::<T>(self.engine, lanes, chains.div_ceil(WIDTH));
        let words = words.flat_map(|words| words.chunks_exact(T::WORDS));
        let groups = activations.chunks_exact(components).zip(words);
        let results = chosen.iter_mut().zip(log_ratios);
        vectorized!(self.engine, FUSED, {
            for ((activations, words), (chosen, log_ratios)) in groups.zip(results) {
                let uniforms = T::uniforms(words);
                *chosen = draw::<T, FUSED>(activations, t, &uniforms, sums, log_ratios);
            }
        });
    }

    fn activate(&self, visible: &mut Inputs<'_, T>, buffers: &mut CategoricalBuffers<T>) {
        let (chains, components) = (visible.chains(), self.offsets.len());
        buffers.products.resize(chains, Row::zero());
        buffers.activations.clear();
        let padded = chains.div_ceil(LANES) * components;
        buffers.activations.resize(padded, [0.0; LANES]);
        for (panel, offsets) in self.offsets.chunks(WIDTH).enumerate() {
            self.up.multiply(panel, visible, &mut buffers.products);
            for (chain, product) in buffers.products.iter().enumerate() {
                let first = chain / LANES * components + panel * WIDTH;
                let activations = &mut buffers.activations[first..][..offsets.len()];
                let sums = offsets.iter().zip(product.0.as_flattened());
                for (activations, (lambda, product)) in activations.iter_mut().zip(sums) {
                    activations[chain % LANES] = lambda + product.as_();
                }
            }
        }
    }
}

impl<T: Scalar> CategoricalBuffers<T> {
    pub(crate) fn log_ratios(&self) -> &[f64] {
        self.log_ratios.as_flattened()
    }

    /// Returns the biases `bias + (1 - t) theta_c` of a panel of visible units at position t.
    pub(crate) fn biases(
        &mut self,
        unit: &Categorical<T>,
        panel: usize,
        bias: &Row<T>,
        t: f64,
    ) -> TiltedBiases<'_, T> {
        let components = unit.offsets.len();
        let logits = &unit.logits[panel * components..][..components];
        let factor = T::nearest(1.0 - t);
        self.biases.resize(components, Row::zero());
        vectorized!(unit.engine, FUSED, {
            for (biases, logits) in self.biases.iter_mut().zip(logits) {
                *biases = logits.times_plus::<FUSED>(factor, bias);
            }
        });
        TiltedBiases {
            rows: &self.biases,
            chosen: self.chosen.as_flattened(),
        }
    }
}

pub(crate) struct TiltedBiases<'a, T> {
    rows: &'a [Row<T>],
    chosen: &'a [u32],
}

impl<T> TiltedBiases<'_, T> {
    #[inline(always)]
    pub(crate) fn of(&self, chain: usize) -> &Row<T> {
        &self.rows[self.chosen[chain] as usize]
    }
}

/// Draws the components of [`LANES`] chains, c in proportion to `exp((1 - t_1) x_c)`, and sets the log ratios of a
/// stage from `t_0` to `t_1`.
///
/// A log ratio is `-(t_1 - t_0) m - log(1 + sum_c p_c (exp((t_1 - t_0) r_c) - 1))`. Here m is the largest `x_c`,
/// `r_c = x_c - m`, and p the law drawn from. The first term needs double precision.
#[inline(always)]
fn draw<T: Scalar, const FUSED: bool>(
    activations: &[[f64; LANES]],
    t: (f64, f64),
    uniforms: &[T; LANES],
    sums: &mut [[T; LANES]],
    log_ratios: &mut [f64; LANES],
) -> [u32; LANES] {
    let (to, step) = (T::nearest(1.0 - t.1), T::nearest(t.1 - t.0));
    let mut largest = [f64::NEG_INFINITY; LANES];
    for x in activations {
        for l in 0..LANES {
            largest[l] = if x[l] > largest[l] { x[l] } else { largest[l] };
        }
    }
    let (mut total, mut gain) = ([T::zero(); LANES], [T::zero(); LANES]);
    for (x, sums) in activations.iter().zip(&mut *sums) {
        for l in 0..LANES {
            let r = T::nearest(x[l] - largest[l]);
            let e = exp_nonpositive::<T, FUSED>(to * r);
            total[l] += e;
            // Near 0 the difference of exponentials cancels.
            let far = exp_nonpositive::<T, FUSED>((to + step) * r) - e;
            let near = e * exp_m1_series::<T, FUSED>(step * r);
            let is_far = (step * r).abs() > T::INCREMENT_RADIUS;
            gain[l] += if is_far { far } else { near };
        }
        *sums = total;
    }
    let scale = Positions::<T>::length_over_rounded(t.0, t.1);
    for l in 0..LANES {
        let gain: f64 = (gain[l] / total[l]).as_();
        log_ratios[l] = (t.0 - t.1) * largest[l] - scale * gain.ln_1p();
    }
    let mut chosen = [0; LANES];
    for sums in &sums[..activations.len() - 1] {
        for l in 0..LANES {
            chosen[l] += u32::from(sums[l] < uniforms[l] * total[l]);
        }
    }
    chosen
}

/// Returns five terms of the series of `e^x - 1`.
#[inline(always)]
fn exp_m1_series<T: Scalar, const FUSED: bool>(x: T) -> T {
    let mut sum = T::one();
    for k in [5.0, 4.0, 3.0, 2.0] {
        sum = (sum * x).multiply_add::<FUSED>(T::nearest(1.0 / k), T::one());
    }
    x * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_series<T: Scalar>(tolerance: f64) {
        let radius: f64 = T::INCREMENT_RADIUS.as_();
        for i in (-1_000..=1_000).filter(|i| *i != 0) {
            let x = T::nearest(radius * f64::from(i) / 1e3);
            let exact = x.as_().exp_m1();
            let found = exp_m1_series::<T, true>(x).as_();
            assert!((found / exact - 1.0).abs() < tolerance, "{i}: {found}");
        }
    }

    #[test]
    fn the_series_reaches_the_precision_of_its_numbers() {
        check_series::<f32>(2e-7);
        check_series::<f64>(5e-16);
    }

    #[test]
    fn ratios_and_draws_are_those_of_the_law() {
        let mut activations = [[0.0; LANES]; 2];
        let [first, second] = &mut activations;
        for (l, (first, second)) in (0..16_u8).map(f64::from).zip(first.iter_mut().zip(second)) {
            (*first, *second) = (-300.0 + l, -300.0 + l * l);
        }
        for t in [(0.0, 0.04), (0.9, 0.901), (1.0, 0.5), (0.2, 0.2)] {
            let (mut sums, mut ratios) = ([[0.0; LANES]; 2], [0.0; LANES]);
            let uniforms = [0.25; LANES];
            let chosen = draw::<f64, true>(&activations, t, &uniforms, &mut sums, &mut ratios);
            for l in 0..LANES {
                let [a, b] = activations.map(|x| x[l]);
                let log_sum = |p: f64| p * a + (p * (b - a)).exp().ln_1p();
                let exact = log_sum(1.0 - t.1) - log_sum(1.0 - t.0);
                assert!((ratios[l] - exact).abs() < 1e-12, "{t:?}, {l}");
                let first = 1.0 / (1.0 + ((1.0 - t.1) * (b - a)).exp());
                assert_eq!(chosen[l], u32::from(first < 0.25), "{t:?}, {l}");
            }
        }
    }
}
