//! Parallel tempering against exact answers: log Z, shares of modes, laws at all betas, rejections.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::shared;
use annealed::ais::{Ais, StoppedBy};
use annealed::estimate::{LogZ, Warning, WeightedSample};
use annealed::kernel::{
    Block, Hmc, Increment, Invariant, NonFinite, PerfectTransitions, RandomWalkMetropolis, Stage,
    Step, StepSize, TransitionKernel,
};
use annealed::model::{
    Differentiable, Gaussian, GaussianMixture, NormalizedModel, UnnormalizedModel,
};
use annealed::path::{AnnealingPath, GaussianPath, GeometricAt, GeometricPath, Intermediate};
use annealed::rbm::{BaseRate, BlockGibbs, ContrastiveDivergence, Rbm, RbmPath};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use nalgebra::{DVector, dvector};
use rand::{Rng, RngExt};

use crate::shared::ring::{STATES, Table, base, target};

fn linear(steps: usize) -> Schedule {
    Schedule::linear(steps).unwrap()
}

fn walk(scale: f64) -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(scale).unwrap()
}

fn normal(mean: f64, deviation: f64) -> Gaussian {
    Gaussian::isotropic(dvector![mean], deviation).unwrap()
}

fn well(x: f64) -> f64 {
    -x.powi(4) + 6.0 * x * x + 0.5 * x
}

/// `int exp(well)`, by the midpoint rule.
fn well_integral(start: f64, end: f64) -> f64 {
    let width = (end - start) / 4_000.0;
    let middle = |i| start + width * (f64::from(i) + 0.5);
    (0..4_000).map(|i| width * well(middle(i)).exp()).sum()
}

fn well_share() -> f64 {
    well_integral(0.0, 6.0) / well_integral(-6.0, 6.0)
}

/// Mean of squares, and its root.
#[derive(Default)]
struct Errors(Vec<f64>);

impl Errors {
    fn add(&mut self, error: f64) {
        self.0.push(error);
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    fn rms(&self) -> f64 {
        (self.0.iter().map(|x| x * x).sum::<f64>() / self.0.len() as f64).sqrt()
    }
}

#[test]
fn log_z_and_shares_have_honest_errors() {
    let target = shared::function(|x: &DVector<f64>| well(x[0]));
    let path = GeometricPath::new(normal(0.0, 1.5), target);
    let (log_z, share) = (well_integral(-6.0, 6.0).ln(), well_share());
    let (mut errors, mut z, mut z_of_share, mut covered) =
        (Errors::default(), Errors::default(), Errors::default(), 0);
    for seed in 0..100 {
        let run = Tempering::new(&path, walk(0.6))
            .schedule(linear(6))
            .ladders(32)
            .rounds(7)
            .seed(seed)
            .run()
            .unwrap();
        assert_eq!(run.warnings(), [], "{run}");
        let error = run.log_z() - log_z;
        errors.add(error);
        z.add(error / run.standard_error());
        let (found, standard_error) = run.expectation(|x| f64::from(x[0] > 0.0));
        z_of_share.add((found - share) / standard_error);
        let (lower, upper) = run.interval();
        covered += usize::from(lower <= log_z && log_z <= upper);
        assert_eq!(run.interval(), run.interval_at(0.95).unwrap());
        assert!(run.standard_error() < 0.1, "{run}");
    }
    for z in [&z, &z_of_share] {
        assert!((0.8..1.25).contains(&z.rms()), "rms z {}", z.rms());
    }
    assert!(errors.mean().abs() < 4.0 * errors.rms() / 10.0);
    assert!(covered >= 88, "{covered}");
}

/// On N(0, 1) to N(mu, 1) the rejection rate between two betas is `erf(|mu| (beta' - beta) / 2)`, and the barrier
/// in the limit of many betas `|mu| / sqrt(pi)`.
#[test]
fn barrier_of_a_shift_is_the_exact_one() {
    let path = GeometricPath::new(normal(0.0, 1.0), normal(4.0, 1.0));
    let [mut barriers, mut errors, mut z] = [(); 3].map(|()| Errors::default());
    for seed in 0..10 {
        let run = Tempering::new(&path, walk(2.0))
            .schedule(linear(8))
            .seed(seed)
            .run()
            .unwrap();
        let exact = |pair: &[f64]| {
            let half = 0.5 * 4.0 * (pair[1] - pair[0]);
            let density = |t: f64| (-t * t).exp() * 2.0 / std::f64::consts::PI.sqrt();
            let slice = half / 1_000.0;
            (0..1_000)
                .map(|i| slice * density(slice * (f64::from(i) + 0.5)))
                .sum::<f64>()
        };
        for (pair, rejection) in run.schedule().betas().windows(2).zip(run.rejections()) {
            assert!(
                (rejection - exact(pair)).abs() < 0.03,
                "{pair:?}: {rejection}"
            );
            // Equal rejections, here equal distances.
            assert!((pair[1] - pair[0] - 0.125).abs() < 0.02, "{pair:?}");
        }
        assert!((run.barrier() - run.rejections().iter().sum::<f64>()).abs() < 1e-12);
        barriers.add(run.barrier());
        let along = run.log_z_along();
        let base = (along[0].log_z, along[0].standard_error);
        assert_eq!(
            (along.len(), base),
            (9, (path.base().log_normalizer(), 0.0))
        );
        assert_eq!(
            (along[8].log_z, along[8].standard_error),
            (run.log_z(), run.standard_error())
        );
        assert_eq!(along[8].interval, run.interval());
        let middle = along[4];
        let exact = path.base().log_normalizer() - 8.0 * middle.beta * (1.0 - middle.beta);
        errors.add(middle.log_z - exact);
        z.add((middle.log_z - exact) / middle.standard_error);
        assert!(middle.standard_error < 0.1, "{middle}");
    }
    assert!(errors.mean().abs() < 4.0 * errors.rms() / 10f64.sqrt());
    assert!((0.5..2.2).contains(&z.rms()), "rms z {}", z.rms());
    // Base and target are the same: nothing is ever rejected.
    let path = GeometricPath::new(normal(0.0, 1.0), normal(0.0, 1.0));
    let run = Tempering::new(&path, walk(2.0)).rounds(4).run().unwrap();
    assert!(
        run.barrier() == 0.0 && run.log_z_ratio().abs() < 1e-12,
        "{run}"
    );
    // Eight pairs fall short of the limit by 1%.
    let limit = 4.0 / std::f64::consts::PI.sqrt();
    assert!(
        (barriers.mean() / limit - 0.98).abs() < 0.02,
        "{}",
        barriers.mean()
    );
    let spread = barriers
        .0
        .iter()
        .map(|b| (b - barriers.mean()).powi(2))
        .sum::<f64>()
        / 9.0;
    assert!(spread.sqrt() < 0.02);
}

/// log Z of N(0, 1) to N(1, 1/4) in ten dimensions, at the betas of the ladder and between them.
#[test]
fn many_states_of_a_ladder_have_log_z_at_every_beta() {
    let target = Gaussian::isotropic(DVector::from_element(10, 1.0), 0.5).unwrap();
    let path = GeometricPath::new(Gaussian::standard(10).unwrap(), target);
    let exact = |beta: f64| {
        let precision = 1.0 + 3.0 * beta;
        let apart = 4.0 * beta * (1.0 - beta) / precision;
        5.0 * ((std::f64::consts::TAU / precision).ln() - apart)
    };
    let (mut held, mut all) = (0, 0);
    let (mut errors, mut z) = (Errors::default(), Errors::default());
    for seed in 0..20 {
        // All states, which are correlated with those before them.
        let run = Tempering::new(&path, Hmc::new(0.3, 2).unwrap()).samples(8 << 9);
        let run = run.schedule(linear(6)).rounds(9).seed(seed).run().unwrap();
        let mbar = run.mbar(&path).unwrap();
        assert_eq!(run.warnings(), []);
        assert_eq!(mbar.warnings(), [], "{mbar}");
        let further = |beta: f64| {
            let column = run.log_densities_at(&path, beta).unwrap();
            assert_eq!(column.len(), 7 * run.states().len());
            (beta, mbar.weights_at(&column).unwrap().log_z().clone())
        };
        let own = |(state, beta): (usize, &f64)| (*beta, mbar.difference(state, 0).unwrap());
        let at_rungs = run.schedule().betas().iter().enumerate().skip(1).map(own);
        for (beta, found) in at_rungs.chain([0.05, 0.4, 0.9].map(further)) {
            let (found, exact) = (found.shifted(exact(0.0)), exact(beta));
            let (lower, upper) = found.interval();
            held += usize::from(lower <= exact && exact <= upper);
            all += 1;
            errors.add(found.log_z() - exact);
            z.add((found.log_z() - exact) / found.standard_error());
            assert!(found.standard_error() < 0.1, "{beta}: {found}");
        }
    }
    assert!(errors.mean().abs() < 4.0 * errors.rms() / 20f64.sqrt());
    assert!((0.75..1.25).contains(&z.rms()), "rms z {}", z.rms());
    assert!(10 * held >= 9 * all, "{held} of {all}");
}

/// The two log densities that a run keeps are those of its states.
#[test]
fn log_densities_of_a_ladder_are_those_of_its_states() {
    let density = |x: &DVector<f64>| {
        if x[0] < 0.5 {
            f64::NEG_INFINITY
        } else {
            well(x[0])
        }
    };
    let path = GeometricPath::new(normal(0.0, 1.5), shared::function(density));
    let run = Tempering::new(&path, walk(0.6))
        .schedule(linear(4))
        .ladders(3);
    let run = run.rounds(6).samples(20).run().unwrap();
    for beta in [0.3, 1.0] {
        let kept = run.log_densities_at(&path, beta).unwrap();
        let at_target = kept.iter().skip(4).step_by(5);
        assert_eq!(at_target.len(), run.states().len());
        for (kept, state) in at_target.zip(run.states()) {
            assert_eq!(kept.to_bits(), path.at(beta).log_density(state).to_bits());
        }
    }
    // Base samples off the support of the target.
    let at_target = run.log_densities_at(&path, 1.0).unwrap();
    assert!(at_target.iter().step_by(5).any(|x| *x == f64::NEG_INFINITY));
    let text = run.log_densities_at(&path, 1.5).unwrap_err().to_string();
    assert!(text.contains("beta: got 1.5"), "{text}");
    // A path without ends.
    let path = GaussianPath::new(normal(0.0, 1.0), normal(1.0, 1.0)).unwrap();
    let run = Tempering::new(&path, walk(1.0)).rounds(5).run().unwrap();
    let text = run.mbar(&path).unwrap_err().to_string();
    assert!(text.contains("path: got one without ends"), "{text}");
}

/// A path whose log ratios have this sign: 1 for the right path, -1 for one that accepts the wrong swaps.
struct Signed {
    path: GeometricPath<Table, Table>,
    sign: f64,
}

struct SignedAt<'a> {
    model: GeometricAt<'a, Table, Table>,
    sign: f64,
}

impl UnnormalizedModel for SignedAt<'_> {
    type State = usize;

    fn log_density(&self, state: &usize) -> f64 {
        self.model.log_density(state)
    }
}

impl Intermediate for SignedAt<'_> {
    fn beta(&self) -> f64 {
        self.model.beta()
    }

    fn log_ratio(&self, previous: &Self, state: &usize) -> f64 {
        self.sign * self.model.log_ratio(&previous.model, state)
    }
}

impl<'p> AnnealingPath for &'p Signed {
    type State = usize;
    type Base = Table;
    type At = SignedAt<'p>;

    fn base(&self) -> &Table {
        self.path.base()
    }

    fn at(&self, beta: f64) -> SignedAt<'p> {
        SignedAt {
            model: self.path.at(beta),
            sign: self.sign,
        }
    }
}

/// How often each ladder was in each state, by the bits of beta.
type Counts = HashMap<(u64, usize), [f64; STATES]>;

/// A lazy walk on the ring, which counts the states that it meets.
struct CountingWalk(Mutex<Counts>);

impl<M: Intermediate<State = usize>> TransitionKernel<M> for CountingWalk {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut usize,
        _: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let proposal = (*state + if rng.random() { 1 } else { STATES - 1 }) % STATES;
        let [here, there] = [*state, proposal].map(|x| stage.model.log_density(&x));
        let acceptance = 0.3 * (there - here).exp().min(1.0);
        if rng.random::<f64>() < acceptance {
            *state = proposal;
        }
        Ok(Step::metropolis(acceptance))
    }

    /// Counts the states before they move. A chain of the block is a ladder.
    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<usize>,
        _: &mut (),
    ) -> annealed::Result<()> {
        let mut counts = self.0.lock().unwrap();
        for (ladder, &state) in block.states().iter().enumerate() {
            let key = (stage.beta.to_bits(), ladder);
            counts.entry(key).or_default()[state] += 1.0;
        }
        block.for_each(stage, |_, state, rng| {
            let log_ratio = stage.log_ratio(state);
            let step = self.step(stage, state, &mut (), rng)?;
            Ok(Increment::new(log_ratio, step))
        })
    }
}

impl<M: Intermediate<State = usize>> Invariant<M> for CountingWalk {}

/// The largest |z| of a state's share at any beta inside of the path, and of log Z; and the largest error of a
/// rejection rate.
fn finite_state_errors(sign: f64) -> (f64, f64, f64) {
    const LADDERS: usize = 16;
    let (base, target) = (base(), target());
    let truth = target.log_normalizer();
    let path = Signed {
        path: GeometricPath::new(base.clone(), target.clone()),
        sign,
    };
    let kernel = CountingWalk(Mutex::default());
    let run = Tempering::new(&path, &kernel)
        .schedule(linear(4))
        .ladders(LADDERS)
        .block_size(LADDERS)
        .rounds(11)
        .seed(1)
        .run()
        .unwrap();
    let law = |beta: f64| {
        let blend = |x: usize| (1.0 - beta) * base.0[x] + beta * target.0[x];
        let f: [f64; STATES] = std::array::from_fn(|x| blend(x).exp());
        f.map(|value| value / f.iter().sum::<f64>())
    };
    let counts = kernel.0.into_inner().unwrap();
    let betas = run.schedule().betas();
    let mut worst = 0.0_f64;
    for &beta in &betas[1..betas.len() - 1] {
        for (x, exact) in law(beta).into_iter().enumerate() {
            let share = |ladder| {
                let counts: &[f64; STATES] = &counts[&(beta.to_bits(), ladder)];
                counts[x] / counts.iter().sum::<f64>()
            };
            let shares: Vec<f64> = (0..LADDERS).map(share).collect();
            let mean = shares.iter().sum::<f64>() / LADDERS as f64;
            let square = shares.iter().map(|s| (s - mean).powi(2)).sum::<f64>();
            let error = (square / (LADDERS * (LADDERS - 1)) as f64).sqrt();
            assert!(error < 0.01, "beta {beta}, state {x}: {error}");
            worst = worst.max((mean - exact).abs() / error);
        }
    }
    let rejection = |pair: &[f64]| {
        let (lower, upper) = (law(pair[0]), law(pair[1]));
        let r = |x: usize| (pair[1] - pair[0]) * (target.0[x] - base.0[x]);
        let pairs = (0..STATES * STATES).map(|i| (i % STATES, i / STATES));
        pairs
            .map(|(x, y)| lower[x] * upper[y] * (1.0 - (r(x) - r(y)).min(0.0).exp()))
            .sum::<f64>()
    };
    let pairs = betas.windows(2).zip(run.rejections());
    let of_rejection = pairs
        .map(|(pair, found)| (rejection(pair) - found).abs())
        .fold(0.0, f64::max);
    let z = (run.log_z() - truth).abs() / run.standard_error();
    (worst, z, of_rejection)
}

#[test]
fn swaps_leave_the_law_at_each_beta_as_it_is() {
    let (share, log_z, rejection) = finite_state_errors(1.0);
    assert!(share <= 4.0 && log_z <= 4.0, "{share}, {log_z}");
    assert!(rejection < 0.01, "{rejection}");
    // The wrong twin, which accepts by the inverse ratio.
    let (share, log_z, rejection) = finite_state_errors(-1.0);
    assert!(
        share > 20.0 && log_z > 20.0 && rejection > 0.02,
        "{share}, {log_z}, {rejection}"
    );
}

/// Sixteen double wells, each beside a normal coordinate: 2^16 modes.
struct Wells;

impl UnnormalizedModel for Wells {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        let pairs = x.as_slice().as_chunks::<2>().0;
        pairs.iter().map(|[x, y]| well(*x) - 0.5 * y * y).sum()
    }
}

impl Differentiable for Wells {
    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let pairs = x.as_slice().as_chunks::<2>().0;
        for (i, [x, y]) in pairs.iter().enumerate() {
            gradient[2 * i] += scale * (-4.0 * x * x * x + 12.0 * x + 0.5);
            gradient[2 * i + 1] -= scale * y;
        }
        self.log_density(x)
    }
}

#[test]
fn many_wells_have_their_log_z_and_shares() {
    let path = GeometricPath::new(Gaussian::standard(32).unwrap(), Wells);
    let run = Tempering::new(&path, Hmc::new(0.15, 5).unwrap())
        .schedule(linear(12))
        .rounds(11)
        .samples(8_000)
        .seed(1)
        .run()
        .unwrap();
    assert_eq!(run.warnings(), [], "{run}");
    let (error, bound) = (run.log_z() - 164.695_675, run.standard_error());
    assert!(error.abs() <= 4.0 * bound && bound < 0.15, "{run}");
    let exact = well_share();
    for i in 0..16 {
        let (share, error) = run.expectation(|x| f64::from(x[2 * i] > 0.0));
        assert!(
            (share - exact).abs() <= 4.0 * error,
            "{i}: {share} +- {error}"
        );
    }
    let right = |x: &DVector<f64>| (0..16).filter(|i| x[2 * i] > 0.0).count() as f64 / 16.0;
    let (share, error) = run.expectation(right);
    assert!(
        (share - exact).abs() <= 4.0 * error && error < 0.02,
        "{share} +- {error}"
    );
}

/// A chain of annealing decides early to which mode it goes. In few long chains of it a mode that is late to
/// have its mass is missing; tempering, at the same cost, goes back and forth.
#[test]
fn unequal_modes_have_their_shares_where_long_chains_of_annealing_miss_one() {
    let mode = |x: f64, y: f64| Gaussian::isotropic(dvector![x, y], 0.4).unwrap();
    let modes = [
        (0.4, mode(5.0, 0.0)),
        (0.3, mode(0.0, 5.0)),
        (0.2, mode(-5.0, 0.0)),
        (0.1, mode(0.0, -5.0)),
    ];
    let base = Gaussian::isotropic(dvector![0.7, 0.0], 1.0).unwrap();
    let path = GeometricPath::new(base, GaussianMixture::new(modes).unwrap());
    let steps = StepSize::knots([(0.0, 1.0), (1.0, 0.4)]).unwrap();
    let kernel = RandomWalkMetropolis::new(steps).unwrap();
    let far = |x: &DVector<f64>| f64::from(-x[0] > x[1].abs());
    let near = |x: &DVector<f64>| f64::from(x[0] > x[1].abs());
    let (mut tempered, mut annealed) = (Errors::default(), Errors::default());
    for seed in 0..5 {
        let run = Tempering::new(&path, &kernel)
            .schedule(linear(8))
            .ladders(32)
            .rounds(10)
            .samples(10_000)
            .seed(seed)
            .run()
            .unwrap();
        assert_eq!(run.warnings(), [], "{run}");
        let (error, bound) = (run.log_z(), run.standard_error());
        assert!(error.abs() <= 4.0 * bound && bound < 0.1, "{run}");
        let (share, error) = run.expectation(far);
        assert!(
            (share - 0.2).abs() <= 4.0 * error && error < 0.06,
            "{share} +- {error}"
        );
        let (share, error) = run.expectation(near);
        assert!(
            (share - 0.4).abs() <= 4.0 * error && error < 0.06,
            "{share} +- {error}"
        );
        tempered.add(run.log_z());

        let stages = run.evaluations() as usize / 100 / 2;
        let ais = Ais::new(&path, &kernel).schedule(linear(stages));
        annealed.add(ais.chains(100).seed(seed).run().unwrap().log_z());
    }
    assert!(
        tempered.rms() < 0.5 * annealed.rms(),
        "{} {}",
        tempered.rms(),
        annealed.rms()
    );
}

#[test]
fn ladders_of_an_rbm_move_as_a_block() {
    let images = annealed::data::digits().images;
    let start = Rbm::<f64>::from_data(8, &images, 1).unwrap();
    let training = ContrastiveDivergence::new(1)
        .epochs(2)
        .train(start, &images);
    let rbm = training.unwrap().rbm;
    let base = BaseRate::from_data(8, &images, 1.0).unwrap();
    let path = RbmPath::new(base, rbm.clone()).unwrap();
    let run = |threads| {
        Tempering::new(&path, BlockGibbs)
            .schedule(linear(6))
            .ladders(16)
            .block_size(8)
            .rounds(9)
            .threads(threads)
            .seed(1)
            .run()
            .unwrap()
    };
    let (one, two) = (run(1), run(2));
    assert_eq!(one.to_string(), two.to_string());
    let error = one.log_z() - rbm.exact_log_normalizer().unwrap();
    let bound = one.standard_error();
    assert!(error.abs() <= 4.0 * bound && bound < 0.1, "{one}: {error}");
}

#[test]
fn bits_depend_on_the_seed_alone() {
    let path = GeometricPath::new(normal(0.0, 1.0), normal(3.0, 0.5));
    let run = |threads, block_size, seed| {
        let kernel = Hmc::new(0.3, 2).unwrap();
        let run = Tempering::new(&path, kernel)
            .schedule(linear(5))
            .ladders(7)
            .block_size(block_size)
            .rounds(6)
            .threads(threads)
            .seed(seed)
            .run()
            .unwrap();
        let figures = (run.log_z(), run.standard_error(), run.rejections().to_vec());
        (
            figures,
            run.schedule().clone(),
            run.states().to_vec(),
            run.round_trips(),
        )
    };
    let one = run(1, 1, 5);
    for (threads, block_size) in [(2, 1), (3, 1), (1, 2), (2, 3), (1, 7)] {
        assert_eq!(run(threads, block_size, 5), one, "{threads}, {block_size}");
    }
    assert_ne!(run(1, 1, 6), one);
}

/// Values and gradients that are known of a state go with the state from swap to swap.
#[test]
fn errors_of_hmc_are_honest() {
    let path = GeometricPath::new(normal(0.0, 1.0), normal(1.0, 0.7));
    let mut z = Errors::default();
    for seed in 0..20 {
        let run = Tempering::new(&path, Hmc::new(0.3, 2).unwrap())
            .schedule(linear(3))
            .rounds(9)
            .seed(seed)
            .run()
            .unwrap();
        let error = run.log_z() - 0.5 * (std::f64::consts::TAU * 0.49).ln();
        assert!(error.abs() < 0.1, "{run}");
        let (mean, standard_error) = run.expectation(|x| x[0]);
        z.add(error / run.standard_error());
        z.add((mean - 1.0) / standard_error);
    }
    assert!((0.7..1.4).contains(&z.rms()), "{}", z.rms());
}

/// The first beta that matters is 1e-8, and the betas find it.
#[test]
fn betas_find_a_target_far_narrower_than_the_base() {
    let path = GaussianPath::new(normal(0.0, 100.0), normal(1.0, 0.01)).unwrap();
    let run = Tempering::new(&path, PerfectTransitions)
        .schedule(linear(12))
        .seed(1);
    let run = run.rounds(12).run().unwrap();
    let error = run.log_z() - 0.5 * (std::f64::consts::TAU * 1e-4).ln();
    assert_eq!(run.warnings(), [], "{run}");
    assert!(
        error.abs() < 4.0 * run.standard_error() && run.standard_error() < 0.05,
        "{run}"
    );
    let largest = run.rejections().iter().copied().fold(0.0, f64::max);
    assert!(
        largest < 1.2 * run.barrier() / 12.0,
        "{:?}",
        run.rejections()
    );
    assert!(run.schedule().betas()[1] < 1e-6, "{:?}", run.schedule());
}

#[test]
fn a_support_that_shrinks_is_found() {
    let target = shared::function(|x: &DVector<f64>| match (1.0..2.0).contains(&x[0]) {
        true => 3.0,
        false => f64::NEG_INFINITY,
    });
    let path = GeometricPath::new(normal(0.0, 1.0), target);
    let run = Tempering::new(&path, walk(0.5))
        .schedule(linear(3))
        .seed(1)
        .run()
        .unwrap();
    assert_eq!(run.warnings(), [], "{run}");
    let error = (run.log_z() - 3.0).abs();
    assert!(
        error < 4.0 * run.standard_error() && run.standard_error() < 0.05,
        "{run}"
    );
    assert!(run.states().iter().all(|x| (1.0..2.0).contains(&x[0])));

    let nowhere = shared::function(|_: &DVector<f64>| f64::NEG_INFINITY);
    let path = GeometricPath::new(normal(0.0, 1.0), nowhere);
    let message = Tempering::new(&path, walk(0.5))
        .rounds(4)
        .run()
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("has any weight") && message.contains("NestedSmc"),
        "{message}"
    );
}

#[test]
fn bad_input_is_named() {
    let path = GeometricPath::new(normal(0.0, 1.0), normal(1.0, 1.0));
    let message = |change: fn(Tempering<'_, _, RandomWalkMetropolis>) -> Tempering<'_, _, _>| {
        let run = change(Tempering::new(&path, walk(0.5)).rounds(3)).run();
        run.unwrap_err().to_string()
    };
    assert_eq!(
        message(|t| t.ladders(1)),
        "invalid ladders: got 1, expected at least 2"
    );
    assert_eq!(
        message(|t| t.rounds(0)),
        "invalid rounds: got 0, expected 1 to 30"
    );
    assert_eq!(
        message(|t| t.rounds(31)),
        "invalid rounds: got 31, expected 1 to 30"
    );
    assert!(message(|t| t.ladders(1 << 40)).contains("ladders"));
    assert!(message(|t| t.ladders(1 << 29)).contains("states of all ladders"));
    assert!(message(|t| t.block_size(0)).contains("block_size"));
    assert!(message(|t| t.samples(0)).contains("samples"));
    assert!(message(|t| t.threads(0)).contains("threads"));
    let nan = Tempering::with_base_log_z(&path, walk(0.5), f64::NAN).run();
    assert!(nan.unwrap_err().to_string().contains("log normalizer"));

    let faulty = |fault: fn() -> f64| {
        let density = move |x: &DVector<f64>| if x[0] > 2.5 { fault() } else { 0.0 };
        let path = GeometricPath::new(normal(0.0, 1.0), shared::function(density));
        [1, 2].map(|threads| {
            let tempering = Tempering::new(&path, walk(0.5)).schedule(linear(4));
            tempering.threads(threads).run().unwrap_err().to_string()
        })
    };
    let [infinite, on_two_threads] = faulty(|| f64::INFINITY);
    assert_eq!(infinite, on_two_threads);
    assert!(infinite.contains("is inf in chain"), "{infinite}");
    let [nan, on_two_threads] = faulty(|| f64::NAN);
    assert_eq!(nan, on_two_threads);
    assert!(
        nan.contains("is NaN in chain") && nan.contains("at stage"),
        "{nan}"
    );
    // A panic stops all ladders, so that the one named is the first that met it, on whichever thread.
    for panic in faulty(|| panic!("no density here")) {
        assert!(
            panic.contains("no density here") && panic.contains("beta ="),
            "{panic}"
        );
    }
}

/// The error falls with the square root of the number of scans: so many rounds as the warning says reach it.
#[test]
fn an_error_that_is_not_reached_is_named_with_the_rounds_that_reach_it() {
    let path = GeometricPath::new(normal(0.0, 1.0), normal(2.0, 0.5));
    let tempering = |rounds| Tempering::new(&path, walk(1.0)).ladders(32).rounds(rounds);
    let not_reached = |w: &&Warning| matches!(w, Warning::ErrorNotReached { .. });
    let few = tempering(6).until_error(0.01).run().unwrap();
    assert_eq!(few.stopped_by(), StoppedBy::Chains);
    let warning = few.warnings().iter().find(not_reached).unwrap();
    let text = warning.to_string();
    let more: usize = text.split("about ").nth(1).unwrap()[..1].parse().unwrap();
    assert!((2..9).contains(&more), "{text}");
    let enough = tempering(6 + more).run().unwrap();
    assert!(enough.standard_error() < 0.015, "{text} {enough}");
    let until = tempering(20).until_error(0.01).run().unwrap();
    assert_eq!(until.stopped_by(), StoppedBy::StandardError);
    assert!(!until.warnings().iter().any(|w| not_reached(&w)), "{until}");
}

#[test]
fn doubtful_runs_warn() {
    let names = |target: Gaussian, scale: f64, ladders, steps| {
        let path = GeometricPath::new(normal(0.0, 1.0), target);
        let run = Tempering::new(&path, walk(scale))
            .schedule(linear(steps))
            .ladders(ladders);
        let run = run.rounds(6).run().unwrap();
        let lines = run.to_string().lines().count();
        assert_eq!(lines, 1 + run.warnings().len());
        run.warnings()
            .iter()
            .map(|warning| warning.name())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(normal(20.0, 1.0), 1.0, 8, 3),
        ["RejectedSwaps", "FewRoundTrips"]
    );
    assert_eq!(names(normal(0.5, 1.0), 1.0, 3, 3), ["FewLadders"]);
    assert_eq!(names(normal(0.5, 1.0), 1e9, 8, 1), ["ZeroAcceptance"]);
    assert!(names(normal(0.5, 1.0), 1.0, 8, 3).is_empty());
}

#[cfg(feature = "serde")]
#[test]
fn a_saved_run_keeps_its_states_and_its_text() {
    let path = GeometricPath::new(normal(0.0, 1.0), normal(1.0, 1.0));
    let run = Tempering::new(&path, walk(0.5)).rounds(4).run().unwrap();
    let text = serde_json::to_string(&run).unwrap();
    let read: annealed::tempering::TemperingRun<DVector<f64>> =
        serde_json::from_str(&text).unwrap();
    assert_eq!(read.to_string(), run.to_string());
    assert_eq!(read.states(), run.states());
}
