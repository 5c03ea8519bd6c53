//! The components of a mixture base, and their weights along a path.

use nalgebra::{DMatrix, DVector, DVectorView};
use rand::Rng;

use crate::num::{log_sum_exp, sigmoid, softplus};
use crate::random::draw_index;
use crate::rbm::Scalar;
use crate::rbm::model::{largest_sum, masked_sum_of};
use crate::{Error, Result};

/// The C components of a mixture of products of Bernoullis, with shares `pi_c` and logits `theta_c`.
///
/// The log density of a component is `x_c = theta_c.v - sum_i log(1 + e^(theta_ci))`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Components<T: Scalar> {
    pub(crate) shares: Vec<f64>,
    /// `theta` (D x C), one column per component.
    pub(crate) logits: DMatrix<T>,
    /// `-sum_i log(1 + e^(theta_ci))` (C).
    pub(crate) offsets: Vec<f64>,
}

impl<T: Scalar> Components<T> {
    /// Creates components from `masses`, which need not sum to 1, and `logits` (D x C).
    pub(crate) fn new(masses: &[f64], logits: DMatrix<T>) -> Result<Self> {
        for &mass in masses {
            Error::check_positive("mass of a component", mass)?;
        }
        let total = masses.iter().sum();
        Error::check_positive("sum of the masses", total)?;
        Self::with_shares(masses.iter().map(|mass| mass / total).collect(), logits)
    }

    /// Creates components from `shares`, which sum to 1 up to rounding.
    pub(crate) fn with_shares(shares: Vec<f64>, logits: DMatrix<T>) -> Result<Self> {
        for &share in &shares {
            Error::check_positive("share of a component", share)?;
        }
        let offset = |logits: &[T]| -logits.iter().map(|x| softplus(x.as_())).sum::<f64>();
        let columns = logits.column_iter();
        let offsets = Vec::from_iter(columns.map(|logits| offset(logits.as_slice())));
        Error::check_finite("log densities of the components", offsets.iter().copied())?;
        Ok(Self {
            shares,
            logits,
            offsets,
        })
    }

    /// Returns `log sum_c pi_c exp(x_c)`.
    pub(crate) fn log_density(&self, visible: &[bool]) -> f64 {
        let densities = self.log_densities(visible);
        log_sum_exp(densities.zip(&self.shares).map(|(x, share)| x + share.ln()))
    }

    /// Returns `x_c` of each component.
    fn log_densities(&self, visible: &[bool]) -> impl Iterator<Item = f64> + Clone {
        let components = self.offsets.iter().zip(self.logits.column_iter());
        components.map(|(offset, logits)| offset + masked_sum_of(logits.as_slice(), visible))
    }

    /// Draws a component, and returns its logits (D).
    pub(crate) fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        self.logits_of(draw_index(self.shares.iter().copied(), 1.0, rng))
    }

    fn logits_of(&self, component: usize) -> DVector<f64> {
        self.logits.column(component).map(T::as_)
    }

    /// Returns the logits of the mean probabilities of the visible units (D).
    pub(crate) fn mean_logits(&self) -> DVector<T> {
        let shares = &self.shares;
        let mean = |probabilities: DMatrix<f64>| {
            // A mean that underflows is raised to the least positive number.
            let mean = probabilities * DVector::from_column_slice(shares);
            mean.map(|p| p.max(f64::MIN_POSITIVE))
        };
        // Both means are computed, because 1 - on would lose the digits of a mean that is near 1.
        let on = mean(self.logits.map(|x| sigmoid(x.as_())));
        let off = mean(self.logits.map(|x| sigmoid(-x.as_())));
        on.zip_map(&off, |on, off| T::nearest((on / off).ln()))
    }

    pub(crate) fn largest_sum(&self) -> f64 {
        let sums = self.logits.column_iter().map(|logits| largest_sum(logits));
        sums.fold(0.0, f64::max)
    }
}

/// Log weights `w_c(t)` of C components at position t, from 0 to 1, of a path's first segment. They are linear between
/// equally spaced positions. The sum of `exp(w_c)` is 1 at both ends, and `w_c(0) = log pi_c`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub(crate) struct ComponentWeights(Vec<Vec<f64>>);

/// A base that is part of a mixture, with its share and the [depths](ComponentWeights::balanced) of its own path.
pub(crate) struct Part<'a, T: Scalar> {
    pub(crate) share: f64,
    /// Share and logits of each component of the base.
    pub(crate) components: Vec<(f64, DVectorView<'a, T>)>,
    pub(crate) depths: &'a [f64],
}

impl ComponentWeights {
    /// Creates the weights of the geometric path, `w_c(t) = (1 - t) log pi_c - t log C`.
    pub(crate) fn geometric(shares: &[f64]) -> Self {
        let last = -(shares.len() as f64).ln();
        let first = shares.iter().map(|share| share.ln());
        Self(vec![first.collect(), vec![last; shares.len()]])
    }

    /// Creates weights with which each part g of a mixture keeps its share `s_g` of Z(t) all along the path:
    /// `w_c(t) = log sum_g s_g exp(w_gc(t) + d_g(t))`. `w_gc` are the weights of the part's own geometric path, and
    /// `d_g(t)` is the depth of this path's `log Z(t)` below its chord from t = 0 to 1, at equally spaced positions.
    pub(crate) fn balanced<T: Scalar>(whole: &Components<T>, parts: &[Part<'_, T>]) -> Self {
        let total: f64 = parts.iter().map(|part| part.share).sum();
        let points = parts[0].depths.len();
        let mut weights = vec![vec![f64::NEG_INFINITY; whole.shares.len()]; points];
        for part in parts {
            let (mut shares, mut places) = (Vec::new(), Vec::new());
            for (share, logits) in &part.components {
                shares.push(*share);
                places.push(whole.logits.column_iter().position(|one| one == *logits));
            }
            let (own, log_share) = (Self::geometric(&shares), (part.share / total).ln());
            for (p, (weights, depth)) in weights.iter_mut().zip(part.depths).enumerate() {
                let own = own.at(p as f64 / (points - 1) as f64);
                for (place, own) in places.iter().zip(own) {
                    let weight = &mut weights[place.expect("the whole has all components")];
                    // Two parts may have a component in common: a mixture joins equal ones.
                    *weight = log_sum_exp([*weight, log_share + own + depth]);
                }
            }
        }
        Self(weights)
    }

    /// Returns true if the weights are finite, and given for `components` components at two or more positions.
    #[cfg(any(test, feature = "serde"))]
    pub(crate) fn fit(&self, components: usize) -> bool {
        let is_whole = |weights: &Vec<f64>| {
            weights.len() == components && weights.iter().all(|weight| weight.is_finite())
        };
        self.0.len() > 1 && self.0.iter().all(is_whole)
    }

    /// Returns `w_c(t)` of each component.
    pub(crate) fn at(&self, t: f64) -> impl ExactSizeIterator<Item = f64> + Clone {
        let (before, after, rest) = self.around(t);
        let weights = before.iter().zip(after);
        weights.map(move |(a, b)| (1.0 - rest) * a + rest * b)
    }

    /// Returns the right derivative of `w_c` at t, for each component.
    fn slopes(&self, t: f64) -> impl Iterator<Item = f64> {
        let (before, after, _) = self.around(t);
        let intervals = (self.0.len() - 1) as f64;
        before
            .iter()
            .zip(after)
            .map(move |(a, b)| intervals * (b - a))
    }

    /// Returns `w_c(to) - w_c(from)`, without cancellation if the weights are linear between the two.
    fn gains(&self, from: f64, to: f64) -> Vec<f64> {
        let [start, end] = [from, to].map(|t| self.around(t).0);
        match std::ptr::eq(start, end) {
            true => Vec::from_iter(self.slopes(from).map(|slope| (to - from) * slope)),
            false => Vec::from_iter(self.at(to).zip(self.at(from)).map(|(b, a)| b - a)),
        }
    }

    /// Returns the weights at the positions before and after t, and the place of t between them, from 0 to 1.
    fn around(&self, t: f64) -> (&[f64], &[f64], f64) {
        let place = t * (self.0.len() - 1) as f64;
        let before = (place as usize).min(self.0.len() - 2);
        (&self.0[before], &self.0[before + 1], place - before as f64)
    }
}

/// Log terms `a_c(t) = (1 - t) x_c + w_c(t)` of the components at one state, as functions of the position t.
pub(crate) struct Activations<'a, T: Scalar> {
    components: &'a Components<T>,
    weights: &'a ComponentWeights,
    log_densities: Vec<f64>,
}

impl<'a, T: Scalar> Activations<'a, T> {
    pub(crate) fn new(
        components: &'a Components<T>,
        weights: &'a ComponentWeights,
        visible: &[bool],
    ) -> Self {
        Self {
            components,
            weights,
            log_densities: components.log_densities(visible).collect(),
        }
    }

    fn at(&self, t: f64) -> impl ExactSizeIterator<Item = f64> + Clone {
        let densities = self.log_densities.iter().zip(self.weights.at(t));
        densities.map(move |(x, weight)| (1.0 - t) * x + weight)
    }

    /// Returns `log sum_c exp(a_c(t))`.
    pub(crate) fn log_sum(&self, t: f64) -> f64 {
        log_sum_exp(self.at(t))
    }

    /// Returns `log_sum(to) - log_sum(from)`.
    ///
    /// Let `g_c = a_c(to) - a_c(from)`, let `p_c` be the components' probabilities at `from`, and m any component. The
    /// result is `g_m + log(1 + sum_c p_c (exp(g_c - g_m) - 1))`, which loses no digits to cancellation in small steps.
    pub(crate) fn log_ratio(&self, from: f64, to: f64) -> f64 {
        let weights = self.weights.gains(from, to);
        let gains = weights.iter().zip(&self.log_densities);
        let gains = Vec::from_iter(gains.map(|(weight, x)| weight - (to - from) * x));
        // If the gains differ much, the formula may overflow or cancel. The plain difference does not overflow.
        let beyond = |gain: &f64| (gain - gains[0]).abs() > 1.0;
        if gains.iter().any(beyond) {
            return self.log_sum(to) - self.log_sum(from);
        }
        let means = self.law(from).zip(&gains);
        let mean: f64 = means.map(|(p, gain)| p * (gain - gains[0]).exp_m1()).sum();
        gains[0] + mean.ln_1p()
    }

    /// Returns the derivative of [`log_sum`](Self::log_sum) at t: the mean of `w_c' - x_c` under the probabilities of
    /// the components.
    pub(crate) fn derivative(&self, t: f64) -> f64 {
        let slopes = self.weights.slopes(t).zip(&self.log_densities);
        let law = self.law(t);
        law.zip(slopes).map(|(p, (slope, x))| p * (slope - x)).sum()
    }

    /// Draws a component, and returns its logits (D).
    pub(crate) fn draw<R: Rng + ?Sized>(&self, t: f64, rng: &mut R) -> DVector<f64> {
        self.components.logits_of(draw_index(self.law(t), 1.0, rng))
    }

    /// Returns the probabilities of the components, proportional to `exp(a_c(t))`.
    fn law(&self, t: f64) -> impl ExactSizeIterator<Item = f64> {
        let log_sum = self.log_sum(t);
        self.at(t).map(move |a| (a - log_sum).exp())
    }
}

#[cfg(test)]
mod tests {
    use crate::ais::Ais;
    use crate::estimate::LogZ;
    use crate::model::UnnormalizedModel;
    use crate::path::{BetaDerivative, Intermediate};
    use crate::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath};
    use crate::schedule::Schedule;

    use super::*;

    const POINTS: usize = 9;

    fn target() -> Rbm<f64> {
        let weights = DMatrix::from_fn(3, 5, |j, i| 2.0 * ((1 + i + 7 * j) as f64).sin());
        let hidden = DVector::from_vec(vec![0.3, -0.8, 0.5]);
        Rbm::new(weights, hidden, DVector::from_element(5, -0.4)).unwrap()
    }

    fn bases() -> [BaseRate<f64>; 2] {
        let product = |rates: [f64; 5]| BaseRate::from_rates(3, &DVector::from(rates.to_vec()));
        let near = product([0.9, 0.8, 0.1, 0.1, 0.7]).unwrap();
        let far = product([0.2, 0.1, 0.9, 0.8, 0.3]).unwrap();
        let two = BaseRate::mixture([(0.7, near.clone()), (0.3, far)]).unwrap();
        [near, two]
    }

    fn states() -> impl Iterator<Item = Vec<bool>> {
        (0..32).map(|state| Vec::from_iter((0..5).map(|i| state >> i & 1 == 1)))
    }

    /// Returns log Z of the model at each of [`POINTS`] betas, by a sum over all states.
    fn log_z_along(path: &RbmPath<f64>) -> Vec<f64> {
        let betas = (0..POINTS).map(|p| p as f64 / (POINTS - 1) as f64);
        let log_z = |beta| log_sum_exp(states().map(|state| path.at(beta).log_density(&state)));
        betas.map(log_z).collect()
    }

    fn balanced() -> RbmPath<f64> {
        let bases = bases();
        let depths = bases.clone().map(|base| {
            let log_z = log_z_along(&RbmPath::new(base, target()).unwrap());
            let last = log_z.len() - 1;
            let chord = |p: usize| log_z[0] + (log_z[last] - log_z[0]) * p as f64 / last as f64;
            Vec::from_iter((0..=last).map(|p| chord(p) - log_z[p]))
        });
        let shares = [0.2, 0.8];
        let whole = BaseRate::mixture(shares.into_iter().zip(bases.clone())).unwrap();
        let parts = [0, 1].map(|g| Part {
            share: shares[g],
            components: bases[g].components().collect(),
            depths: &depths[g],
        });
        let weights = ComponentWeights::balanced(whole.as_mixture().unwrap(), &parts);
        assert!(weights.fit(2) && !weights.fit(3));
        let path = RbmPath::new(whole, target()).unwrap();
        path.weighted(Some(weights))
    }

    /// Each part keeps its share of Z, so log Z is linear in beta. The path starts at the base and ends at the target.
    #[test]
    fn parts_keep_their_shares_along_the_path() {
        let path = balanced();
        let log_z = log_z_along(&path);
        let last = target().exact_log_normalizer().unwrap();
        for (p, log_z) in log_z.iter().enumerate() {
            let t = p as f64 / (POINTS - 1) as f64;
            let chord = (1.0 - t) * 3.0 * std::f64::consts::LN_2 + t * last;
            assert!((log_z - chord).abs() < 1e-12, "{t}: {log_z}, {chord}");
        }
        for state in states() {
            let base = path.base().log_density(&state);
            let target = path.target().log_density(&state);
            for (beta, end) in [(0.0, base), (1.0, target)] {
                assert!((path.at(beta).log_density(&state) - end).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn ratios_and_derivatives_are_those_of_the_densities() {
        let path = balanced();
        for state in states() {
            for (from, to) in [(0.0, 1.0), (0.3, 0.31), (0.7, 0.2)] {
                let (from, to) = (path.at(from), path.at(to));
                let difference = to.log_density(&state) - from.log_density(&state);
                assert!((to.log_ratio(&from, &state) - difference).abs() < 1e-12);
            }
            let at = |beta: f64| path.at(beta).log_density(&state);
            let slope = (at(0.45 + 1e-6) - at(0.45 - 1e-6)) / 2e-6;
            assert!((path.at(0.45).beta_derivative(&state) - slope).abs() < 1e-6);
        }
    }

    #[test]
    fn the_estimate_is_unbiased_with_few_stages() {
        let (path, exact) = (balanced(), target().exact_log_normalizer().unwrap());
        let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(3).unwrap());
        let run = ais.chains(20_000).seed(1).run().unwrap();
        let (error, se) = (run.log_z() - exact, run.standard_error());
        assert!(error.abs() < 4.0 * se && se < 0.02, "{error} +- {se}");
    }
}
