//! Tempered transitions: exact detailed balance by enumeration of every excursion, modes reached in their
//! proportions, unbiased weights, what is refused.

use std::cell::Cell;

use annealed::Error;
use annealed::ais::Ais;
use annealed::kernel::{
    Block, CoordinateGibbs, Hmc, Invariant, Mala, NonFinite, PerChain, Preconditioner,
    RandomWalkMetropolis, Reversal, Sequence, Stage, Step, StepSize, TemperedTransitions,
    TransitionKernel, Tunable,
};
use annealed::model::{
    FunctionModel, Gaussian, GaussianMixture, NormalizedModel, Sampleable, UnnormalizedModel,
};
use annealed::path::{AnnealingPath, GaussianPath, GeometricPath, Intermediate, TemperedPath};
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, BlockGibbs, EnumeratedRbm, Rbm, RbmPath};
use annealed::schedule::Schedule;
use annealed::testing::{self, Check};
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use rand::{Rng, TryRng};

type Vector = DVector<f64>;

const STATES: usize = 3;
type Matrix = nalgebra::Matrix3<f64>;

thread_local! {
    /// The probability of what was drawn so far.
    static PROBABILITY: Cell<f64> = const { Cell::new(1.0) };
}

/// Draws the state that the next number names, and counts its probability.
fn draw<R: Rng + ?Sized>(law: impl Fn(usize) -> f64, rng: &mut R) -> usize {
    let state = rng.next_u64() as usize;
    PROBABILITY.set(PROBABILITY.get() * law(state));
    state
}

/// A table of log densities.
#[derive(Debug, Clone)]
struct Table([f64; STATES]);

impl UnnormalizedModel for Table {
    type State = usize;

    fn log_density(&self, state: &usize) -> f64 {
        self.0[*state]
    }
}

impl Sampleable for Table {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        let total: f64 = self.0.iter().map(|l| l.exp()).sum();
        draw(|state| self.0[state].exp() / total, rng)
    }
}

/// Metropolis between two of the states.
fn exchange<M: UnnormalizedModel<State = usize>>(model: &M, [a, b]: [usize; 2]) -> Matrix {
    let mut matrix = Matrix::identity();
    for (from, to) in [(a, b), (b, a)] {
        let accepted = (model.log_density(&to) - model.log_density(&from))
            .exp()
            .min(1.0);
        if model.log_density(&from) > f64::NEG_INFINITY {
            matrix[(from, to)] = accepted;
            matrix[(from, from)] = 1.0 - accepted;
        }
    }
    matrix
}

/// Two exchanges, one after the other: invariant, and not its own reversal.
#[derive(Debug, Clone, Copy)]
struct Exchanges {
    reversed: bool,
    /// Claims to be its own reversal, which is wrong.
    lies: bool,
}

const EXCHANGES: Exchanges = Exchanges {
    reversed: false,
    lies: false,
};

impl Exchanges {
    fn matrix<M: UnnormalizedModel<State = usize>>(&self, model: &M) -> Matrix {
        let (first, second) = (exchange(model, [0, 1]), exchange(model, [1, 2]));
        if self.reversed {
            second * first
        } else {
            first * second
        }
    }
}

impl<M: Intermediate<State = usize>> TransitionKernel<M> for Exchanges {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        _chain: usize,
        state: &mut usize,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let matrix = self.matrix(stage.model);
        *state = draw(|to| matrix[(*state, to)], rng);
        Ok(Step::invariant())
    }
}

impl<M: Intermediate<State = usize>> Invariant<M> for Exchanges {}

impl<M: Intermediate<State = usize>> Reversal<M> for Exchanges {
    type Reversed<'k> = Self;

    fn reversal(&self) -> Self {
        Self {
            reversed: self.reversed == self.lies,
            ..*self
        }
    }
}

/// Numbers written down beforehand, then zeros: a test that draws 0 accepts what it can.
struct Script(Vec<u64>, usize);

impl TryRng for Script {
    type Error = std::convert::Infallible;

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.1 += 1;
        Ok(self.0.get(self.1 - 1).copied().unwrap_or(0))
    }

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.try_next_u64().map(|word| word as u32)
    }

    fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Self::Error> {
        unimplemented!("no bytes are drawn")
    }
}

/// All sequences of this many states.
fn sequences(length: usize) -> impl Iterator<Item = Vec<u64>> {
    let base = STATES as u64;
    (0..base.pow(length as u32)).map(move |code| {
        let digit = |place: u32| code / base.pow(place) % base;
        (0..length as u32).map(digit).collect()
    })
}

/// The transition matrix of the library's move: each excursion is made once, by a script, and counts with its
/// probability and the acceptance that the move reports.
fn enumerated(
    path: &GeometricPath<Table, Table>,
    kernel: Exchanges,
    ladder: &[f64],
    beta: f64,
) -> Matrix {
    let ladder = Schedule::new(ladder.iter().copied()).unwrap();
    let draws = 2 * ladder.stages() - 1;
    let kernel = TemperedTransitions::new(path, kernel, ladder).unwrap();
    let model = path.at(beta);
    let stage = Stage::new(1, &model, &model);
    Matrix::from_fn(|from, to| {
        let mut moved = 0.0;
        let mut refused = 1.0;
        for script in sequences(draws) {
            PROBABILITY.set(1.0);
            let (mut state, mut rng) = (from, Script(script, 0));
            let step = kernel.step(stage, 0, &mut state, &mut (), &mut rng);
            if PROBABILITY.get() == 0.0 {
                continue;
            }
            let accepted = step.unwrap().decisions.accepted * PROBABILITY.get();
            refused -= accepted;
            if state == to {
                moved += accepted;
            }
        }
        moved + if from == to { refused } else { 0.0 }
    })
}

/// The same matrix by the formula alone, with the ratios taken before the moves, or one rung late.
fn by_formula(path: &GeometricPath<Table, Table>, ladder: &[f64], beta: f64, late: bool) -> Matrix {
    let n = ladder.len() - 1;
    let log_f = |i: usize, x: u64| path.at(beta * ladder[i]).log_density(&(x as usize));
    let go = |kernel: Exchanges, i: usize, [from, to]: [u64; 2]| {
        kernel.matrix(&path.at(beta * ladder[i]))[(from as usize, to as usize)]
    };
    let reversal = Exchanges {
        reversed: true,
        ..EXCHANGES
    };
    let total: f64 = path.base().0.iter().map(|l| l.exp()).sum();
    let mut matrix = Matrix::zeros();
    for from in 0..STATES {
        // The state at rung n - 1 before its move, down to rung 0; then up again.
        for rest in sequences(2 * n - 1) {
            let mut up = vec![from as u64];
            up.extend(&rest[..n - 1]);
            up.reverse();
            let down = &rest[n - 1..];
            let mut probability = log_f(0, down[0]).exp() / total;
            let mut log_acceptance = 0.0;
            for i in 1..n {
                probability *= go(EXCHANGES, i, [up[i], up[i - 1]]);
                probability *= go(reversal, i, [down[i - 1], down[i]]);
            }
            for i in 1..=n {
                let log_weight = |y: &[u64]| {
                    let at = if late { i.min(n - 1) } else { i - 1 };
                    log_f(i, y[at]) - log_f(i - 1, y[at])
                };
                log_acceptance += log_weight(down) - log_weight(&up);
            }
            let accepted = probability * log_acceptance.exp().min(1.0);
            matrix[(from, down[n - 1] as usize)] += accepted;
        }
        let moved: f64 = matrix.row(from).sum();
        matrix[(from, from)] += 1.0 - moved;
    }
    matrix
}

fn tables() -> GeometricPath<Table, Table> {
    GeometricPath::new(Table([0.3, -0.2, 0.5]), Table([-1.5, 2.0, 0.4]))
}

/// The largest difference between the flow from a state to another and the flow back.
fn imbalance(model: &impl UnnormalizedModel<State = usize>, matrix: Matrix) -> f64 {
    let f = nalgebra::Vector3::from_fn(|x, _| model.log_density(&x).exp());
    let flow = Matrix::from_diagonal(&(f / f.sum())) * matrix;
    (flow - flow.transpose()).amax()
}

const LADDERS: [&[f64]; 3] = [&[0.0, 1.0], &[0.0, 0.6, 1.0], &[0.0, 0.3, 0.7, 1.0]];

#[test]
fn detailed_balance_is_exact() {
    let path = tables();
    for ladder in LADDERS {
        for beta in [0.0, 0.4, 1.0] {
            let matrix = enumerated(&path, EXCHANGES, ladder, beta);
            assert!(imbalance(&path.at(beta), matrix) < 1e-14, "{matrix}");
            let formula = by_formula(&path, ladder, beta, false);
            assert!((matrix - formula).amax() < 1e-14, "{matrix}{formula}");
        }
    }
}

/// What the enumeration would see: a way down without reversed moves, and ratios one rung late.
#[test]
fn wrong_moves_are_out_of_balance() {
    let (path, ladder) = (tables(), LADDERS[2]);
    let lies = Exchanges {
        lies: true,
        ..EXCHANGES
    };
    let forward_both_ways = enumerated(&path, lies, ladder, 1.0);
    assert!(imbalance(&path.at(1.0), forward_both_ways) > 1e-3);
    let late = by_formula(&path, ladder, 1.0, true);
    assert!(imbalance(&path.at(1.0), late) > 1e-3);
}

/// Rungs that exclude states: excursions that would leave the support are refused, and no infinities meet.
#[test]
fn detailed_balance_where_supports_differ() {
    let never = f64::NEG_INFINITY;
    for (base, target) in [
        ([0.3, -0.2, 0.5], [never, 2.0, 0.4]),
        ([0.3, -0.2, never], [-1.5, 2.0, 0.4]),
        ([never, -0.2, 0.5], [-1.5, 2.0, never]),
    ] {
        let path = GeometricPath::new(Table(base), Table(target));
        for beta in [0.0, 0.4, 1.0] {
            let model = path.at(beta);
            let matrix = enumerated(&path, EXCHANGES, LADDERS[2], beta);
            assert!(imbalance(&model, matrix) < 1e-14, "{matrix}");
            // Off the support a chain stays.
            for x in (0..STATES).filter(|x| model.log_density(x) == never) {
                assert_eq!(matrix[(x, x)], 1.0);
            }
        }
    }
}

/// Two modes 20 deviations apart, of weights .7 and .3.
fn two_modes() -> GeometricPath<Gaussian, GaussianMixture> {
    let mode = |mean, weight| {
        let part = Gaussian::isotropic(Vector::from_element(1, mean), 0.5).unwrap();
        (weight, part)
    };
    let target = GaussianMixture::new([mode(-5.0, 0.7), mode(5.0, 0.3)]).unwrap();
    GeometricPath::new(Gaussian::isotropic(Vector::zeros(1), 5.0).unwrap(), target)
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(StepSize::knots([(0.0, 5.0), (1.0, 0.7)]).unwrap()).unwrap()
}

/// The share of chains in the smaller mode, after moves from the larger one.
fn share_of_the_smaller_mode<'p, K>(
    path: &'p GeometricPath<Gaussian, GaussianMixture>,
    kernel: K,
) -> f64
where
    K: TransitionKernel<<&'p GeometricPath<Gaussian, GaussianMixture> as AnnealingPath>::At>,
{
    const CHAINS: usize = 4_000;
    let rngs = std::iter::successors(Some(stream(1, Purpose::Testing, 0)), |rng| {
        let mut next = rng.clone();
        next.jump();
        Some(next)
    });
    let rngs = rngs.take(CHAINS).collect();
    let mut block = Block::new(0, vec![dvector![-5.0]; CHAINS], rngs);
    let mut workspace = K::Workspace::default();
    let model = path.at(1.0);
    let stage = Stage::new(1, &model, &model);
    for _ in 0..30 {
        kernel.advance(stage, &mut block, &mut workspace).unwrap();
    }
    let crossed = block.states().iter().filter(|x| x[0] > 0.0).count();
    crossed as f64 / CHAINS as f64
}

/// After 30 moves, of which about half are accepted, chains have forgotten where they began and are
/// independent: the count is binomial.
#[test]
fn modes_that_the_inner_kernel_never_leaves_get_their_weights() {
    let path = two_modes();
    let narrow = RandomWalkMetropolis::new(0.7).unwrap();
    assert_eq!(share_of_the_smaller_mode(&path, &narrow), 0.0);
    let ladder = Schedule::linear(10).unwrap();
    let tempered = TemperedTransitions::new(&path, walk(), ladder).unwrap();
    let share = share_of_the_smaller_mode(&path, tempered);
    let standard_error = (0.3 * 0.7 / 4_000_f64).sqrt();
    assert!((share - 0.3).abs() < 4.0 * standard_error, "{share}");
}

fn assert_unbiased<P, K>(path: P, kernel: K, steps: usize, log_z_ratio: f64)
where
    P: AnnealingPath<State: Send> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let schedule = Schedule::linear(steps).unwrap();
    let check = testing::unbiasedness(path, kernel, schedule, log_z_ratio, 20_000, 3).unwrap();
    assert!(check.passes() && check.standard_error < 0.03, "{check}");
}

#[test]
fn weights_on_coarse_schedules_are_unbiased() {
    let path = two_modes();
    let log_ratio = path.target().log_normalizer() - path.base().log_normalizer();
    for rungs in [1, 3] {
        let ladder = Schedule::linear(rungs).unwrap();
        let kernel = TemperedTransitions::new(&path, walk(), ladder).unwrap();
        assert_unbiased(&path, &kernel, 4, log_ratio);
        assert_unbiased(
            &path,
            Sequence(Mala::new(0.5).unwrap(), &kernel),
            4,
            log_ratio_of(&path),
        );
    }
}

fn log_ratio_of(path: &GeometricPath<Gaussian, GaussianMixture>) -> f64 {
    path.target().log_normalizer() - path.base().log_normalizer()
}

/// The tail beyond 1 of an exponential law, whose edge excursions cross.
#[test]
fn weights_are_unbiased_where_the_support_shrinks() {
    let prior = Gaussian::standard(1).unwrap();
    let likelihood = FunctionModel::new(|x: &Vector| match x[0] > -0.5 {
        true => -1.5 * x[0],
        false => f64::NEG_INFINITY,
    });
    let path = TemperedPath::new(prior, likelihood);
    // The integral of exp(-1.5 x) N(x; 0, 1) from -0.5: exp(1.125) P(N > 1).
    let log_evidence = 1.125 + 0.158_655_253_931_457_05_f64.ln();
    let walk = RandomWalkMetropolis::new(1.5).unwrap();
    let kernel = TemperedTransitions::new(&path, walk, Schedule::linear(3).unwrap()).unwrap();
    assert_unbiased(&path, kernel, 3, log_evidence);
}

/// Moves of whole blocks, with random bits of the block's own, and kernels that are not their own reversal.
#[test]
fn fused_and_scanning_kernels_keep_the_model() {
    let weights = DMatrix::from_row_slice(2, 3, &[2.0, -1.0, 1.5, -0.5, 1.0, 2.0]);
    let rbm = Rbm::new(weights, dvector![0.2, -0.3], dvector![0.1, -0.2, 0.3]).unwrap();
    let path = RbmPath::new(BaseRate::uniform(2, 3).unwrap(), rbm).unwrap();
    let model = path.at(0.8);
    let exact = EnumeratedRbm::new(model.to_rbm().unwrap()).unwrap();
    let kernel = TemperedTransitions::new(&path, BlockGibbs, Schedule::linear(4).unwrap()).unwrap();
    let statistics: [fn(&Vec<bool>) -> f64; 2] =
        [|v| f64::from(v[0] && v[2]), |v| f64::from(v[0] != v[1])];
    let sample = |rng: &mut _| exact.sample(rng);
    let checks = testing::invariances(&model, &kernel, sample, statistics, 3, 100_000, 1).unwrap();
    assert!(checks.iter().all(Check::passes), "{checks:?}");

    let ends = [
        Gaussian::new(dvector![0.5, -0.5], dmatrix![1.5, 0.3; 0.3, 1.0]),
        Gaussian::new(dvector![-0.5, 0.4], dmatrix![0.4, -0.3; -0.3, 0.7]),
    ];
    let [base, target] = ends.map(Result::unwrap);
    let path = GaussianPath::new(base, target.clone()).unwrap();
    let gibbs = CoordinateGibbs::systematic();
    let kernel = TemperedTransitions::new(&path, gibbs, Schedule::linear(4).unwrap()).unwrap();
    let model = path.at(1.0);
    let sample = |rng: &mut _| target.sample(rng);
    let statistics: [fn(&Vector) -> f64; 2] = [|x| x[0] * x[1], |x| x[1].powi(3)];
    let checks = testing::invariances(&model, &kernel, sample, statistics, 3, 100_000, 1).unwrap();
    assert!(checks.iter().all(Check::passes), "{checks:?}");
}

/// A stage of a block takes its moves from the same formula as the move of a chain by itself.
#[test]
fn a_block_moves_as_its_chains_do() {
    let path = two_modes();
    let ladder = Schedule::linear(3).unwrap();
    let kernel = TemperedTransitions::new(&path, walk(), ladder).unwrap();
    let model = path.at(0.7);
    let stage = Stage::new(1, &model, &model);
    let rng = stream(5, Purpose::Testing, 0);
    let mut block = Block::new(0, vec![dvector![-4.0]], vec![rng.clone()]);
    let (mut state, mut rng) = (dvector![-4.0], rng);
    let mut accepted = 0.0;
    for _ in 0..20 {
        kernel.advance(stage, &mut block, &mut ()).unwrap();
        let step = kernel
            .step(stage, 0, &mut state, &mut (), &mut rng)
            .unwrap();
        accepted += step.decisions.accepted;
        assert_eq!(block.states()[0], state);
    }
    assert_eq!(block.decisions().accepted, accepted);
    assert_eq!(block.decisions().proposals, 20);
    assert_eq!(block.decisions().undecided, 0);
}

/// Keeps a number for each chain.
#[derive(Debug)]
struct Remembers;

impl<M: Intermediate> TransitionKernel<M> for Remembers {
    type Workspace = PerChain<f64>;

    fn step<R: Rng + ?Sized>(
        &self,
        _stage: Stage<'_, M>,
        _chain: usize,
        _state: &mut M::State,
        _workspace: &mut PerChain<f64>,
        _rng: &mut R,
    ) -> Result<Step, NonFinite> {
        Ok(Step::invariant())
    }
}

impl<M: Intermediate> Invariant<M> for Remembers {}

impl<M: Intermediate> Reversal<M> for Remembers {
    type Reversed<'k> = &'k Self;

    fn reversal(&self) -> &Self {
        self
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let path = two_modes();
    let ladder = || Schedule::linear(3).unwrap();
    let refused = TemperedTransitions::new(&path, Remembers, ladder());
    assert_eq!(
        refused.unwrap_err().to_string(),
        "invalid kernel: got one with a memory of its chains, expected one without"
    );
    let ends = GeometricPath::new(
        Gaussian::standard(1).unwrap(),
        Gaussian::standard(2).unwrap(),
    );
    let refused = TemperedTransitions::new(&ends, walk(), ladder());
    assert!(matches!(refused, Err(Error::DimensionMismatch { .. })));

    // An inner kernel of another dimension, and a NaN, end the run as they do without tempering.
    let shape = Preconditioner::deviations(dvector![1.0, 1.0]).unwrap();
    let shaped = TemperedTransitions::new(&path, walk().preconditioned(shape), ladder()).unwrap();
    let mismatch = Ais::new(&path, shaped).run();
    assert!(matches!(
        mismatch,
        Err(Error::DimensionMismatch { found: 2, .. })
    ));
    let nan = FunctionModel::new(|x: &Vector| if x[0] > 2.0 { f64::NAN } else { -x[0] });
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), nan);
    let kernel = TemperedTransitions::new(&path, walk(), ladder()).unwrap();
    let error = Ais::new(&path, kernel).run().unwrap_err();
    assert!(matches!(error, Error::NonFinite { .. }), "{error}");
}

#[test]
fn evaluations_count_all_rungs() {
    let path = two_modes();
    for (rungs, inner) in [(1, 0), (2, 2), (5, 8)] {
        let ladder = Schedule::linear(rungs).unwrap();
        let kernel = TemperedTransitions::new(&path, walk(), ladder.clone()).unwrap();
        assert_eq!(kernel.evaluations(1), 1 + inner);
        let hmc = Hmc::new(0.5, 2).unwrap();
        let kernel = TemperedTransitions::new(&path, hmc, ladder).unwrap();
        assert_eq!(kernel.evaluations(1), 1 + 4 * inner);
    }
}
