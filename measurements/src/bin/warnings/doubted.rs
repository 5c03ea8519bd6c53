//! Runs of 500 chains over vectors, by the advice of the guide, with a challenge each. Some runs miss mass.

use std::f64::consts::{PI, TAU};
use std::sync::OnceLock;

use annealed::Result;
use annealed::adaptive::Challenge;
use annealed::prelude::*;

use crate::cases::{CHALLENGED, Case, SetUp};
use crate::challenged::{SHARE, judged};
use crate::runs::normal;
use SetUp::{Faulty, Sound};

type Path<T> = GeometricPath<Gaussian, T>;
type Ask<T> = for<'c> fn(
    Challenge<'c, &'c Path<T>, RandomWalkMetropolis>,
) -> Challenge<'c, &'c Path<T>, RandomWalkMetropolis>;
type Vector = DVector<f64>;

/// A log density behind a pointer, so that the code for all cases is compiled once.
type Function = Box<dyn Fn(&Vector) -> f64 + Send + Sync>;

fn advice<T>(path: &Path<T>, stages: usize) -> Result<(RandomWalkMetropolis, Schedule)>
where
    T: UnnormalizedModel<State = Vector> + Sync,
{
    let pass = FirstPass::new(path, RandomWalkMetropolis::new(0.2)?);
    let kernel = pass.run()?.kernel;
    let survey = Pilot::new(100, 500).rounds(2).survey(path, &kernel, 0)?;
    let schedule = Friction::default().schedule(&survey, stages)?;
    Ok((kernel, schedule))
}

fn case<T>(
    (name, set_up): (&'static str, SetUp),
    (exact, path): (f64, Path<T>),
    stages: usize,
    ask: Ask<T>,
) -> Case
where
    T: UnnormalizedModel<State = Vector> + Send + Sync + 'static,
{
    let advised = OnceLock::new();
    Case::new((name, CHALLENGED), set_up, SHARE, move |seed| {
        let (kernel, schedule) = match advised.get() {
            Some(advised) => advised,
            None => {
                let found = advice(&path, stages)?;
                advised.get_or_init(|| found)
            }
        };
        let ais = Ais::new(&path, kernel).schedule(schedule.clone());
        let first = ais.chains(500).seed(seed).threads(1).run()?;
        let challenge = ask(Challenge::new(&path, kernel.clone(), &first));
        Ok(judged(
            &first,
            &challenge.seed(seed).threads(1).run()?,
            exact,
        ))
    })
}

/// Returns runs that miss a mode, a neck or a spike, and right runs on targets with one mode, two modes or heavy tails.
pub fn doubted() -> Result<Vec<Case>> {
    let mut cases = missing()?;
    let mut right = |name, (exact, base, target): (f64, Gaussian, Function)| {
        let path = GeometricPath::new(base, FunctionModel::new(target));
        cases.push(case((name, Sound), (exact, path), 200, |ask| ask));
    };
    right("challenged, correlated, 10-d", correlated()?);
    right("challenged, Laplace, 10-d", laplace()?);
    right("challenged, Gumbel, 5-d", gumbel()?);
    right("challenged, Student t, 10-d", student()?);
    right("challenged, banana, 8-d", banana()?);
    right("challenged, sharp, 6-d", sharp()?);
    right("challenged, two modes, 2-d", two_modes(2, 2.0)?);
    right("challenged, two modes, 5-d", two_modes(5, 1.0)?);
    Ok(cases)
}

fn missing() -> Result<Vec<Case>> {
    let of_parts = |parts: [(f64, Gaussian); 2], deviation| {
        let base = normal(10, 0.0, deviation)?;
        let target = GaussianMixture::new(parts)?;
        Ok::<_, annealed::Error>((0.0, GeometricPath::new(base, target)))
    };
    let widths = || {
        let parts = [(0.5, normal(10, -1.0, 1.0)?), (0.5, normal(10, 1.0, 0.3)?)];
        of_parts(parts, 2.0)
    };
    // The spike is three deviations from the top.
    let spike = |mean| {
        let parts = [
            (0.1, normal(10, 0.0, 1.0)?),
            (0.9, normal(10, mean, 0.025)?),
        ];
        of_parts(parts, 2.0)
    };
    let beside = 0.9f64.sqrt();
    let funnel = |deviation| {
        let target: Function = Box::new(|x| {
            let (v, rest) = (x[0], x.rows_range(1..).norm_squared());
            -0.5 * (v * v / 9.0 + 9.0 * v + rest * (-v).exp())
        });
        let base = normal(10, 0.0, deviation)?;
        let exact = 5.0 * TAU.ln() + 3f64.ln();
        Ok::<_, annealed::Error>((exact, GeometricPath::new(base, FunctionModel::new(target))))
    };
    let faulty = |name| (name, Faulty);
    Ok(vec![
        case(
            faulty("challenged, funnel from N(0, I)"),
            funnel(1.0)?,
            800,
            |ask| ask,
        ),
        case(
            faulty("challenged, funnel from N(0, 9 I)"),
            funnel(3.0)?,
            800,
            |ask| ask,
        ),
        case(faulty("challenged, two widths"), widths()?, 400, |ask| ask),
        case(
            faulty("challenged, two widths, gradient"),
            widths()?,
            400,
            |ask| ask.with_gradient(),
        ),
        case(
            faulty("challenged, spike on a slab"),
            spike(0.0)?,
            200,
            |ask| ask,
        ),
        case(
            faulty("challenged, spike beside the top"),
            spike(beside)?,
            200,
            |ask| ask.with_gradient(),
        ),
    ])
}

/// Returns `N(1, S)` in 10 dimensions with `S_ij = .9^|i - j|`.
fn correlated() -> Result<(f64, Gaussian, Function)> {
    let covariance = DMatrix::from_fn(10, 10, |i, j| 0.9f64.powi(i.abs_diff(j) as i32));
    let target = Gaussian::new(DVector::from_element(10, 1.0), covariance)?;
    let exact = 5.0 * TAU.ln() + 4.5 * 0.19f64.ln();
    Ok((
        exact,
        normal(10, 0.0, 1.0)?,
        Box::new(move |x| target.log_density(x)),
    ))
}

fn laplace() -> Result<(f64, Gaussian, Function)> {
    let target = |x: &Vector| -x.lp_norm(1);
    Ok((10.0 * 2f64.ln(), normal(10, 0.0, 1.0)?, Box::new(target)))
}

fn gumbel() -> Result<(f64, Gaussian, Function)> {
    let target = |x: &Vector| -x.iter().map(|x| x + (-x).exp()).sum::<f64>();
    Ok((0.0, normal(5, 0.0, 1.0)?, Box::new(target)))
}

/// Returns Student's t with 5 degrees of freedom in 10 dimensions.
fn student() -> Result<(f64, Gaussian, Function)> {
    let target = |x: &Vector| -7.5 * (x.norm_squared() / 5.0).ln_1p();
    let gammas: f64 = (0..5).map(|j| (2.5 + f64::from(j)).ln()).sum();
    let exact = 5.0 * (5.0 * PI).ln() - gammas;
    Ok((exact, normal(10, 0.0, 1.0)?, Box::new(target)))
}

/// Returns the twisted Gaussian of Haario, Saksman and Tamminen (1999).
fn banana() -> Result<(f64, Gaussian, Function)> {
    let target = |x: &Vector| {
        let straight = x[1] + 0.03 * (x[0] * x[0] - 100.0);
        let rest = x.rows_range(2..).norm_squared();
        -0.5 * (x[0] * x[0] / 100.0 + straight * straight + rest)
    };
    let exact = 4.0 * TAU.ln() + 10f64.ln();
    Ok((exact, normal(8, 0.0, 10.0)?, Box::new(target)))
}

/// Returns a Gaussian with deviations from 10^-2 to 1, away from the base's centre.
fn sharp() -> Result<(f64, Gaussian, Function)> {
    let variances = DVector::from_fn(6, |j, _| 1e-4 * 10f64.powf(0.8 * j as f64));
    let exact = 3.0 * TAU.ln() + 0.5 * variances.map(f64::ln).sum();
    let target = Gaussian::diagonal(DVector::from_element(6, 1.0), variances)?;
    Ok((
        exact,
        normal(6, 0.0, 1.0)?,
        Box::new(move |x| target.log_density(x)),
    ))
}

/// Returns two modes of deviation .5 and unequal mass.
fn two_modes(dimension: usize, mean: f64) -> Result<(f64, Gaussian, Function)> {
    let target = GaussianMixture::new([
        (0.3, normal(dimension, -mean, 0.5)?),
        (0.7, normal(dimension, mean, 0.5)?),
    ])?;
    Ok((
        0.0,
        normal(dimension, 0.0, 2.0)?,
        Box::new(move |x| target.log_density(x)),
    ))
}
