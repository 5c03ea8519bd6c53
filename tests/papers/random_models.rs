//! Random models, paths and schedules, and a Gaussian's exact means.

use annealed::kernel::{Block, Stage, TransitionKernel};
use annealed::model::{
    ExponentialFamily, FullConditionals, Gaussian, NormalizedModel, Sampleable, UnnormalizedModel,
};
use annealed::path::{AnnealingPath, Intermediate};
use annealed::random::{Purpose, StreamRng, stream};
use annealed::rbm::Rbm;
use annealed::schedule::Schedule;
use nalgebra::{Cholesky, DMatrix, DVector};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{Rng, RngExt};

/// Sets a number of cases, which are the same at each run.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(2001),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A schedule of so many steps, whose lengths range over two orders of magnitude.
pub fn schedule(steps: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Schedule> {
    prop::collection::vec(0.01..1.0f64, steps).prop_map(|lengths| {
        let total: f64 = lengths.iter().sum();
        let inner = lengths[1..]
            .iter()
            .scan(lengths[0] / total, |beta, length| {
                let here = *beta;
                *beta += length / total;
                Some(here)
            });
        Schedule::new(std::iter::once(0.0).chain(inner).chain([1.0])).unwrap()
    })
}

/// The states of so many bits, in the order of their [`index`].
pub fn states(bits: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..1_usize << bits).map(move |state| (0..bits).map(|i| state >> i & 1 == 1).collect())
}

pub fn index(state: &[bool]) -> usize {
    let places = state.iter().enumerate();
    places.map(|(i, &on)| usize::from(on) << i).sum()
}

/// `sum_x f(x)` over all states of so many bits.
pub fn sum_of_densities(model: &impl UnnormalizedModel<State = Vec<bool>>, bits: usize) -> f64 {
    states(bits).map(|x| model.log_density(&x).exp()).sum()
}

/// A log density for each state of some bits, at a beta.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub beta: f64,
    pub log_densities: Vec<f64>,
}

impl Table {
    pub fn bits(&self) -> usize {
        self.log_densities.len().ilog2() as usize
    }
}

/// A table of so many bits; some states have no mass if `holes`.
pub fn table(bits: usize, holes: bool) -> impl Strategy<Value = Table> {
    let mass = -2.0..2.0f64;
    let entry = prop_oneof![4 => mass.clone().boxed(), 1 => if holes {
        Just(f64::NEG_INFINITY).boxed()
    } else {
        mass.boxed()
    }];
    let entries = prop::collection::vec(entry, 1 << bits);
    entries.prop_map(|mut log_densities| {
        log_densities[1] = log_densities[1].max(-1.0);
        Table {
            beta: 1.0,
            log_densities,
        }
    })
}

impl UnnormalizedModel for Table {
    type State = Vec<bool>;

    fn log_density(&self, state: &Vec<bool>) -> f64 {
        self.log_densities[index(state)]
    }
}

impl NormalizedModel for Table {
    fn log_normalizer(&self) -> f64 {
        sum_of_densities(self, self.bits()).ln()
    }
}

/// A sample takes one uniform number.
impl Sampleable for Table {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<bool> {
        let mut left = rng.random::<f64>() * self.log_normalizer().exp();
        let drawn = states(self.bits()).find(|x| {
            left -= self.log_density(x).exp();
            left < 0.0
        });
        drawn.unwrap_or_else(|| vec![true; self.bits()])
    }
}

impl FullConditionals for Table {
    fn coordinates(&self) -> usize {
        self.bits()
    }

    fn sample_coordinate<R: Rng + ?Sized>(&self, state: &mut Vec<bool>, index: usize, rng: &mut R) {
        let mut density = |on| {
            state[index] = on;
            self.log_density(state).exp()
        };
        let (off, on) = (density(false), density(true));
        state[index] = rng.random::<f64>() * (off + on) < on;
    }
}

impl Intermediate for Table {
    fn beta(&self) -> f64 {
        self.beta
    }
}

/// A path that bends at will: log densities linear in beta between random tables.
#[derive(Debug, Clone)]
pub struct BentPath {
    knots: Schedule,
    tables: Vec<Table>,
}

pub fn bent_path(bits: usize, holes: bool) -> impl Strategy<Value = BentPath> {
    let knots = schedule(1..=3);
    (
        knots,
        prop::collection::vec(table(bits, false), 4),
        table(bits, holes),
    )
        .prop_map(|(knots, mut tables, target)| {
            tables[knots.stages()] = target;
            BentPath { knots, tables }
        })
}

impl BentPath {
    /// The geometric path between two tables, all of whose models can be sampled.
    pub fn straight(base: Table, target: Table) -> Self {
        Self {
            knots: Schedule::linear(1).unwrap(),
            tables: vec![base, target],
        }
    }
}

impl AnnealingPath for BentPath {
    type State = Vec<bool>;
    type Base = Table;
    type At = Table;

    fn base(&self) -> &Table {
        &self.tables[0]
    }

    fn at(&self, beta: f64) -> Table {
        let betas = self.knots.betas();
        let left = betas
            .partition_point(|&knot| knot <= beta)
            .min(self.knots.stages())
            - 1;
        let share = (beta - betas[left]) / (betas[left + 1] - betas[left]);
        let ends = self.tables[left].log_densities.iter();
        let ends = ends.zip(&self.tables[left + 1].log_densities);
        let blend = |(a, b): (&f64, &f64)| {
            // Not 0 times infinity.
            let [a, b] =
                [(a, 1.0 - share), (b, share)].map(|(l, s)| if s == 0.0 { 0.0 } else { l * s });
            a + b
        };
        Table {
            beta,
            log_densities: ends.map(blend).collect(),
        }
    }
}

/// An RBM of so many hidden and visible units, whose parameters are exact in single precision.
pub fn rbm(hidden: usize, visible: usize) -> impl Strategy<Value = Rbm<f64>> {
    let parameters = (hidden + 1) * (visible + 1);
    prop::collection::vec(-2.0..2.0f32, parameters).prop_map(move |p| {
        let p: Vec<f64> = p.into_iter().map(f64::from).collect();
        let (weights, biases) = p.split_at(hidden * visible);
        Rbm::new(
            DMatrix::from_column_slice(hidden, visible, weights),
            DVector::from_column_slice(&biases[..hidden]),
            DVector::from_column_slice(&biases[hidden..hidden + visible]),
        )
        .unwrap()
    })
}

/// A Gaussian whose covariance has eigenvalues between .2 and 10, roughly.
pub fn gaussian(dimension: usize) -> impl Strategy<Value = Gaussian> {
    let numbers = prop::collection::vec(-1.5..1.5f64, dimension * (dimension + 1));
    numbers.prop_map(move |numbers| {
        let (mean, root) = numbers.split_at(dimension);
        let root = DMatrix::from_column_slice(dimension, dimension, root);
        let covariance = &root * root.transpose() + DMatrix::identity(dimension, dimension) * 0.2;
        Gaussian::new(DVector::from_column_slice(mean), covariance).unwrap()
    })
}

/// `p_a^(1-beta) p_b^beta`, normalised.
pub fn geometric_average(a: &Gaussian, b: &Gaussian, beta: f64) -> Gaussian {
    let eta = a.natural_parameters() * (1.0 - beta) + b.natural_parameters() * beta;
    a.with_natural_parameters(&eta).unwrap()
}

/// The mean of a polynomial of degree two (three, too) under a Gaussian: that over `mean +- sqrt(d) L_i`, with
/// the columns `L_i` of the covariance's root.
pub fn quadratic_mean(gaussian: &Gaussian, f: impl Fn(&DVector<f64>) -> f64) -> f64 {
    let root = Cholesky::new(gaussian.covariance()).unwrap().l();
    let dimension = root.ncols() as f64;
    let ends = |column| {
        let step = column * dimension.sqrt();
        f(&(gaussian.mean() + &step)) + f(&(gaussian.mean() - &step))
    };
    let sum: f64 = root.column_iter().map(ends).sum();
    sum / (2.0 * dimension)
}

/// Returns `count` independent streams.
pub fn streams(count: usize) -> Vec<StreamRng> {
    let first = stream(1, Purpose::TESTING, 0);
    let following = std::iter::successors(Some(first), |rng| {
        let mut next = rng.clone();
        next.jump();
        Some(next)
    });
    following.take(count).collect()
}

/// The log weights of so many chains along the schedule.
pub fn log_weights<P, K>(path: P, kernel: &K, schedule: &Schedule, chains: usize) -> Vec<f64>
where
    P: AnnealingPath,
    K: TransitionKernel<P::At>,
{
    let mut streams = streams(chains);
    let states = streams
        .iter_mut()
        .map(|rng| path.base().sample(rng))
        .collect();
    let mut block = Block::new(0, states, streams);
    let mut workspace = K::Workspace::default();
    for (k, betas) in schedule.betas().windows(2).enumerate() {
        let ends = (path.at(betas[0]), path.at(betas[1]));
        let stage = Stage::new(k + 1, &ends.0, &ends.1);
        kernel.advance(stage, &mut block, &mut workspace).unwrap();
    }
    block.log_weights().to_vec()
}

/// The mean of some values and its standard error.
pub fn mean_and_error(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|x| (x - mean).powi(2)).sum();
    (mean, (squares / (count * (count - 1.0))).sqrt())
}
