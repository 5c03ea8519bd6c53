//! Log Z at betas along the path: exact values, honest errors, and the curve of the Ising model.

use std::f64::consts::PI;

use annealed::ais::{Ais, Run, RunPart};
use annealed::estimate::{LogZ, log_sum_exp};
use annealed::kernel::{NonFinite, RandomWalkMetropolis, Stage, Step, TransitionKernel};
use annealed::model::{FunctionModel, Gaussian};
use annealed::path::{GeometricPath, Intermediate};
use annealed::population::{Resampling, WasteFree};
use annealed::schedule::Schedule;
use nalgebra::DVector;
use rand::{Rng, RngExt};

use crate::shared::exact::kaufman;

type Path = GeometricPath<Gaussian, Gaussian>;
type Walk<'e, 'p> = Ais<'e, &'p Path, RandomWalkMetropolis>;

const BETAS: [f64; 3] = [0.2, 0.6, 1.0];

/// From N(0, 1) to N(1, 1/4), in each of three dimensions.
fn path() -> Path {
    let target = Gaussian::isotropic(DVector::from_element(3, 1.0), 0.5).unwrap();
    GeometricPath::new(Gaussian::standard(3).unwrap(), target)
}

/// Returns log Z of the density `exp(-((1 - b) x^2 + 4 b (x - 1)^2) / 2)` in each of three dimensions.
fn exact(beta: f64) -> f64 {
    let precision = 1.0 + 3.0 * beta;
    let remainder = 4.0 * beta - (4.0 * beta).powi(2) / precision;
    1.5 * ((2.0 * PI / precision).ln() - remainder)
}

fn ais(path: &Path) -> Walk<'_, '_> {
    Ais::new(path, RandomWalkMetropolis::new(0.8).unwrap())
        .schedule(Schedule::linear(25).unwrap())
        .chains(400)
        .block_size(20)
        .record_at(BETAS)
}

/// Runs with chains alone, islands that are resampled, families, and waste-free islands.
fn kinds<'e, 'p>(path: &'p Path) -> [(&'static str, Walk<'e, 'p>); 4]
where
    'p: 'e,
{
    let often = || Resampling::when_ess_below(0.8).unwrap();
    [
        ("alone", ais(path)),
        ("islands", ais(path).resampling(often())),
        ("families", ais(path).block_size(400).resampling(often())),
        (
            "waste-free",
            ais(path).waste_free(WasteFree::new(10).unwrap()),
        ),
    ]
}

/// At the target the figures are those of the run, bit for bit.
fn assert_ends_as_the_run<S>(run: &Run<S>) {
    let along = run.log_z_along();
    let last = along[along.len() - 1];
    assert_eq!((last.beta, last.log_z), (1.0, run.log_z()));
    assert_eq!(last.standard_error, run.standard_error());
    assert_eq!(last.interval, run.interval());
    let stage = run.stages()[run.stages().len() - 1];
    assert_eq!(stage.estimate.as_ref(), Some(run.estimate()));
}

#[test]
fn errors_and_intervals_along_the_path_are_honest() {
    const SEEDS: u64 = 200;
    let path = path();
    for kind in 0..4 {
        let (mut squares, mut held) = ([0.0; 3], [0; 3]);
        let mut name = "";
        for seed in 0..SEEDS {
            let (of_kind, ais) = kinds(&path).into_iter().nth(kind).unwrap();
            name = of_kind;
            let run = ais.seed(seed).run().unwrap();
            assert_ends_as_the_run(&run);
            let along = run.log_z_along();
            assert_eq!(along.len(), 3);
            for (place, at) in along.iter().enumerate() {
                let error = at.log_z - exact(BETAS[place]);
                assert!(at.standard_error < 0.3, "{name}: {at}");
                squares[place] += (error / at.standard_error).powi(2);
                let (lower, upper) = at.interval;
                held[place] += usize::from(lower <= exact(at.beta) && exact(at.beta) <= upper);
            }
        }
        for place in 0..3 {
            let rms = (squares[place] / SEEDS as f64).sqrt();
            let share = held[place] as f64 / SEEDS as f64;
            assert!(
                (0.75..1.25).contains(&rms),
                "{name} at {}: rms z {rms}",
                BETAS[place]
            );
            assert!(share > 0.9, "{name} at {}: {share}", BETAS[place]);
        }
    }
}

#[test]
fn betas_divide_the_windows_of_recorded_stages() {
    let path = path();
    let run = ais(&path).recorded_stages(2).run().unwrap();
    let stages: Vec<usize> = run.stages().iter().map(|stage| stage.stage).collect();
    assert_eq!(stages, [5, 13, 15, 25]);
    let whole = ais(&path).record_at([]).run().unwrap();
    assert_eq!((whole.log_z(), whole.log_z_along()), (run.log_z(), vec![]));
    let all = whole.stages()[4];
    assert_eq!((all.beta, all.estimate), (0.2, None));
    assert!((all.log_z_ratio - run.stages()[0].log_z_ratio).abs() < 1e-12);
    let (fine, coarse) = (whole.thermodynamic_log_z(), run.thermodynamic_log_z());
    assert!((fine.unwrap() - coarse.unwrap()).abs() < 0.3);
}

#[test]
fn betas_that_the_schedule_lacks_are_refused() {
    let path = path();
    for beta in [0.0, 0.21, 1.5, f64::NAN] {
        let error = ais(&path)
            .record_at([0.2, beta])
            .run()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("record_at") && error.contains("at index 1"),
            "{error}"
        );
        assert!(error.contains("with_betas"), "{error}");
    }
    let schedule = Schedule::linear(2).unwrap();
    assert_eq!(
        schedule.with_betas([0.7, 0.5, 0.7]).unwrap().betas(),
        [0.0, 0.5, 0.7, 1.0]
    );
    let error = schedule.with_betas([0.1, 1.1]).unwrap_err().to_string();
    assert!(error.contains("1.1 at index 1"), "{error}");
}

/// Roots are places among the chains that are there.
#[test]
fn a_run_that_lacks_parts_has_its_figures_along_the_path() {
    let path = path();
    for (name, ais) in kinds(&path) {
        let parts = ais
            .ranges(3)
            .unwrap()
            .into_iter()
            .map(|range| ais.run_range(range).unwrap());
        let parts: Vec<_> = parts.collect();
        let run = RunPart::merge(parts.iter().skip(usize::from(parts.len() > 1)).cloned()).unwrap();
        assert_ends_as_the_run(&run);
        assert_eq!(run.missing().len(), usize::from(name != "families"));
        let whole = RunPart::merge(parts).unwrap();
        assert_eq!(whole.log_z_along(), ais.run().unwrap().log_z_along());
    }
}

#[cfg(feature = "serde")]
#[test]
fn a_saved_run_keeps_its_figures_along_the_path() {
    let path = path();
    for (_, ais) in kinds(&path) {
        let run = ais.run().unwrap();
        let text = serde_json::to_string(&run).unwrap();
        let read: Run<DVector<f64>> = serde_json::from_str(&text).unwrap();
        assert_eq!(read.log_z_along(), run.log_z_along());
        let damaged = text.replacen(
            "\"kept\":{\"log_weights\":[",
            "\"kept\":{\"log_weights\":[1.0,",
            1,
        );
        assert!(serde_json::from_str::<Run<DVector<f64>>>(&damaged).is_err());
    }
}

const SIDE: usize = 16;
const COLDEST: f64 = 1.5;

/// Returns `log sum exp(coupling * sum over bonds of s s')` of the Ising model on a torus of `rows` by `columns` spins.
///
/// Returns the sum over bonds of the product of their spins.
fn bonds(side: usize, spins: &[i8]) -> f64 {
    let of_site = |i: usize| {
        let (right, below) = (i - i % side + (i + 1) % side, (i + side) % (side * side));
        f64::from(spins[i] * (spins[right] + spins[below]))
    };
    (0..side * side).map(of_site).sum()
}

#[test]
fn the_formula_of_kaufman_is_the_sum_over_all_states() {
    for side in [3, 4] {
        let spins = |state: usize| -> Vec<i8> {
            let spin = |i: usize| if state >> i & 1 == 1 { 1 } else { -1 };
            (0..side * side).map(spin).collect()
        };
        let all: Vec<f64> = (0..1 << (side * side))
            .map(|state| bonds(side, &spins(state)))
            .collect();
        for coupling in [0.1, 0.44, 0.7] {
            let sum = log_sum_exp(all.iter().map(|bonds| coupling * bonds));
            assert!((kaufman(side, side, coupling) - sum).abs() < 1e-10);
        }
    }
}

/// Draws each spin given its neighbours, of a coupling of `beta / COLDEST`.
struct HeatBath;

impl<M: Intermediate<State = Vec<i8>>> TransitionKernel<M> for HeatBath {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        spins: &mut Vec<i8>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        for i in 0..SIDE * SIDE {
            let (row, column, all) = (i - i % SIDE, i % SIDE, SIDE * SIDE);
            let beside = spins[row + (column + 1) % SIDE] + spins[row + (column + SIDE - 1) % SIDE];
            let field = beside + spins[(i + SIDE) % all] + spins[(i + all - SIDE) % all];
            let up = 1.0 / (1.0 + (-2.0 * stage.beta / COLDEST * f64::from(field)).exp());
            spins[i] = if rng.random::<f64>() < up { 1 } else { -1 };
        }
        Ok(Step::invariant())
    }
}

/// One run from infinite temperature to below the critical one, 2.269, has the whole curve.
#[test]
fn free_energies_of_the_ising_model_are_those_of_kaufman() {
    let temperatures = [5.0, 4.0, 3.0, 2.5, 2.25, 2.0, COLDEST];
    let betas = temperatures.map(|temperature| COLDEST / temperature);
    let base = FunctionModel::new(|_: &Vec<i8>| 0.0)
        .with_sampler(|rng| {
            (0..SIDE * SIDE)
                .map(|_| if rng.random() { 1 } else { -1 })
                .collect()
        })
        .with_log_normalizer((SIDE * SIDE) as f64 * 2f64.ln())
        .unwrap();
    let target = FunctionModel::new(|spins: &Vec<i8>| bonds(SIDE, spins) / COLDEST);
    let path = GeometricPath::new(base, target);
    let schedule = Schedule::linear(1_000).unwrap().with_betas(betas).unwrap();
    let run = Ais::new(&path, HeatBath)
        .schedule(schedule)
        .chains(200)
        .record_at(betas)
        .run()
        .unwrap();
    for (at, temperature) in run.log_z_along().into_iter().zip(temperatures) {
        let exact = kaufman(SIDE, SIDE, 1.0 / temperature);
        assert!(
            (at.log_z - exact).abs() <= 4.0 * at.standard_error,
            "{at}, exactly {exact}"
        );
        assert!(at.standard_error < 0.3, "{at}");
    }
}
