//! Preconditioners: a kernel shaped by L moves as the plain kernel does on the target seen from
//! `y = L^{-1} x`. (Invariance and unbiased weights of the shaped kernels are in `kernel/invariance`.)

use crate::shared;
use annealed::adaptive::FirstPass;
use annealed::ais::{Ais, Run};
use annealed::kernel::{
    Hmc, Mala, Preconditioner, RandomWalkMetropolis, Repeat, Stage, TransitionKernel, Tunable,
};
use annealed::model::{Differentiable, Gaussian, UnnormalizedModel};
use annealed::path::{GeometricAt, GeometricPath, Intermediate};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

type Vector = DVector<f64>;

/// `log f(x) = g(L^{-1} x)` at a beta, with g of correlated, skewed coordinates.
#[derive(Debug)]
struct Seen {
    through: DMatrix<f64>,
    beta: f64,
}

impl Seen {
    fn y(&self, x: &Vector) -> Vector {
        self.through.clone().lu().solve(x).unwrap()
    }
}

impl UnnormalizedModel for Seen {
    type State = Vector;

    fn log_density(&self, x: &Vector) -> f64 {
        let y = self.y(x);
        -0.5 * y.norm_squared() + 0.8 * (y[0] + 2.0 * y[1] - y[2]).sin()
    }
}

impl Differentiable for Seen {
    fn accumulate_gradient(&self, x: &Vector, scale: f64, gradient: &mut Vector) -> f64 {
        let y = self.y(x);
        let wave = 0.8 * (y[0] + 2.0 * y[1] - y[2]).cos();
        let slope = dvector![1.0, 2.0, -1.0] * wave - y;
        let pulled = self.through.transpose().lu().solve(&slope).unwrap();
        *gradient += pulled * scale;
        self.log_density(x)
    }
}

impl Intermediate for Seen {
    fn beta(&self) -> f64 {
        self.beta
    }
}

/// States and acceptance probabilities of a chain of 30 steps.
fn chain<K: TransitionKernel<Seen>>(kernel: &K, model: &Seen, start: Vector) -> Vec<(Vector, f64)> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let (mut state, mut workspace) = (start, K::Workspace::default());
    let stage = Stage::new(1, model, model);
    let steps = (0..30).map(|_| {
        let step = kernel.step(stage, &mut state, &mut workspace, &mut rng);
        (state.clone(), step.unwrap().decisions.accepted)
    });
    steps.collect()
}

/// Checks that, with the same random numbers, the chain shaped by the knot of this factor is the plain chain on the
/// whitened target, times the factor.
fn assert_same_chain<K: TransitionKernel<Seen> + Tunable>(
    plain: K,
    shape: &Preconditioner,
    beta: f64,
    factor: &DMatrix<f64>,
) {
    let start = dvector![0.3, -0.7, 1.1];
    let whitened = Seen {
        through: DMatrix::identity(3, 3),
        beta,
    };
    let seen = Seen {
        through: factor.clone(),
        beta,
    };
    let expected = chain(&plain, &whitened, start.clone());
    let found = chain(&plain.preconditioned(shape.clone()), &seen, factor * start);
    for ((y, expected), (x, accepted)) in expected.iter().zip(&found) {
        approx::assert_relative_eq!(factor * y, x, max_relative = 1e-8);
        assert!((expected - accepted).abs() < 1e-8, "{expected}, {accepted}");
    }
    let accepted: f64 = found.iter().map(|(_, accepted)| accepted).sum();
    assert!((5.0..29.9).contains(&accepted), "{accepted} of 30");
}

#[test]
fn a_shaped_kernel_is_the_plain_one_on_the_whitened_target() {
    let dense = dmatrix![2.0, 0.0, 0.0; -1.5, 0.5, 0.0; 9.0, 0.7, 3.0];
    let deviations = dvector![0.01, 3.0, 200.0];
    let diagonal = DMatrix::from_diagonal(&deviations);
    let shape = Preconditioner::knots([
        (
            0.2,
            Preconditioner::covariance(&(&dense * dense.transpose())).unwrap(),
        ),
        (0.8, Preconditioner::deviations(deviations).unwrap()),
    ]);
    let shape = shape.unwrap();
    for (beta, factor) in [
        (0.0, &dense),
        (0.45, &dense),
        (0.55, &diagonal),
        (1.0, &diagonal),
    ] {
        assert_same_chain(
            RandomWalkMetropolis::new(1.0).unwrap(),
            &shape,
            beta,
            factor,
        );
        assert_same_chain(Mala::new(0.9).unwrap(), &shape, beta, factor);
        assert_same_chain(Hmc::new(0.7, 3).unwrap(), &shape, beta, factor);
    }
}

#[test]
fn the_nearest_knot_holds_and_the_lower_of_two_equally_near() -> Result<()> {
    let parts = [1.0, 2.0, 3.0].map(|s| Preconditioner::deviations(dvector![s]).unwrap());
    let shape = Preconditioner::knots([0.25, 0.5, 1.0].into_iter().zip(parts.clone()))?;
    assert_eq!(shape.dimension(), 1);
    for (beta, part) in [
        (0.0, 0),
        (0.25, 0),
        (0.375, 0),
        (0.376, 1),
        (0.5, 1),
        (0.75, 1),
        (0.751, 2),
        (1.0, 2),
    ] {
        let at = |shape: &Preconditioner| Preconditioner::knots([(beta, shape.clone())]).unwrap();
        assert_eq!(at(&shape), at(&parts[part]), "{beta}");
    }
    // A diagonal covariance is known by its deviations.
    let diagonal = Preconditioner::covariance(&dmatrix![4.0, 0.0; 0.0, 9.0])?;
    assert_eq!(diagonal, Preconditioner::deviations(dvector![2.0, 3.0])?);
    Ok(())
}

#[test]
fn matrices_that_are_no_preconditioner_are_refused() {
    let text = |result: Result<Preconditioner>| result.unwrap_err().to_string();
    for (covariance, expected) in [
        (dmatrix![1.0, 2.0; 2.0, 1.0], "positive definite"),
        (dmatrix![1.0, 0.0; 0.0, -1.0], "positive definite"),
        (dmatrix![1.0, 0.0; 0.0, 0.0], "positive definite"),
        (dmatrix![1.0, 0.5; 0.4, 1.0], "symmetric"),
        (dmatrix![1.0, f64::NAN; f64::NAN, 1.0], "finite"),
        (dmatrix![f64::INFINITY], "finite"),
        (DMatrix::zeros(0, 0), "at least one"),
        (DMatrix::zeros(2, 3), "dimension mismatch"),
    ] {
        let text = text(Preconditioner::covariance(&covariance));
        assert!(
            text.contains("covariance") && text.contains(expected),
            "{text}"
        );
    }
    for deviations in [
        vec![],
        vec![0.0],
        vec![1.0, -1.0],
        vec![f64::NAN],
        vec![f64::INFINITY],
    ] {
        let text = text(Preconditioner::deviations(deviations.into()));
        assert!(text.contains("invalid deviations"), "{text}");
    }
    let one = |d| Preconditioner::deviations(Vector::from_element(d, 1.0)).unwrap();
    assert!(text(Preconditioner::knots([])).contains("at least one"));
    for betas in [
        [0.5, 0.5],
        [0.5, 0.2],
        [-0.1, 1.0],
        [0.0, 1.1],
        [0.0, f64::NAN],
    ] {
        let text = text(Preconditioner::knots(betas.map(|beta| (beta, one(2)))));
        assert!(text.contains("beta of a preconditioner"), "{text}");
    }
    let mixed = Preconditioner::knots([(0.0, one(2)), (1.0, one(3))]);
    assert_eq!(
        mixed.unwrap_err(),
        Error::DimensionMismatch {
            argument: "preconditioner",
            found: 3,
            expected: 2
        }
    );
}

/// If the model is a closure, its dimension is unknown before the chains start.
#[test]
fn a_preconditioner_of_another_dimension_is_an_error_of_the_run() {
    fn refused<T>(result: Result<T>) {
        let expected = Error::DimensionMismatch {
            argument: "preconditioner",
            found: 3,
            expected: 2,
        };
        assert_eq!(result.err(), Some(expected));
    }
    let shape = || Preconditioner::deviations(Vector::from_element(3, 1.0)).unwrap();
    let base = || Gaussian::standard(2).unwrap();
    let closure = GeometricPath::new(base(), shared::function(|x: &Vector| -x.norm_squared()));
    let walk = RandomWalkMetropolis::new(0.5)
        .unwrap()
        .preconditioned(shape());
    refused(Ais::new(&closure, Repeat::new(walk.clone(), 2).unwrap()).run());
    let path = GeometricPath::new(
        base(),
        Gaussian::isotropic(dvector![1.0, 0.0], 0.5).unwrap(),
    );
    refused(FirstPass::fixed(&path, walk).run());
    refused(Ais::new(&path, Mala::new(0.5).unwrap().preconditioned(shape())).run());
    refused(Ais::new(&path, Hmc::new(0.5, 2).unwrap().preconditioned(shape())).run());
}

#[test]
#[should_panic(expected = "a preconditioner of dimension 2 met a state of dimension 3")]
fn a_step_by_hand_in_another_dimension_panics() {
    let shape = Preconditioner::deviations(dvector![1.0, 1.0]).unwrap();
    let model = Seen {
        through: DMatrix::identity(3, 3),
        beta: 1.0,
    };
    let kernel = Mala::new(0.5).unwrap().preconditioned(shape);
    chain(&kernel, &model, Vector::zeros(3));
}

/// The path between two Gaussians, and the same one seen through a factor.
fn plain_and_seen(factor: &DMatrix<f64>) -> [GeometricPath<Gaussian, Gaussian>; 2] {
    let mean = dvector![0.8, -0.5, 0.3];
    let covariance = dmatrix![0.3, 0.1, 0.0; 0.1, 0.5, -0.2; 0.0, -0.2, 0.6];
    [DMatrix::identity(3, 3), factor.clone()].map(|factor| {
        let seen = |covariance: &DMatrix<f64>| &factor * covariance * factor.transpose();
        let [base, target] = [DMatrix::identity(3, 3), covariance.clone()].map(|c| seen(&c));
        GeometricPath::new(
            Gaussian::new(Vector::zeros(3), base).unwrap(),
            Gaussian::new(&factor * &mean, target).unwrap(),
        )
    })
}

/// A whole run: with the factor of the change of coordinates as its shape, a kernel gets the states and weights that
/// the plain kernel gets in the other coordinates. A first pass finds this shape, and the same step sizes. (Equal up to
/// rounding, which long steps of leapfrog amplify.)
#[test]
fn a_shaped_run_is_the_plain_run_in_other_coordinates() -> Result<()> {
    fn assert_same_run<'p, K>(
        [plain, seen]: [&'p GeometricPath<Gaussian, Gaussian>; 2],
        factor: &DMatrix<f64>,
        kernel: K,
    ) -> Result<()>
    where
        K: Tunable
            + PartialEq
            + std::fmt::Debug
            + Clone
            + Send
            + Sync
            + TransitionKernel<GeometricAt<'p, Gaussian, Gaussian>>,
    {
        let shape = Preconditioner::covariance(&(factor * factor.transpose()))?;
        let schedule = Schedule::linear(20)?;
        let tuned = |path| {
            let pass = FirstPass::new(path, kernel.clone()).seed(4);
            pass.run().map(|found| found.kernel)
        };
        let tuned = [tuned(plain)?, tuned(seen)?];
        for beta in [0.0, 0.3, 1.0] {
            let sizes = tuned.each_ref().map(|kernel| kernel.step_size().at(beta));
            approx::assert_relative_eq!(sizes[0], sizes[1], max_relative = 1e-8);
        }
        let given = [kernel.clone(), kernel.preconditioned(shape)];
        let run = |path: &'p _, kernel: &K| -> Result<Run<Vector>> {
            let ais = Ais::new(path, kernel).schedule(schedule.clone());
            ais.chains(100).seed(4).run()
        };
        for [kernel, shaped] in [given, tuned] {
            let (plain, seen) = (run(plain, &kernel)?, run(seen, &shaped)?);
            for (y, x) in plain.states().iter().zip(seen.states()) {
                approx::assert_relative_eq!(factor * y, x, max_relative = 1e-5, epsilon = 1e-5);
            }
            for (expected, found) in plain.log_weights().iter().zip(seen.log_weights()) {
                approx::assert_relative_eq!(expected, found, max_relative = 1e-5, epsilon = 1e-5);
            }
        }
        Ok(())
    }
    let factor = dmatrix![5.0, 0.0, 0.0; -3.0, 0.5, 0.0; 2.0, 0.7, 1.0];
    let [plain, seen] = plain_and_seen(&factor);
    let paths = [&plain, &seen];
    assert_same_run(paths, &factor, RandomWalkMetropolis::new(0.5)?)?;
    assert_same_run(paths, &factor, Mala::new(0.5)?)?;
    assert_same_run(paths, &factor, Hmc::new(0.5, 3)?)
}

#[cfg(feature = "serde")]
#[test]
fn preconditioned_kernels_travel_as_json_and_are_checked_on_arrival() -> Result<()> {
    let shape = Preconditioner::knots([
        (0.0, Preconditioner::deviations(dvector![0.5, 2.0])?),
        (
            1.0,
            Preconditioner::covariance(&dmatrix![4.0, 2.0; 2.0, 10.0])?,
        ),
    ])?;
    fn survives<K>(kernel: K) -> String
    where
        K: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let json = serde_json::to_string(&kernel).unwrap();
        assert_eq!(kernel, serde_json::from_str(&json).unwrap());
        json
    }
    survives(Mala::new(0.1)?.preconditioned(shape.clone()));
    survives(Hmc::new(0.1, 2)?.preconditioned(shape.clone()));
    survives(RandomWalkMetropolis::new(0.1)?.preconditioned(shape.clone()));
    let json = survives(shape);
    for (good, bad) in [
        ("[0.0,[[0.5", "[1.0,[[0.5"),
        ("[[0.5,2.0]", "[[0.5,-2.0]"),
        ("[[0.5,2.0],2,1]", "[[0.5],1,1]"),
        ("[[2.0,1.0,0.0,3.0]", "[[2.0,1.0,0.1,3.0]"),
        ("[[2.0,1.0,0.0,3.0]", "[[2.0,1.0,0.0,0.0]"),
        ("[[2.0,1.0,0.0,3.0],2,2]", "[[2.0,1.0,0.0,3.0],1,4]"),
        ("[[2.0,1.0,0.0,3.0],2,2]", "[[],0,0]"),
    ] {
        assert!(json.contains(good), "{json}");
        let spoiled = json.replace(good, bad);
        assert!(
            serde_json::from_str::<Preconditioner>(&spoiled).is_err(),
            "{spoiled}"
        );
    }
    // Without a preconditioner none is asked for.
    let plain: Mala = serde_json::from_str(r#"{"step_size":[[0.0,0.1]]}"#).unwrap();
    assert_eq!(plain, Mala::new(0.1)?);
    Ok(())
}
