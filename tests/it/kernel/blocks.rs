//! Blocks of chains: masks, rest, and mixtures that move together.

use std::f64::consts::PI;

use crate::shared::{self, gaussians::correlated_path};
use annealed::adaptive::FirstPass;
use annealed::ais::{Ais, Run};
use annealed::drift::DriftModifiedLangevin;
use annealed::estimate::LogZ;
use annealed::kernel::{
    Block, Hmc, Increment, Mixture, NonFinite, RandomWalkMetropolis, Repeat, Sequence, Stage, Step,
    TransitionKernel, UnadjustedLangevin,
};
use annealed::learned::{LearnedTransitions, Mean};
use annealed::model::{Gaussian, NormalizedModel, Sampleable};
use annealed::path::{GaussianPath, GeometricPath, Intermediate, SimdLevel, Stationary};
use annealed::pilot::{BinnedSchedule, KnotChains, ScheduleOptimizer, VarOpt};
use annealed::population::Population;
use annealed::random::{Purpose, StreamRng, stream};
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath};
use annealed::schedule::Schedule;
use annealed::{Error, testing};
use nalgebra::{DMatrix, DVector, dvector};
use rand::Rng;

fn streams(chains: usize) -> Vec<StreamRng> {
    let stream_of = |chain| stream(3, Purpose::RUN, chain);
    (0..chains).map(stream_of).collect()
}

fn block(chains: usize) -> Block<DVector<f64>> {
    let mut rngs = streams(chains);
    let states = rngs
        .iter_mut()
        .map(|rng| correlated_path().base().sample(rng));
    let states = states.collect();
    Block::new(0, states, rngs)
}

#[test]
fn a_population_refuses_betas_beyond_the_path() {
    let path = correlated_path();
    let walk = RandomWalkMetropolis::new(0.5).unwrap();
    let mut population = Population::start(&path, 0, 2, stream(1, Purpose::RUN, 0)).unwrap();
    for beta in [-0.1, 1.5, f64::NAN] {
        assert!(population.advance_to(&walk, beta).is_err(), "{beta}");
        assert!(population.place_at(beta).is_err(), "{beta}");
    }
    assert_eq!(population.stage().index, 0);
}

#[test]
fn masked_chains_keep_state_weight_ratio_and_stream() {
    let path = correlated_path();
    let (left, reached) = (path.at(0.3), path.at(0.6));
    let stage = Stage::new(1, &left, &reached);
    let kernel = RandomWalkMetropolis::new(0.5).unwrap();
    let before = block(4);
    let mut block = before.clone();
    // Masks intersect: of chains 0 and 1, and 1 and 2, chain 1 alone moves.
    let (mut outer, mut inner) = (
        vec![true, true, false, false],
        vec![false, true, true, false],
    );
    let moved = block.masked(&mut outer, |block| {
        block.masked(&mut inner, |block| {
            assert!(!block.is_active(0) && block.is_active(1) && !block.is_active(2));
            kernel.advance(stage, block, &mut Default::default())
        })
    });
    moved.unwrap();
    assert_eq!(block.decisions().proposals, 1);
    for chain in 0..4 {
        let (mut now, mut then) = (block.clone(), before.clone());
        let same = now.chain_mut(chain) == then.chain_mut(chain)
            && block.log_weights()[chain] == before.log_weights()[chain]
            && block.log_ratios()[chain] == before.log_ratios()[chain];
        assert_eq!(same, chain != 1, "{chain}");
        assert!(block.is_active(chain), "the mask is lifted");
    }
}

#[test]
fn a_mask_is_lifted_after_an_error_too() {
    let mut block = block(3);
    let failed = block.masked(&mut vec![true, false, false], |_| {
        Err(Error::invalid("work", "none", "some"))
    });
    assert!(failed.is_err());
    assert!((0..3).all(|chain| block.is_active(chain)));
}

/// The second kernel of a stage moves at rest: it adds no weight, and the log ratios of the first kernel stay.
#[test]
fn at_rest_nothing_is_weighed_and_ratios_stay() {
    let path = correlated_path();
    let walk = RandomWalkMetropolis::new(0.5).unwrap();
    let mut population = Population::start(&path, 0, 20, stream(1, Purpose::RUN, 0)).unwrap();
    population.advance_to(&walk, 0.5).unwrap();
    let (ratios, weights) = (
        population.block().log_ratios().to_vec(),
        population.block().log_weights().to_vec(),
    );
    assert!(ratios.iter().all(|ratio| *ratio != 0.0));
    population.stay(&walk).unwrap();
    assert_eq!(population.block().log_ratios(), ratios);
    assert_eq!(population.block().log_weights(), weights);
    // The kernel's correction is added at rest as well.
    let ula = UnadjustedLangevin::new(0.2).unwrap();
    let mut population = Population::start(&path, 0, 20, stream(1, Purpose::RUN, 0)).unwrap();
    population.stay(&ula).unwrap();
    assert!(population.block().log_weights().iter().all(|w| *w != 0.0));
    assert!(population.block().log_ratios().iter().all(|r| *r == 0.0));
}

/// Where the chains end if they are shifted once a stage: at the target's mean. Shifted twice they
/// end twice as far from the base.
#[test]
fn a_drift_modified_kernel_shifts_once_a_stage() {
    let target = Gaussian::isotropic(dvector![3.0], 0.5).unwrap();
    let path = GaussianPath::new(Gaussian::standard(1).unwrap(), target).unwrap();
    let kernel = DriftModifiedLangevin::new(&path, 1e-3).unwrap();
    let schedule = Schedule::linear(50).unwrap();
    let check = |run: annealed::Result<Run<DVector<f64>>>| {
        let run = run.unwrap();
        let mean = run.states().iter().map(|x| x[0]).sum::<f64>() / run.chains() as f64;
        let exact = path.target().log_normalizer();
        assert!((mean - 3.0).abs() < 0.2, "{mean}");
        assert!(
            (run.log_z() - exact).abs() < 4.0 * run.standard_error(),
            "{run}"
        );
    };
    let twice = Sequence(kernel.clone(), kernel.clone());
    check(
        Ais::new(&path, twice)
            .schedule(schedule.clone())
            .chains(300)
            .run(),
    );
    let repeated = Repeat::new(kernel, 2).unwrap();
    check(
        Ais::new(&path, repeated)
            .schedule(schedule)
            .chains(300)
            .run(),
    );
}

fn rbm_path() -> RbmPath<f64> {
    let weights = DMatrix::from_row_slice(2, 3, &[1.0, -1.0, 0.5, -0.5, 1.0, 2.0]);
    let target = Rbm::new(weights, dvector![0.2, -0.3], dvector![0.1, -0.2, 0.3]);
    RbmPath::new(BaseRate::uniform(2, 3).unwrap(), target.unwrap()).unwrap()
}

/// The chains that chose one kernel are gathered and move as a block.
#[test]
fn a_mixture_of_block_gibbs_moves_together_and_is_exact() {
    let path = rbm_path();
    let twice = Repeat::new(BlockGibbs, 2).unwrap();
    let kernel = Mixture::new(0.4, BlockGibbs, twice).unwrap();
    let log_ratio = 4.823_180_957_934_806_f64.ln();
    for steps in [1, 4] {
        let schedule = Schedule::linear(steps).unwrap();
        let check = testing::unbiasedness(&path, &kernel, schedule, log_ratio, 60_000, 3).unwrap();
        assert!(check.passes() && check.standard_error < 0.01, "{check}");
    }
    // One uniform a chain for its choice; all other bits come from the block's own generators.
    let mut rngs = streams(40);
    let states: Vec<_> = rngs.iter_mut().map(|rng| path.base().sample(rng)).collect();
    let mut block = Block::new(0, states, rngs);
    let (mut then, stage) = (block.clone(), (path.at(0.0), path.at(0.5)));
    let stage = Stage::new(1, &stage.0, &stage.1);
    kernel
        .advance(stage, &mut block, &mut Default::default())
        .unwrap();
    for chain in 1..40 {
        then.chain_mut(chain).1.next_u64();
        assert_eq!(block.clone().chain_mut(chain).1, then.chain_mut(chain).1);
    }
    let weighed = block.log_ratios().iter().zip(then.states());
    for (ratio, state) in weighed {
        assert!((ratio - stage.log_ratio(state)).abs() < 1e-12);
    }
}

/// Where all chains choose one kernel, none is left for the other.
#[test]
fn a_mixture_may_leave_a_kernel_without_chains() {
    let path = rbm_path();
    let exact = path.target().exact_log_normalizer().unwrap();
    for engine in SimdLevel::ALL.into_iter().filter(|e| e.is_available()) {
        let path = path.clone().with_simd_level(engine).unwrap();
        for probability in [0.0, 1.0] {
            let kernel = Mixture::new(probability, BlockGibbs, BlockGibbs).unwrap();
            let run = Ais::new(&path, kernel).schedule(Schedule::linear(4).unwrap());
            let run = run.chains(200).run().unwrap();
            let error = run.log_z() - exact;
            assert!(error.abs() < 4.0 * run.standard_error(), "{engine}: {run}");
            assert!(run.standard_error() < 0.1, "{engine}: {run}");
        }
    }
}

/// Right for one chain, wrong for a block: what a check that never moves a block would miss.
struct WrongAsABlock(bool);

impl<M: Intermediate<State = DVector<f64>>> TransitionKernel<M> for WrongAsABlock {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        _stage: Stage<'_, M>,
        _state: &mut DVector<f64>,
        _workspace: &mut (),
        _rng: &mut R,
    ) -> Result<Step, NonFinite> {
        Ok(Step::invariant())
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        _workspace: &mut (),
    ) -> annealed::Result<()> {
        block.for_each(stage, |_, state, _| {
            if self.0 {
                *state *= 1.01;
            }
            Ok(Increment::new(stage.log_ratio(state), Step::invariant()))
        })
    }
}

#[test]
fn the_check_of_invariance_moves_blocks() {
    let model = Stationary(Gaussian::standard(2).unwrap());
    let check = |wrong| {
        let sample = |rng: &mut _| model.sample(rng);
        let square = |x: &DVector<f64>| x.norm_squared();
        testing::invariance(&model, &WrongAsABlock(wrong), sample, square, 4, 20_000, 1).unwrap()
    };
    assert!(check(false).passes());
    assert!(!check(true).passes());
}

#[test]
fn kernels_that_demand_their_stages_are_refused_where_stages_are_sought() {
    let path = correlated_path();
    let flow = LearnedTransitions::new(Mean::Affine, 2, 3, 1).unwrap();
    let refused = |error: Error| {
        let named = matches!(
            error,
            Error::InvalidArgument {
                argument: "kernel",
                ..
            }
        );
        assert!(named && error.to_string().contains("3 stages"), "{error}");
    };
    let knots = KnotChains {
        updates: 20,
        burn_in: 10,
        thinning: 5,
        ..KnotChains::default()
    };
    let binned = BinnedSchedule::new(Schedule::linear(5).unwrap()).chains(knots);
    refused(binned.optimize(&path, &flow, 20, 1).unwrap_err());
    refused(binned.estimate_costs(&path, &flow, 1).unwrap_err());
    refused(FirstPass::fixed(&path, &flow).run().unwrap_err());
    // Before anything runs: this base has no sample to give.
    let silent = shared::function(|x: &DVector<f64>| -x.norm_squared())
        .with_sampler(shared::sampler(|_: &mut dyn Rng| {
            panic!("a chain was started")
        }))
        .with_log_normalizer(PI.ln())
        .unwrap();
    let silent = GeometricPath::new(silent, Gaussian::standard(2).unwrap());
    refused(binned.estimate_costs(&silent, &flow, 1).unwrap_err());
    refused(FirstPass::fixed(&silent, &flow).run().unwrap_err());
    let composed = Sequence(flow, Hmc::new(0.2, 2).unwrap());
    refused(FirstPass::fixed(&path, &composed).run().unwrap_err());
    let run = Ais::new(&path, &composed).schedule(Schedule::linear(4).unwrap());
    assert!(
        run.run()
            .unwrap_err()
            .to_string()
            .contains("got 4, expected 3")
    );
    // By hand, beyond the last transition.
    let mut population = Population::start(&path, 0, 5, stream(1, Purpose::RUN, 0)).unwrap();
    for beta in [0.2, 0.4, 0.6] {
        population.advance_to(&composed, beta).unwrap();
    }
    let error = population.advance_to(&composed, 0.8).unwrap_err();
    assert!(
        error.to_string().contains("index of the stage is 4"),
        "{error}"
    );
    let error = VarOpt::default()
        .optimize(&path, &composed, 20, 1)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("stages of the pilot: got 1000, expected 3"),
        "{error}"
    );
    let walk = RandomWalkMetropolis::new(0.5).unwrap();
    assert!(FirstPass::new(&path, walk).run().is_ok());
}
