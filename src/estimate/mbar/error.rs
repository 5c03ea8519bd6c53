//! Errors of log Z of many states, from the influence of each draw and from how draws depend.

use nalgebra::DMatrix;

use super::data::Dependence;
use super::mixture::StateMixture;
use crate::estimate::effective_draws::Correlation;

/// Least and largest number of batches of a series.
const BATCHES: (f64, f64) = (20.0, 50.0);
/// Least length of a batch in autocorrelation times.
const LONG: f64 = 10.0;

/// The covariance of the estimates of log Z.
#[derive(Debug, Clone)]
pub(super) struct Spread {
    pub(super) covariance: DMatrix<f64>,
    /// Degrees of freedom: the least number of batches of a series less 1.
    pub(super) freedom: f64,
    /// Independent unit of each draw: its batch, or itself.
    pub(super) units: Vec<usize>,
    /// Autocorrelation time of the draws of each state, or of replicas.
    pub(super) times: Vec<f64>,
    /// Whether the draws of each state, or of replicas, are correlated beyond chance.
    pub(super) is_clear: Vec<bool>,
}

/// Batches of successive draws.
#[derive(Debug)]
pub(super) struct Batches {
    /// Batch of each draw.
    pub(super) units: Vec<usize>,
    /// Factor on the square of the sum of each batch.
    factors: Vec<f64>,
    /// The least number of batches of a series less 1.
    freedom: f64,
}

/// The influence of draws on the estimates of log Z of all states.
#[derive(Debug)]
pub(super) struct Influence<'a> {
    pub(super) mixture: &'a StateMixture<'a>,
    /// Weighted sums P of the products of values, `sum_n w_n p_k p_l`.
    pub(super) products: DMatrix<f64>,
    /// The matrix that takes weighted sums of centred values to changes of the estimates.
    transform: DMatrix<f64>,
    /// Mean value of each state (row) over the draws of each state (column).
    pub(super) means: DMatrix<f64>,
}

impl<'a> Influence<'a> {
    /// Creates the influence from the inverse information `A^-`. The transform is `(P A^- + 1) / b`. For states with
    /// draws it is `A^-`, but for a constant.
    pub(super) fn new(mixture: &'a StateMixture<'a>, inverse: &DMatrix<f64>) -> Self {
        let (products, _) = mixture.sums(&mixture.weights.of_draw);
        let states = products.nrows();
        let inverse = inverse.clone().resize(states, states, 0.0);
        let mut transform = &products * inverse + DMatrix::identity(states, states);
        for (state, mut row) in transform.row_iter_mut().enumerate() {
            row /= mixture.weights.factor(state);
        }
        let counts = mixture.data.counts.iter();
        let shares = Vec::from_iter(counts.map(|count| 1.0 / *count as f64));
        Self {
            means: mixture.sums_by(&mixture.data.labels, &shares),
            mixture,
            products,
            transform,
        }
    }

    /// Returns the correlation of the draws of each state, by their influence on the difference of its log Z and log Z of
    /// another state, `others[state]`.
    pub(super) fn correlations(&self, others: &[usize]) -> Vec<Correlation> {
        let rows = &self.transform - self.transform.select_rows(others);
        let (mixture, mut series) = (self.mixture, vec![Vec::new(); others.len()]);
        mixture.for_chunks(0..mixture.data.labels.len(), &mut |draws, p, _| {
            for (at, &state) in mixture.data.labels[draws].iter().enumerate() {
                series[state].push(rows.row(state).dot(&p.row(at)));
            }
        });
        let series = series.into_iter();
        series.map(|values| Correlation::of(&[values])).collect()
    }

    /// Returns the covariance of all estimates, by the sandwich `A^- B A^-` with the covariance B of the weighted sums
    /// of values.
    pub(super) fn spread(&self) -> Spread {
        let (data, weights) = (self.mixture.data, &self.mixture.weights);
        let (times, is_clear) = (weights.times.clone(), weights.is_clear.clone());
        match &data.how {
            Dependence::Independent => Spread {
                covariance: self.covariance_of_independent(),
                freedom: f64::INFINITY,
                units: (0..data.labels.len()).collect(),
                times,
                is_clear,
            },
            Dependence::Chains => self.spread_of_batches(times, is_clear),
            Dependence::Replicas(at) => {
                let slowest = self.slowest(at);
                let (time, clear) = slowest.map_or((1.0, false), |it| (it.time, it.is_clear));
                self.spread_of_batches(vec![time; times.len()], vec![clear; times.len()])
            }
        }
    }

    /// Adds the squares of the influence of each draw. A sum of squares of values would lose the small differences of states
    /// beyond a gap, along which the transform is large.
    fn covariance_of_independent(&self) -> DMatrix<f64> {
        let (data, states) = (self.mixture.data, self.means.nrows());
        let n = data.counts.iter().map(|n| *n as f64);
        let factors = n.zip(&self.mixture.weights.of_draw);
        let factors = Vec::from_iter(factors.map(|(n, weight)| weight * (n / (n - 1.0)).sqrt()));
        let (all, mut covariance) = (0..data.labels.len(), DMatrix::zeros(states, states));
        self.mixture.for_chunks(all, &mut |draws, p, _| {
            let mut influences = p.transpose();
            for (mut column, &own) in influences.column_iter_mut().zip(&data.labels[draws]) {
                column -= self.means.column(own);
                column *= factors[own];
            }
            let influences = &self.transform * influences;
            covariance.gemm(1.0, &influences, &influences.transpose(), 1.0);
        });
        covariance
    }

    /// Returns the slowest correlation of sums over the draws of each time.
    fn slowest(&self, at: &[usize]) -> Option<Correlation> {
        let influences = self.of_groups(at);
        // The estimates are relative to the first one.
        let correlation = |row: usize| {
            let moved = influences.row(row) - influences.row(0);
            Correlation::of(&[moved.iter().copied().collect()])
        };
        let found = (1..influences.nrows()).map(correlation);
        found.max_by(|one, other| one.time.total_cmp(&other.time))
    }

    /// Returns batches of the draws of each state, or of all draws in the order of time, with these autocorrelation times.
    pub(super) fn batches(&self, times: &[f64]) -> Batches {
        let data = self.mixture.data;
        let mut series = vec![Vec::new(); data.counts.len()];
        let draws = data.labels.iter().enumerate();
        draws.for_each(|(draw, state)| series[*state].push(draw));
        let Dependence::Replicas(at) = &data.how else {
            return Batches::of(&series, times, data.labels.len());
        };
        let mut draws = series.concat();
        draws.sort_by_key(|draw| (at[*draw], *draw));
        let at_once = at.len() as f64 / at.iter().max().map_or(1.0, |last| *last as f64 + 1.0);
        Batches::of(&[draws], &[times[0] * at_once], at.len())
    }

    fn spread_of_batches(&self, times: Vec<f64>, is_clear: Vec<bool>) -> Spread {
        let batches = self.batches(&times);
        let mut influences = self.of_groups(&batches.units);
        batches.scale(&mut influences);
        Spread {
            covariance: &influences * influences.transpose(),
            freedom: batches.freedom,
            units: batches.units,
            times,
            is_clear,
        }
    }

    /// Returns the influence of the draws of each group (column) on each estimate (row).
    pub(super) fn of_groups(&self, groups: &[usize]) -> DMatrix<f64> {
        let (labels, weights) = (&self.mixture.data.labels, &self.mixture.weights.of_draw);
        let sums = self.mixture.sums_by(groups, weights);
        let mut expected = DMatrix::zeros(self.means.ncols(), sums.ncols());
        let draws = labels.iter().zip(groups);
        draws.for_each(|(state, group)| expected[(*state, *group)] += weights[*state]);
        &self.transform * (sums - &self.means * expected)
    }
}

impl Batches {
    /// Multiplies the influence of each batch (column) by the root of its factor.
    pub(super) fn scale(&self, influences: &mut DMatrix<f64>) {
        for (mut column, factor) in influences.column_iter_mut().zip(&self.factors) {
            column *= factor.sqrt();
        }
    }

    /// Creates the batches of series of draws with these autocorrelation times.
    fn of(series: &[Vec<usize>], times: &[f64], draws: usize) -> Self {
        let (mut units, mut factors) = (vec![0; draws], Vec::new());
        let mut freedom = f64::INFINITY;
        let series = series.iter().zip(times);
        for (draws, time) in series.filter(|(draws, _)| !draws.is_empty()) {
            let n = draws.len() as f64;
            let length = (LONG * time).max(n / BATCHES.1).min(n / BATCHES.0).max(1.0);
            let (first, count) = (factors.len(), (n / length) as usize);
            for (at, draw) in draws.iter().enumerate() {
                units[*draw] = first + at * count / draws.len();
            }
            factors.resize(first + count, factor(n, count as f64, *time));
            freedom = freedom.min(count as f64 - 1.0);
        }
        Self {
            units,
            factors,
            freedom,
        }
    }
}

/// Returns the factor on the squared sums of batches: for their common mean, and for the correlation between neighbours,
/// whose part of the variance is `(t^2 - 1) / (2 t b)` for batches of b draws with an exponential correlation of time t.
fn factor(draws: f64, count: f64, time: f64) -> f64 {
    let lost = (time * time - 1.0) / (2.0 * time * draws / count);
    count / (count - 1.0).max(1.0) / (1.0 - lost.min(0.5))
}
