//! Deliberately wrong kernels, each beside its right twin: the checks tell them apart.

use annealed::kernel::{
    Block, Increment, NonFinite, RandomWalkMetropolis, Sequence, Stage, Step, TransitionKernel,
    UnadjustedLangevin,
};
use annealed::model::{Differentiable, FullConditionals, Sampleable};
use annealed::path::Intermediate;
use annealed::rbm::{BaseRate, BlockGibbs, EnumeratedRbm, Rbm, RbmAt, RbmPath};
use annealed::testing;
use nalgebra::{DMatrix, DVector, dvector};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::{Worst, gaussian_pair, half_line, invariance, random_walk};

fn assert_told_apart(check: impl Fn(bool) -> Worst) {
    let (right, wrong) = (check(false), check(true));
    assert!(right.passes(), "the right twin fails: {right:?}");
    assert!(wrong.fails(), "the wrong kernel goes unnoticed: {wrong:?}");
}

fn normals<R: Rng + ?Sized>(dimension: usize, rng: &mut R) -> DVector<f64> {
    DVector::from_fn(dimension, |_, _| rng.sample(StandardNormal))
}

/// The gradient, 0 off the support.
fn drift<M: Differentiable>(model: &M, x: &DVector<f64>) -> DVector<f64> {
    if model.log_density(x) == f64::NEG_INFINITY {
        DVector::zeros(x.len())
    } else {
        model.gradient(x)
    }
}

fn accept<R: Rng + ?Sized>(log_acceptance: f64, rng: &mut R) -> bool {
    rng.random::<f64>().ln() < log_acceptance
}

#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// Adjusted: the test is left out.
    AlwaysAccepts,
    /// Adjusted: the test ignores the proposal densities.
    IgnoresProposal,
    /// Unadjusted: the drift in B has the wrong sign.
    BackwardSign,
    /// Unadjusted: the correction is left out.
    NoCorrection,
    /// Unadjusted: goes off the support, at weight 0.
    LeavesSupport,
}

/// Langevin steps, written out by their densities.
#[derive(Clone, Copy)]
struct Langevin {
    variance: f64,
    adjusted: bool,
    flaw: Flaw,
}

impl<M: Differentiable + Intermediate> TransitionKernel<M> for Langevin {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        x: &mut DVector<f64>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let half = 0.5 * self.variance;
        let onward = &*x + half * drift(stage.model, x);
        let y = &onward + self.variance.sqrt() * normals(x.len(), rng);
        let sign = if self.flaw == Flaw::BackwardSign {
            -1.0
        } else {
            1.0
        };
        let back = &y + sign * half * drift(stage.model, &y);
        let proposal =
            ((&y - onward).norm_squared() - (&*x - back).norm_squared()) / (2.0 * self.variance);
        let there = stage.model.log_density(&y);
        let density = there - stage.model.log_density(x);
        if self.adjusted {
            let log_acceptance = match self.flaw {
                Flaw::AlwaysAccepts => 0.0,
                Flaw::IgnoresProposal => density,
                _ => density + proposal,
            };
            if accept(log_acceptance, rng) {
                *x = y;
            }
            return Ok(Step::invariant());
        }
        if there == f64::NEG_INFINITY && self.flaw != Flaw::LeavesSupport {
            return Ok(Step::corrected(0.0));
        }
        *x = y;
        Ok(Step::corrected(match self.flaw {
            Flaw::NoCorrection => 0.0,
            _ => density + proposal,
        }))
    }
}

/// The right twin, checked once, beside each of the flaws.
fn assert_flaws_told_apart<const N: usize>(flaws: [Flaw; N], check: impl Fn(Flaw) -> Worst) {
    let right = check(Flaw::None);
    for flaw in flaws {
        assert_told_apart(|wrong| if wrong { check(flaw) } else { right });
    }
}

#[test]
fn langevin_without_its_metropolis_test_is_found_out() {
    let kernel = |flaw| Langevin {
        variance: 0.4,
        adjusted: true,
        flaw,
    };
    let flaws = [Flaw::AlwaysAccepts, Flaw::IgnoresProposal];
    assert_flaws_told_apart(flaws, |flaw| invariance(&kernel(flaw)));
    assert_flaws_told_apart(flaws, |flaw| gaussian_pair(kernel(flaw), 10));
}

fn unadjusted(variance: f64, flaw: Flaw) -> Langevin {
    Langevin {
        variance,
        adjusted: false,
        flaw,
    }
}

#[test]
fn langevin_with_a_wrong_correction_is_found_out() {
    let flaws = [Flaw::BackwardSign, Flaw::NoCorrection];
    assert_flaws_told_apart(flaws, |flaw| invariance(&unadjusted(0.35, flaw)));
    assert_flaws_told_apart(flaws, |flaw| gaussian_pair(unadjusted(0.5, flaw), 10));
}

#[test]
fn langevin_that_leaves_a_bounded_support_is_found_out() {
    assert_flaws_told_apart([Flaw::LeavesSupport], |flaw| {
        half_line(unadjusted(0.4, flaw), 6)
    });
}

/// Metropolis-adjusted Langevin in the coordinates `y = L^{-1} x`, where the drift of x may lack a factor:
/// L in place of `L L^T`.
struct ShapedLangevin(bool);

impl<M: Differentiable + Intermediate> TransitionKernel<M> for ShapedLangevin {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        x: &mut DVector<f64>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let (half, deviation) = (0.25, 0.5_f64.sqrt());
        let shape = DMatrix::from_row_slice(2, 2, &[1.2, 0.0, -0.6, 0.5]);
        let pull = |x: &_| half * shape.transpose() * drift(stage.model, x);
        let noise = deviation * normals(x.len(), rng);
        let moved = match self.0 {
            true => half * drift(stage.model, x),
            false => pull(x),
        };
        let y = &*x + &shape * (moved + &noise);
        let back = pull(x) + &noise + pull(&y);
        let proposal = (noise.norm_squared() - back.norm_squared()) / (2.0 * deviation.powi(2));
        let density = stage.model.log_density(&y) - stage.model.log_density(x);
        if accept(density + proposal, rng) {
            *x = y;
        }
        Ok(Step::invariant())
    }
}

#[test]
fn a_shape_left_out_of_the_drift_is_found_out() {
    assert_told_apart(|wrong| invariance(&ShapedLangevin(wrong)));
    assert_told_apart(|wrong| gaussian_pair(ShapedLangevin(wrong), 10));
}

/// Draws every coordinate given the old values of the others.
struct SynchronousGibbs(bool);

impl<M: FullConditionals + Intermediate<State = DVector<f64>>> TransitionKernel<M>
    for SynchronousGibbs
{
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        x: &mut DVector<f64>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let old = x.clone();
        for i in 0..stage.model.coordinates() {
            let mut seen = if self.0 { old.clone() } else { x.clone() };
            stage.model.sample_coordinate(&mut seen, i, rng);
            x[i] = seen[i];
        }
        Ok(Step::invariant())
    }
}

#[test]
fn coordinates_drawn_at_once_are_found_out() {
    assert_told_apart(|wrong| invariance(&SynchronousGibbs(wrong)));
    assert_told_apart(|wrong| gaussian_pair(SynchronousGibbs(wrong), 4));
}

/// Chooses between two invariant kernels by where the chain is.
struct ChoosesByState(bool);

impl<M: Intermediate<State = DVector<f64>>> TransitionKernel<M> for ChoosesByState {
    type Workspace = <RandomWalkMetropolis as TransitionKernel<M>>::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        x: &mut DVector<f64>,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let short = if self.0 { x[0] > 0.0 } else { rng.random() };
        let kernel = RandomWalkMetropolis::new(if short { 0.1 } else { 2.0 }).unwrap();
        kernel.step(stage, x, workspace, rng)
    }
}

#[test]
fn a_kernel_chosen_by_the_state_is_found_out() {
    assert_told_apart(|wrong| invariance(&ChoosesByState(wrong)));
    assert_told_apart(|wrong| gaussian_pair(ChoosesByState(wrong), 4));
}

/// One kernel then another, but the first one's correction is lost.
struct LosesCorrection<A, B>(bool, Sequence<A, B>);

impl<M, A, B> TransitionKernel<M> for LosesCorrection<A, B>
where
    M: Intermediate,
    A: TransitionKernel<M>,
    B: TransitionKernel<M>,
{
    type Workspace = (A::Workspace, B::Workspace);

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        if !self.0 {
            return self.1.step(stage, state, workspace, rng);
        }
        let Sequence(first, second) = &self.1;
        first.step(stage, state, &mut workspace.0, rng)?;
        second.step(stage, state, &mut workspace.1, rng)
    }
}

#[test]
fn a_correction_lost_in_a_sequence_is_found_out() {
    let kernel = |step, wrong| {
        LosesCorrection(
            wrong,
            Sequence(UnadjustedLangevin::new(step).unwrap(), random_walk()),
        )
    };
    assert_told_apart(|wrong| invariance(&kernel(0.25, wrong)));
    assert_told_apart(|wrong| gaussian_pair(kernel(0.5, wrong), 10));
}

/// Metropolis that compares with the log density that it cached at the previous beta.
struct StaleBlend(bool);

impl<M: Intermediate<State = DVector<f64>>> TransitionKernel<M> for StaleBlend {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        x: &mut DVector<f64>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let y = &*x + 1.5 * normals(x.len(), rng);
        let cached = if self.0 { stage.previous } else { stage.model };
        if accept(stage.model.log_density(&y) - cached.log_density(x), rng) {
            *x = y;
        }
        Ok(Step::invariant())
    }
}

#[test]
fn a_stale_cached_blend_is_found_out() {
    assert_told_apart(|wrong| gaussian_pair(StaleBlend(wrong), 6));
}

/// Moves at the new beta first and weighs the state reached.
struct MovesFirst(bool);

impl<M: Intermediate<State = DVector<f64>>> TransitionKernel<M> for MovesFirst {
    type Workspace = <RandomWalkMetropolis as TransitionKernel<M>>::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        x: &mut DVector<f64>,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        random_walk().step(stage, x, workspace, rng)
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        workspace: &mut Self::Workspace,
    ) -> annealed::Result<()> {
        block.for_each(stage, |_, x, rng| {
            let before = stage.log_ratio(x);
            let step = self.step(stage, x, workspace, rng)?;
            let log_ratio = if self.0 { stage.log_ratio(x) } else { before };
            Ok(Increment::new(log_ratio, step))
        })
    }
}

#[test]
fn weight_and_transition_swapped_are_found_out() {
    assert_told_apart(|wrong| gaussian_pair(MovesFirst(wrong), 4));
}

/// A fused kernel: right for one chain, while a block moves as a whole at a beta that is out of date.
struct StaleBlock(bool);

impl<'a> TransitionKernel<RbmAt<'a, f64>> for StaleBlock {
    type Workspace = <BlockGibbs as TransitionKernel<RbmAt<'a, f64>>>::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, RbmAt<'a, f64>>,
        state: &mut Vec<bool>,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        BlockGibbs.step(stage, state, workspace, rng)
    }

    fn advance(
        &self,
        stage: Stage<'_, RbmAt<'a, f64>>,
        block: &mut Block<Vec<bool>>,
        workspace: &mut Self::Workspace,
    ) -> annealed::Result<()> {
        let stale = stage
            .model
            .path()
            .at(if self.0 { 0.7 } else { 1.0 } * stage.beta);
        BlockGibbs.advance(Stage::new(stage.index, &stale, &stale), block, workspace)
    }
}

#[test]
fn fused_block_gibbs_at_a_stale_beta_is_found_out() {
    let weights = DMatrix::from_row_slice(2, 3, &[2.0, -1.0, 1.5, -0.5, 1.0, 2.0]);
    let target = Rbm::new(weights, dvector![0.2, -0.3], dvector![0.1, -0.2, 0.3]);
    let path = RbmPath::new(BaseRate::uniform(2, 3).unwrap(), target.unwrap()).unwrap();
    let model = path.at(0.8);
    let exact = EnumeratedRbm::new(model.to_rbm().unwrap()).unwrap();
    assert_told_apart(|wrong| {
        let statistics: [fn(&Vec<bool>) -> f64; 3] = [
            |v| f64::from(v[0]),
            |v| f64::from(v[0] && v[2]),
            |v| f64::from(v[0] != v[1]),
        ];
        let (kernel, sample) = (StaleBlock(wrong), |rng: &mut _| exact.sample(rng));
        Worst::of(testing::invariances(&model, &kernel, sample, statistics, 4, 10_000, 1).unwrap())
    });
}
