//! A test that a population continues with the same bits after it is written and read between two stages, for every
//! kernel.

use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use serde::{Serialize, de::DeserializeOwned};

use crate::ais::fingerprint;
use crate::drift::{
    DriftModifiedLangevin, QuadratureModifier, RidgeGibbs, RidgePath, SeparableModifier, Sinusoid,
};
use crate::kernel::{
    CoordinateGibbs, Hmc, Mala, Metropolis, Mixture, PerfectTransitions, Preconditioner,
    RandomWalkMetropolis, Repeat, Sequence, SymmetricProposal, TransitionKernel, Tunable,
    UnadjustedLangevin,
};
use crate::learned::{LearnedTransitions, Mean, Noise};
use crate::model::{FunctionModel, Gaussian};
use crate::num::SimdLevel;
use crate::path::{AnnealingPath, GaussianPath, GeometricPath};
use crate::population::Population;
use crate::random::{Purpose, stream};
use crate::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath, Scalar};
use crate::schedule::Schedule;
use crate::work::store::{decode, encode};

const STAGES: usize = 6;
const CHAINS: usize = 5;

fn bytes<P>(population: &Population<P>) -> Vec<u8>
where
    P: AnnealingPath<State: Serialize>,
{
    encode("population", &population.block().saved()).unwrap()
}

fn assert_goes_on<P, K>(path: P, kernel: K)
where
    P: AnnealingPath<State: Serialize + DeserializeOwned>,
    K: TransitionKernel<P::At>,
{
    let schedule = Schedule::linear(STAGES).unwrap();
    let betas = schedule.betas();
    let start = || {
        let first = stream(5, Purpose::TESTING, 0);
        Population::<P>::start(path.clone(), 0, CHAINS, first).unwrap()
    };
    let pass = |population: &mut Population<P>, stages: std::ops::Range<usize>| {
        for k in stages {
            population.advance_to(&kernel, betas[k + 1]).unwrap();
            population.stay(&kernel).unwrap();
        }
    };
    let mut whole = start();
    pass(&mut whole, 0..STAGES);
    for (cut, &beta) in betas.iter().enumerate() {
        let mut population = start();
        pass(&mut population, 0..cut);
        let written = bytes(&population);
        let saved = decode("population", &written).unwrap();
        let read = Population::<P>::restored(path.clone(), beta, &(0..CHAINS), saved);
        let mut population = read.unwrap().at_stage(cut);
        pass(&mut population, cut..STAGES);
        let name = std::any::type_name::<K>();
        assert_eq!(bytes(&population), bytes(&whole), "{name}, cut at {cut}");
    }
}

fn gaussians() -> (Gaussian, Gaussian) {
    let target = Gaussian::new(dvector![1.0, -2.0], dmatrix![0.5, 0.2; 0.2, 0.4]);
    (Gaussian::standard(2).unwrap(), target.unwrap())
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.4).unwrap()
}

fn hmc() -> Hmc {
    Hmc::new(0.3, 2).unwrap()
}

#[test]
fn with_kernels_over_vectors() {
    let (base, target) = gaussians();
    let path = GeometricPath::new(base, target);
    let shape = Preconditioner::covariance(&dmatrix![1.0, 0.3; 0.3, 0.5]).unwrap();
    assert_goes_on(&path, walk());
    assert_goes_on(&path, Mala::new(0.2).unwrap());
    assert_goes_on(&path, UnadjustedLangevin::new(0.1).unwrap());
    assert_goes_on(&path, hmc());
    assert_goes_on(&path, walk().preconditioned(shape.clone()));
    assert_goes_on(&path, hmc().preconditioned(shape));
}

#[test]
fn with_kernels_made_of_kernels() {
    let (base, target) = gaussians();
    let path = GeometricPath::new(base, target);
    let mala = || Mala::new(0.2).unwrap();
    assert_goes_on(&path, Sequence(hmc(), walk()));
    assert_goes_on(&path, Sequence(mala(), hmc()));
    assert_goes_on(&path, Repeat::new(hmc(), 2).unwrap());
    assert_goes_on(&path, Mixture::new(0.5, hmc(), mala()).unwrap());
    let nested = Mixture::new(0.5, hmc(), Sequence(walk(), hmc()));
    assert_goes_on(&path, Repeat::new(nested.unwrap(), 2).unwrap());
}

#[test]
fn with_exact_draws() {
    let (base, target) = gaussians();
    let path = GaussianPath::new(base, target).unwrap();
    assert_goes_on(&path, CoordinateGibbs::systematic());
    assert_goes_on(&path, CoordinateGibbs::random_scan());
    assert_goes_on(&path, PerfectTransitions);
}

struct FlipOne;

impl SymmetricProposal<Vec<bool>> for FlipOne {
    fn propose<R: rand::Rng + ?Sized>(
        &self,
        _beta: f64,
        state: &Vec<bool>,
        proposal: &mut Vec<bool>,
        rng: &mut R,
    ) {
        proposal.clone_from(state);
        let bit = rand::RngExt::random_range(rng, 0..state.len());
        proposal[bit] = !proposal[bit];
    }
}

/// The support shrinks, so some chains die on the way.
#[test]
fn with_bits_and_dead_chains() {
    let base = FunctionModel::new(|_: &Vec<bool>| 0.0)
        .with_sampler(|rng| (0..9).map(|_| rand::RngExt::random(rng)).collect());
    let target = FunctionModel::new(|x: &Vec<bool>| match x[0] {
        true => x.iter().filter(|&&on| on).count() as f64,
        false => f64::NEG_INFINITY,
    });
    let path = GeometricPath::new(base, target);
    assert_goes_on(&path, Metropolis(FlipOne));
}

fn rbm_path<T: Scalar>(engine: SimdLevel) -> RbmPath<T> {
    let weight = |j, i| T::nearest(((7 * j + 3 * i) % 11) as f64 / 5.0 - 1.1);
    let (hidden, visible) = (DVector::zeros(70), DVector::zeros(130));
    let target = Rbm::new(DMatrix::from_fn(70, 130, weight), hidden, visible).unwrap();
    let path = RbmPath::new(BaseRate::uniform(70, 130).unwrap(), target).unwrap();
    path.with_simd_level(engine).unwrap()
}

fn mixture_path<T: Scalar>(rates: [f64; 2]) -> RbmPath<T> {
    let models = rates.map(|p| {
        let model = BaseRate::from_rates(70, &DVector::repeat(130, p));
        (1.0, model.unwrap())
    });
    let target = rbm_path(SimdLevel::Portable).target().clone();
    RbmPath::new(BaseRate::mixture(models).unwrap(), target).unwrap()
}

#[test]
fn with_block_gibbs_of_rbms() {
    assert_goes_on(&mixture_path::<f32>([0.5, 0.2]), BlockGibbs);
    assert_goes_on(&mixture_path::<f64>([0.5, 0.2]), BlockGibbs);
    for engine in SimdLevel::ALL.into_iter().filter(|e| e.is_available()) {
        assert_goes_on(&rbm_path::<f32>(engine), BlockGibbs);
        let path = rbm_path::<f64>(engine);
        assert_goes_on(&path, BlockGibbs);
        assert_goes_on(
            &path,
            Mixture::new(0.5, BlockGibbs, Sequence(BlockGibbs, BlockGibbs)).unwrap(),
        );
    }
}

#[test]
fn a_fingerprint_sees_each_component_of_a_mixture() {
    let schedule = Schedule::linear(STAGES).unwrap();
    let found = |rates| {
        let path = mixture_path::<f32>(rates);
        fingerprint(&path, &BlockGibbs, &schedule).unwrap()
    };
    assert_eq!(found([0.5, 0.2]), found([0.5, 0.2]));
    assert_ne!(found([0.5, 0.2]), found([0.5001, 0.2]));
    assert_ne!(found([0.5, 0.2]), found([0.5, 0.2001]));
}

#[test]
fn a_fingerprint_sees_weights_and_engines() {
    let schedule = Schedule::linear(STAGES).unwrap();
    let path = rbm_path::<f32>(SimdLevel::Portable);
    let found = fingerprint(&path, &BlockGibbs, &schedule).unwrap();
    let again = fingerprint(
        &rbm_path::<f32>(SimdLevel::Portable),
        &BlockGibbs,
        &schedule,
    );
    assert_eq!(again.unwrap(), found);
    let mut weights = path.target().weights().clone();
    weights[(3, 5)] += 1e-3;
    let biases = (DVector::zeros(70), DVector::zeros(130));
    let target = Rbm::new(weights, biases.0, biases.1).unwrap();
    let other = RbmPath::new(BaseRate::uniform(70, 130).unwrap(), target).unwrap();
    let other = other.with_simd_level(SimdLevel::Portable).unwrap();
    assert_ne!(fingerprint(&other, &BlockGibbs, &schedule).unwrap(), found);
    for engine in SimdLevel::ALL.into_iter().skip(1) {
        if engine.is_available() {
            let other = fingerprint(&rbm_path::<f32>(engine), &BlockGibbs, &schedule);
            assert_ne!(other.unwrap(), found, "{engine}");
        }
    }
}

#[test]
fn with_learned_transitions() {
    let (base, target) = gaussians();
    let path = GeometricPath::new(base, target);
    let flow = LearnedTransitions::new(Mean::Gated { hidden: 3 }, 2, STAGES, 1).unwrap();
    assert_goes_on(&path, &flow);
    let degrees_of_freedom = 5;
    assert_goes_on(
        &path,
        flow.with_noise(Noise::Student { degrees_of_freedom })
            .unwrap(),
    );
}

#[test]
fn with_modified_drift_and_ridges() {
    let normal = |mean, deviation| Gaussian::isotropic(dvector![mean], deviation).unwrap();
    let path = GaussianPath::new(normal(0.0, 1.0), normal(0.5, 0.8)).unwrap();
    let schedule = Schedule::linear(3).unwrap();
    let table = QuadratureModifier::new(&path, &schedule, (-6.0, 6.0), 101).unwrap();
    let modifier = SeparableModifier::new([table]);
    assert_goes_on(&path, DriftModifiedLangevin::new(modifier, 0.1).unwrap());
    let wave = |amplitude| Sinusoid {
        amplitude,
        frequency: 2.0,
        phase: 0.0,
    };
    let design = dmatrix![1.0, 0.0; 0.0, 1.0; 1.0, 1.0];
    let path = RidgePath::new(design, [1.0, -1.0, 0.5].map(wave), 6.0, 1.0, 0.3).unwrap();
    assert_goes_on(&path, RidgeGibbs::augmented());
    assert_goes_on(&path, RidgeGibbs::collapsed());
    assert_goes_on(&path, RidgeGibbs::tilted());
}
