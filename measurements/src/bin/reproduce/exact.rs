//! Exact samples along a path to an RBM with few hidden units.

use std::thread;

use annealed::Result;
use annealed::nalgebra::DVector;
use annealed::rbm::{Rbm, RbmPath};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Segments of the path, at whose ends the densities of all hidden states are known. A multiple of a spline's ten.
const SEGMENTS: usize = 30;

/// Draws from the laws along a path. Of the hidden units' states h, `log f_beta(h)` is a sum of softplus functions of
/// numbers that are affine in beta, so it is convex in beta. A line between its values at two knots is above it. States are
/// drawn along the line, and accepted with `f_beta(h)` over the line's value.
pub struct ExactSampler<'p> {
    path: &'p RbmPath,
    /// At each end of a segment the logarithms for all states, or nothing before they are needed. Bit i of a state is
    /// hidden unit i.
    ends: Vec<Vec<f64>>,
    rng: Xoshiro256PlusPlus,
}

impl<'p> ExactSampler<'p> {
    pub fn new(path: &'p RbmPath, seed: u64) -> Self {
        Self {
            path,
            ends: vec![Vec::new(); SEGMENTS + 1],
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    pub fn path(&self) -> &'p RbmPath {
        self.path
    }

    /// Returns independent states of the visible units.
    pub fn samples(&mut self, beta: f64, count: usize) -> Result<Vec<Vec<bool>>> {
        Ok(self.pairs(beta, count)?.1)
    }

    /// Returns independent states of both layers: of the hidden units as the bits of a number, and of the visible units.
    pub fn pairs(&mut self, beta: f64, count: usize) -> Result<(Vec<usize>, Vec<Vec<bool>>)> {
        let along = beta * SEGMENTS as f64;
        let segment = (along as usize).min(SEGMENTS - 1);
        for end in [segment, segment + 1] {
            if self.ends[end].is_empty() {
                self.ends[end] = log_densities_at(self.path, end)?;
            }
        }
        let t = along - segment as f64;
        let ends = self.ends[segment].iter().zip(&self.ends[segment + 1]);
        let line: Vec<f64> = ends.map(|(from, to)| (1.0 - t) * from + t * to).collect();
        let largest = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        let weights = line.iter().map(|log_f| (log_f - largest).exp());
        let sums = weights.map(|weight| {
            total += weight;
            total
        });
        let sums: Vec<f64> = sums.collect();
        let law = Law::of(&self.path.at(beta).to_rbm()?);
        let draw = |_| loop {
            let level = total * self.rng.random::<f64>();
            let state = sums.partition_point(|sum| *sum <= level);
            let inputs = law.inputs(state);
            let below = law.log_density(state, &inputs) - line[state];
            if self.rng.random::<f64>() < below.exp() {
                let mut on = |x: &f64| self.rng.random::<f64>() < 1.0 / (1.0 + (-x).exp());
                break (state, inputs.iter().map(&mut on).collect());
            }
        };
        Ok((0..count).map(draw).unzip())
    }
}

/// Parameters of a machine.
pub struct Law {
    visible_bias: Vec<f64>,
    hidden_bias: Vec<f64>,
    /// The weights of each hidden unit.
    weights: Vec<Vec<f64>>,
}

impl Law {
    pub fn of(rbm: &Rbm<f64>) -> Self {
        let numbers = |numbers: &DVector<f64>| numbers.iter().copied().collect();
        let rows = rbm.weights().row_iter();
        Self {
            visible_bias: numbers(rbm.visible_bias()),
            hidden_bias: numbers(rbm.hidden_bias()),
            weights: rows.map(|row| row.iter().copied().collect()).collect(),
        }
    }

    /// Returns the inputs of the visible units, given a state of the hidden units.
    fn inputs(&self, state: usize) -> Vec<f64> {
        let mut inputs = self.visible_bias.clone();
        for (i, row) in self.weights.iter().enumerate() {
            if state >> i & 1 == 1 {
                let weights = inputs.iter_mut().zip(row);
                weights.for_each(|(input, weight)| *input += weight);
            }
        }
        inputs
    }

    fn log_density(&self, state: usize, inputs: &[f64]) -> f64 {
        self.bias_of(state) + sum_of_softplus(inputs)
    }

    fn bias_of(&self, state: usize) -> f64 {
        let biases = self.hidden_bias.iter().enumerate();
        let on = biases.filter(|(i, _)| state >> i & 1 == 1);
        on.map(|(_, bias)| bias).sum()
    }

    /// Returns the logarithm of the density of a state of both layers.
    pub fn log_joint(&self, state: usize, visible: &[bool]) -> f64 {
        let inputs = self.inputs(state);
        let on = inputs.iter().zip(visible).filter(|(_, on)| **on);
        self.bias_of(state) + on.map(|(input, _)| input).sum::<f64>()
    }
}

/// Added to the logarithms at the ends of segments, beyond their error.
const MARGIN: f64 = 1e-4;

/// Returns `log f(h)` at an end of segments for all states of the hidden units, rounded up.
fn log_densities_at(path: &RbmPath, end: usize) -> Result<Vec<f64>> {
    let beta = end as f64 / SEGMENTS as f64;
    let law = &Law::of(&path.at(beta).to_rbm()?);
    let mut all = vec![0.0; 1 << law.hidden_bias.len()];
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let size = all.len() / (1 << threads.ilog2()).min(all.len());
    thread::scope(|scope| {
        for (part, found) in all.chunks_mut(size).enumerate() {
            scope.spawn(move || law.log_densities(part * size, found));
        }
    });
    Ok(all)
}

impl Law {
    /// Writes `log f(h)` of states from `first` on, whose number is a power of 2. Successive states of a Gray code differ
    /// in one unit, whose weights are added or subtracted.
    fn log_densities(&self, first: usize, found: &mut [f64]) {
        let mut state = first;
        let mut inputs = self.inputs(state);
        let mut bias = self.bias_of(state);
        for i in 0..found.len() {
            if i > 0 {
                let unit = i.trailing_zeros() as usize;
                state ^= 1 << unit;
                let sign = if state >> unit & 1 == 1 { 1.0 } else { -1.0 };
                bias += sign * self.hidden_bias[unit];
                let weights = inputs.iter_mut().zip(&self.weights[unit]);
                weights.for_each(|(input, weight)| *input += sign * weight);
            }
            found[state - first] = bias + fast_sum_of_softplus(&inputs) + MARGIN;
        }
    }
}

/// Lanes of sums and products, which compilers turn into vectors.
const LANES: usize = 16;

/// Returns `sum_j log(1 + exp(x_j))` in single precision, for less than 1,000 numbers. The error is below 1e-5.
fn fast_sum_of_softplus(inputs: &[f64]) -> f64 {
    let (mut positive, mut products) = ([0.0_f64; LANES], [1.0_f32; LANES]);
    for part in inputs.chunks(LANES) {
        for ((x, sum), product) in part.iter().zip(&mut positive).zip(&mut products) {
            *sum += x.max(0.0);
            *product *= 1.0 + fast_exp(-x.abs() as f32);
        }
    }
    let product: f64 = products.iter().map(|&x| f64::from(x)).product();
    positive.iter().sum::<f64>() + product.ln()
}

/// Returns `exp(x)` of a number that is not positive.
#[inline]
fn fast_exp(x: f32) -> f32 {
    let binary = (x * std::f32::consts::LOG2_E).max(-100.0);
    let whole = (binary - 0.5) as i32;
    let r = (binary - whole as f32) * std::f32::consts::LN_2;
    let series = 1.0
        + r * (1.0
            + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r / 720.0)))));
    f32::from_bits(((whole + 127) as u32) << 23) * series
}

/// Returns `sum_j log(1 + exp(x_j))`. Each factor of a product is between 1 and 2, and 1,000 of them do not overflow.
fn sum_of_softplus(inputs: &[f64]) -> f64 {
    let of_part = |part: &[f64]| {
        let positive: f64 = part.iter().map(|x| x.max(0.0)).sum();
        let product: f64 = part.iter().map(|x| 1.0 + (-x.abs()).exp()).product();
        positive + product.ln()
    };
    inputs.chunks(1_000).map(of_part).sum()
}

#[cfg(test)]
mod tests {
    use annealed::model::UnnormalizedModel;
    use annealed::nalgebra::{DMatrix, DVector};
    use annealed::rbm::{BaseRate, Rbm};

    use super::*;

    fn path() -> RbmPath {
        let weights = DMatrix::from_fn(3, 4, |i, j| (i as f32 - 1.0) * 2.0 + j as f32 * 0.7 - 1.0);
        let target = Rbm::new(
            weights,
            DVector::from_vec(vec![0.5, -1.0, 2.0]),
            DVector::from_vec(vec![-1.0, 0.3, 0.8, -2.0]),
        );
        let base = BaseRate::new(3, DVector::from_vec(vec![0.4, -0.6, 1.0, 0.0])).unwrap();
        RbmPath::new(base, target.unwrap()).unwrap().exact_weights()
    }

    #[test]
    fn fast_sums_are_close() {
        let inputs = Vec::from_iter((0..999).map(|i| (f64::from(i * 37 % 997) - 500.0) / 20.0));
        let exact: f64 = inputs.iter().map(|x| x.exp().ln_1p()).sum();
        assert!((fast_sum_of_softplus(&inputs) - exact).abs() < 1e-5 * (1.0 + 1e-2 * exact));
        for (x, y) in [
            (0.0, 1.0),
            (-0.3, (-0.3_f64).exp()),
            (-30.0, (-30.0_f64).exp()),
        ] {
            assert!((f64::from(fast_exp(x)) / y - 1.0).abs() < 5e-6);
        }
    }

    #[test]
    fn densities_of_all_states_are_found_and_rounded_up() {
        let path = path();
        let law = Law::of(&path.at(0.5).to_rbm().unwrap());
        let found = log_densities_at(&path, SEGMENTS / 2).unwrap();
        for (state, found) in found.iter().enumerate() {
            let above = found - law.log_density(state, &law.inputs(state));
            assert!(above > 0.0 && above < 2.0 * MARGIN, "{state}: {above}");
        }
    }

    #[test]
    fn joint_densities_add_up_to_the_density_of_the_visible_units() {
        let path = path();
        for beta in [0.0, 0.37, 1.0] {
            let law = Law::of(&path.at(beta).to_rbm().unwrap());
            for bits in 0..16 {
                let visible = Vec::from_iter((0..4).map(|j| bits >> j & 1 == 1));
                let joint = (0..8).map(|state| law.log_joint(state, &visible).exp());
                let expected = path.at(beta).log_density(&visible);
                assert!((joint.sum::<f64>().ln() - expected).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn frequencies_are_the_probabilities() {
        let path = path();
        let mut sampler = ExactSampler::new(&path, 1);
        for beta in [0.0, 0.013, 0.37, 0.82, 1.0] {
            let states = (0..16).map(|bits| Vec::from_iter((0..4).map(|j| bits >> j & 1 == 1)));
            let states: Vec<Vec<bool>> = states.collect();
            let log_f = states.iter().map(|v| path.at(beta).log_density(v));
            let densities: Vec<f64> = log_f.map(f64::exp).collect();
            let z: f64 = densities.iter().sum();
            let samples = sampler.samples(beta, 100_000).unwrap();
            for (state, density) in states.iter().zip(densities) {
                let p = density / z;
                let found = samples.iter().filter(|v| *v == state).count() as f64 / 1e5;
                let error = (p * (1.0 - p) / 1e5).sqrt();
                assert!(
                    (found - p).abs() < 4.0 * error + 1e-9,
                    "{beta}: {found}, {p}"
                );
            }
        }
    }
}
