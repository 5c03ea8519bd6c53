//! A stage of a run over vector states, or over an RBM's, allocates nothing: ten times the stages,
//! not one more allocation.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use annealed::ais::Ais;
use annealed::kernel::{
    Hmc, Mala, Preconditioner, RandomWalkMetropolis, Repeat, TransitionKernel, Tunable,
    UnadjustedLangevin,
};
use annealed::model::{Gaussian, NormalizedModel};
use annealed::path::{AnnealingPath, GeometricPath, SimdLevel};
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath, Scalar};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector};

/// Counts what each thread allocates. The other tests of the binary allocate through it as well.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static STAGES: Cell<usize> = const { Cell::new(0) };
    /// Number of allocations before the end of the last stage.
    static AT_LAST_STAGE: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator; the counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The counter is gone while a thread ends.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of a run of one block, on the calling thread, until its last stage.
fn allocations<P, K>(path: P, kernel: &K, stages: usize) -> usize
where
    P: AnnealingPath<Base: NormalizedModel, State: Send> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let count_stage = || {
        STAGES.set(STAGES.get() + 1);
        AT_LAST_STAGE.set(ALLOCATIONS.get());
        false
    };
    let run = Ais::new(path, kernel)
        .schedule(Schedule::linear(stages).unwrap())
        .chains(10)
        .recorded_stages(5)
        .stop_when(count_stage);
    STAGES.set(0);
    let before = ALLOCATIONS.get();
    let _part = run.run_range(0..10).unwrap();
    assert_eq!(STAGES.get(), stages, "the run must be on this thread");
    AT_LAST_STAGE.get() - before
}

fn assert_none_per_stage<P, K>(path: P, kernel: K)
where
    P: AnnealingPath<Base: NormalizedModel, State: Send> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    // The first run may set up what the process keeps.
    allocations(&path, &kernel, 10);
    let (short, long) = (
        allocations(&path, &kernel, 10),
        allocations(&path, &kernel, 100),
    );
    let found = (long - short) as f64 / 90.0;
    assert!(
        found == 0.0,
        "{found} allocations a stage: {}",
        std::any::type_name::<K>()
    );
}

#[test]
fn a_stage_over_vectors_allocates_nothing() {
    let mean = DVector::from_element(9, 1.0);
    let target = Gaussian::new(mean, DMatrix::identity(9, 9) * 0.3).unwrap();
    let path = GeometricPath::new(Gaussian::standard(9).unwrap(), target);
    assert_none_per_stage(&path, RandomWalkMetropolis::new(0.3).unwrap());
    assert_none_per_stage(&path, Mala::new(0.1).unwrap());
    assert_none_per_stage(&path, UnadjustedLangevin::new(0.01).unwrap());
    assert_none_per_stage(&path, Hmc::new(0.2, 3).unwrap());
    assert_none_per_stage(&path, Repeat::new(Mala::new(0.1).unwrap(), 2).unwrap());
    let covariance = DMatrix::from_fn(9, 9, |i, j| if i == j { 1.0 } else { 0.4 });
    let dense = Preconditioner::covariance(&covariance).unwrap();
    let diagonal = Preconditioner::deviations(DVector::from_element(9, 0.7)).unwrap();
    for shape in [dense, diagonal] {
        let shape = || shape.clone();
        let walk = RandomWalkMetropolis::new(0.3).unwrap();
        assert_none_per_stage(&path, walk.preconditioned(shape()));
        assert_none_per_stage(&path, Mala::new(0.1).unwrap().preconditioned(shape()));
        assert_none_per_stage(&path, Hmc::new(0.2, 3).unwrap().preconditioned(shape()));
    }
}

#[test]
fn a_stage_over_an_rbm_allocates_nothing() {
    for engine in SimdLevel::ALL.into_iter().filter(|e| e.is_available()) {
        for rates in [&[0.5][..], &[0.5, 0.2, 0.9]] {
            assert_none_per_stage(&rbm_path::<f32>(engine, rates), BlockGibbs);
            assert_none_per_stage(&rbm_path::<f64>(engine, rates), BlockGibbs);
            let repeated = Repeat::new(BlockGibbs, 2).unwrap();
            assert_none_per_stage(&rbm_path::<f32>(engine, rates), repeated);
        }
    }
}

/// From a mixture of models whose units are all on at one of these rates.
fn rbm_path<T: Scalar>(engine: SimdLevel, rates: &[f64]) -> RbmPath<T> {
    let weights = DMatrix::from_fn(70, 130, |j, i| {
        T::nearest(((7 * j + 3 * i) % 11) as f64 / 5.0 - 1.1)
    });
    let (hidden, visible) = (DVector::zeros(70), DVector::zeros(130));
    let target = Rbm::new(weights, hidden, visible).unwrap();
    let models = rates.iter().map(|&p| {
        let model = BaseRate::from_rates(70, &DVector::repeat(130, p));
        (1.0, model.unwrap())
    });
    let path = RbmPath::new(BaseRate::mixture(models).unwrap(), target).unwrap();
    path.with_simd_level(engine).unwrap()
}
