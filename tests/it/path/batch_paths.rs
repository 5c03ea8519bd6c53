//! Paths of one's own to a model of batches: with two methods they take few calls, without them a run notes it.

use std::sync::atomic::{AtomicUsize, Ordering};

use annealed::kernel::Slice;
use annealed::path::{Ends, Intermediate};
use annealed::prelude::*;

/// A path whose share of the target grows with the square of beta, in batches or state by state.
struct Late<L> {
    base: Gaussian,
    target: L,
    in_batches: bool,
}

struct LateAt<'a, L>(&'a Late<L>, f64);

impl<'p, L: UnnormalizedModel<State = DVector<f64>>> AnnealingPath for &'p Late<L> {
    type State = DVector<f64>;
    type Base = Gaussian;
    type At = LateAt<'p, L>;

    fn base(&self) -> &Gaussian {
        &self.base
    }

    fn at(&self, beta: f64) -> LateAt<'p, L> {
        LateAt(self, beta)
    }
}

impl<L: UnnormalizedModel<State = DVector<f64>>> UnnormalizedModel for LateAt<'_, L> {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        self.log_density_at(self.ends(x, Ends::UNKNOWN))
    }

    fn evaluates_batches(&self) -> bool {
        self.0.in_batches
    }
}

impl<L: UnnormalizedModel<State = DVector<f64>>> Intermediate for LateAt<'_, L> {
    const HAS_ENDS: bool = true;

    fn beta(&self) -> f64 {
        self.1
    }

    fn ends(&self, x: &DVector<f64>, known: Ends) -> Ends {
        let known = known.or_base(|| self.0.base.log_density(x));
        known.or_target(|| self.0.target.log_density(x))
    }

    fn ends_of_batch(&self, states: &[DVector<f64>], bases: &mut [f64], targets: &mut [f64]) {
        for (x, base) in states.iter().zip(bases).filter(|(_, base)| base.is_nan()) {
            *base = self.0.base.log_density(x);
        }
        if targets.iter().any(|target| target.is_nan()) {
            self.0.target.log_densities(states, targets);
        }
    }

    fn log_density_at(&self, ends: Ends) -> f64 {
        let share = self.1 * self.1;
        (1.0 - share) * ends.base + share * ends.target
    }
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(1.0).unwrap()
}

/// log Z, the number of calls, and whether the text of the run has the note.
fn told<K>(
    run: impl FnOnce(Late<Box<Walls<'_>>>) -> K,
    calls: &AtomicUsize,
    in_batches: bool,
) -> K {
    let target = BatchModel::of_values(1, |states: &[f64], _| {
        calls.fetch_add(1, Ordering::Relaxed);
        Ok(states.iter().map(|x| -x.abs()).collect())
    });
    run(Late {
        base: Gaussian::standard(1).unwrap(),
        target: Box::new(target.unwrap()),
        in_batches,
    })
}

type Walls<'a> = dyn UnnormalizedModel<State = DVector<f64>> + Send + Sync + 'a;

#[test]
fn a_path_that_asks_for_single_states_is_noted() {
    let found = |in_batches: bool| {
        let calls = AtomicUsize::new(0);
        let run = |path: Late<Box<Walls<'_>>>| {
            let ais = Ais::new(&path, walk()).schedule(Schedule::linear(50).unwrap());
            ais.chains(256).run().unwrap()
        };
        let run = told(run, &calls, in_batches);
        (run.log_z(), calls.into_inner(), run.to_string())
    };
    let (together, few, plain) = found(true);
    let (alone, many, noted) = found(false);
    assert_eq!(together, alone);
    assert!(few < 200 && many > 256 * 50, "{few} and {many} calls");
    assert!(!plain.contains("note: "), "{plain}");
    assert!(
        noted.contains("\nnote: ") && noted.contains("`ends_of_batch`"),
        "{noted}"
    );
}

#[test]
fn a_kernel_that_moves_chain_by_chain_is_noted_and_no_other_is() {
    let target = || {
        let found = |states: &[f64], _| Ok(states.iter().map(|x| -x.abs()).collect());
        BatchModel::of_values(1, found).unwrap()
    };
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target());
    let schedule = || Schedule::linear(5).unwrap();
    let text = |run: Run<DVector<f64>>| run.to_string();
    let slices = Ais::new(&path, Slice::new(1.0).unwrap()).schedule(schedule());
    assert!(text(slices.chains(100).run().unwrap()).contains("note: "));
    let walks = || Ais::new(&path, walk()).schedule(schedule()).chains(100);
    for walks in [walks(), walks().block_size(1), walks().threads(2)] {
        let said = text(walks.run().unwrap());
        assert!(!said.contains("note: "), "{said}");
    }
}
