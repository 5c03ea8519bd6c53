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
}

/// The influence of draws on the estimates of log Z of all states.
#[derive(Debug)]
pub(super) struct Influence<'a> {
    mixture: &'a StateMixture<'a>,
    /// Weighted sums P of the products of values, `sum_n w_n p_k p_l`.
    pub(super) products: DMatrix<f64>,
    /// The matrix that takes weighted sums of centred values to changes of the estimates.
    transform: DMatrix<f64>,
    /// Mean value of each state (row) over the draws of each state (column).
    means: DMatrix<f64>,
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

    /// Returns the autocorrelation time of each state, by the influence of its draws on the difference of its log Z and
    /// log Z of another state, `others[state]`.
    pub(super) fn times(&self, others: &[usize]) -> Vec<f64> {
        let rows = &self.transform - self.transform.select_rows(others);
        let (mixture, mut series) = (self.mixture, vec![Vec::new(); others.len()]);
        mixture.for_chunks(0..mixture.data.labels.len(), &mut |draws, p, _| {
            for (at, &state) in mixture.data.labels[draws].iter().enumerate() {
                series[state].push(rows.row(state).dot(&p.row(at)));
            }
        });
        let time = |values| Correlation::of(&[values]).time;
        series.into_iter().map(time).collect()
    }

    /// Returns the covariance of all estimates, by the sandwich `A^- B A^-` with the covariance B of the weighted sums
    /// of values.
    pub(super) fn spread(&self) -> Spread {
        let (data, times) = (self.mixture.data, &self.mixture.weights.times);
        match &data.how {
            Dependence::Independent => Spread {
                covariance: self.covariance_of_independent(),
                freedom: f64::INFINITY,
                units: (0..data.labels.len()).collect(),
                times: times.clone(),
            },
            Dependence::Chains => {
                let mut chains = vec![Vec::new(); data.counts.len()];
                let draws = data.labels.iter().enumerate();
                draws.for_each(|(draw, state)| chains[*state].push(draw));
                self.spread_of_batches(&chains, times.clone())
            }
            Dependence::Replicas(at) => self.spread_over_times(at),
        }
    }

    fn covariance_of_independent(&self) -> DMatrix<f64> {
        let n = Vec::from_iter(self.mixture.data.counts.iter().map(|n| *n as f64));
        let weights = self.mixture.weights.of_draw.iter().zip(&n);
        let squares = Vec::from_iter(weights.map(|(weight, n)| weight * weight * n / (n - 1.0)));
        let (mut covariance, _) = self.mixture.sums(&squares);
        for (state, mean) in self.means.column_iter().enumerate() {
            covariance.ger(-squares[state] * n[state], &mean, &mean, 1.0);
        }
        &self.transform * covariance * self.transform.transpose()
    }

    /// Returns the covariance by batches of times, over all states at once.
    fn spread_over_times(&self, at: &[usize]) -> Spread {
        let influences = self.of_groups(at);
        // The estimates are relative to the first one.
        let time = |row: usize| {
            let moved = influences.row(row) - influences.row(0);
            Correlation::of(&[moved.iter().copied().collect()]).time
        };
        let slowest = (1..influences.nrows()).map(time).fold(1.0, f64::max);
        let mut draws = Vec::from_iter(0..at.len());
        draws.sort_by_key(|draw| at[*draw]);
        let at_once = at.len() as f64 / influences.ncols() as f64;
        let found = self.spread_of_batches(&[draws], vec![slowest * at_once]);
        let times = vec![slowest; self.mixture.data.counts.len()];
        Spread { times, ..found }
    }

    /// Returns the covariance by batches of series of draws with these autocorrelation times.
    fn spread_of_batches(&self, series: &[Vec<usize>], times: Vec<f64>) -> Spread {
        let mut units = vec![0; self.mixture.data.labels.len()];
        let (mut factors, mut freedom) = (Vec::new(), f64::INFINITY);
        let series = series.iter().zip(&times);
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
        let mut influences = self.of_groups(&units);
        for (mut column, factor) in influences.column_iter_mut().zip(factors) {
            column *= f64::sqrt(factor);
        }
        Spread {
            covariance: &influences * influences.transpose(),
            freedom,
            units,
            times,
        }
    }

    /// Returns the influence of the draws of each group (column) on each estimate (row).
    fn of_groups(&self, groups: &[usize]) -> DMatrix<f64> {
        let (labels, weights) = (&self.mixture.data.labels, &self.mixture.weights.of_draw);
        let sums = self.mixture.sums_by(groups, weights);
        let mut expected = DMatrix::zeros(self.means.ncols(), sums.ncols());
        let draws = labels.iter().zip(groups);
        draws.for_each(|(state, group)| expected[(*state, *group)] += weights[*state]);
        &self.transform * (sums - &self.means * expected)
    }
}

/// Returns the factor on the squared sums of batches: for their common mean, and for the correlation between neighbours,
/// whose part of the variance is `(t^2 - 1) / (2 t b)` for batches of b draws with an exponential correlation of time t.
fn factor(draws: f64, count: f64, time: f64) -> f64 {
    let lost = (time * time - 1.0) / (2.0 * time * draws / count);
    count / (count - 1.0).max(1.0) / (1.0 - lost.min(0.5))
}
