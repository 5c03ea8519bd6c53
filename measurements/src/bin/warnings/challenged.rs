//! Runs with a challenge: right runs, a missed spike, and transitions of the first order between discrete states.

use annealed::Result;
use annealed::adaptive::{Challenge, ChallengeRun, Judgement};
use annealed::estimate::log_sum_exp;
use annealed::kernel::{BitFlip, Metropolis, Repeat};
use annealed::model::Bernoulli;
use annealed::prelude::*;

use crate::cases::{CHALLENGED, Case, Challenged, Seen, SetUp};
use crate::potts::{Colours, Recolour, Sites, exact, potts};
use crate::runs::{normal, seen};
use SetUp::{Faulty, Sound};

/// Divisor of the number of seeds.
pub const SHARE: u64 = 20;
/// Number of spins and of sites.
pub const SITES: usize = 60;

/// A case of 200 stages, with a challenge (`new` or `fixed`) at the cost of the run.
macro_rules! case {
    ($name:literal, $set_up:ident, $exact:expr, $path:expr, $new:ident, $kernel:expr) => {{
        let (exact, path, kernel) = ($exact, $path, $kernel);
        Case::new(($name, CHALLENGED), $set_up, SHARE, move |seed| {
            let ais = Ais::new(&path, &kernel).schedule(Schedule::linear(200)?);
            let first = ais.chains(300).seed(seed).threads(1).run()?;
            let challenge = Challenge::$new(&path, kernel.clone(), &first);
            Ok(judged(
                &first,
                &challenge.seed(seed).threads(1).run()?,
                exact,
            ))
        })
    }};
}

/// Returns the outcome of a challenged run whose exact log Z is known.
pub fn judged<S>(first: &dyn LogZ, run: &ChallengeRun<'_, S>, exact: f64) -> Seen {
    let judgement = run.judgement();
    let challenge = Challenged {
        is_false: matches!(judgement, Judgement::Contradicted { bound, .. } if bound > exact),
        judgement,
        first: Seen::is_right(first.log_z() - exact, first.standard_error()),
        warned: !first.warnings().is_empty(),
        off: run.second().log_z() - exact,
    };
    Seen {
        challenge: Some(challenge),
        ..seen(run, exact)
    }
}

/// Returns cases over vectors, spins and colours. In some the chains find all mass, in others they miss nearly all.
pub fn challenged() -> Result<Vec<Case>> {
    let walk = RandomWalkMetropolis::new(0.5)?;
    let target = normal(4, 0.2, 0.8)?;
    let gaussian = GeometricPath::new(normal(4, 0.0, 1.0)?, target.clone());
    let parts = [(0.1, normal(4, 0.0, 1.0)?), (0.9, normal(4, 0.0, 0.025)?)];
    let spike = GeometricPath::new(normal(4, 0.0, 2.0)?, GaussianMixture::new(parts)?);
    let flips = Repeat::new(Metropolis(BitFlip), SITES / 4)?;
    let recolours = Repeat::new(Metropolis(Recolour), SITES / 4)?;
    let is_low = "FirstRunTooLow";
    Ok(vec![
        case!(
            "challenged, Gaussian",
            Sound,
            target.log_normalizer(),
            gaussian,
            new,
            walk.clone()
        ),
        case!("challenged, a spike", Faulty, 0.0, spike, new, walk).made_for(is_low),
        case!(
            "challenged, spins, disordered",
            Sound,
            of_spins(0.5),
            spins(0.5)?,
            fixed,
            flips.clone()
        ),
        case!(
            "challenged, spins, ordered",
            Faulty,
            of_spins(0.9),
            spins(0.9)?,
            fixed,
            flips
        )
        .made_for(is_low),
        case!(
            "challenged, Potts, disordered",
            Sound,
            exact::<10>(SITES, 3.0),
            coloured::<10>(3.0),
            fixed,
            recolours.clone()
        ),
        case!(
            "challenged, Potts, 10 colours",
            Faulty,
            exact::<10>(SITES, 5.8),
            coloured::<10>(5.8),
            fixed,
            recolours.clone()
        )
        .made_for(is_low),
        case!(
            "challenged, Potts, 5 colours",
            Faulty,
            exact::<5>(SITES, 4.2),
            coloured::<5>(4.2),
            fixed,
            recolours
        ),
    ])
}

fn coloured<const Q: usize>(
    coupling: f64,
) -> GeometricPath<Sites<Q>, impl UnnormalizedModel<State = Colours<Q>> + Sync + Send> {
    GeometricPath::new(Sites::uniform(SITES), potts(coupling))
}

/// Returns `log f = coupling n m^5` for n spins of magnetisation m, on a complete graph, from fair coins.
pub fn spins(
    coupling: f64,
) -> Result<GeometricPath<Bernoulli, impl UnnormalizedModel<State = Vec<bool>> + Sync + Send>> {
    let ones = |spins: &Vec<bool>| spins.iter().filter(|spin| **spin).count();
    let target = FunctionModel::new(move |spins: &Vec<bool>| of_ones(coupling, ones(spins)));
    Ok(GeometricPath::new(
        Bernoulli::new(DVector::zeros(SITES))?,
        target,
    ))
}

fn of_ones(coupling: f64, ones: usize) -> f64 {
    let magnetisation = 2.0 * ones as f64 / SITES as f64 - 1.0;
    coupling * SITES as f64 * magnetisation.powi(5)
}

/// Returns the exact log Z of the spins.
pub fn of_spins(coupling: f64) -> f64 {
    let log_factorial = |n: usize| (1..=n).map(|i| (i as f64).ln()).sum::<f64>();
    let states = |ones| log_factorial(SITES) - log_factorial(ones) - log_factorial(SITES - ones);
    log_sum_exp((0..=SITES).map(|ones| states(ones) + of_ones(coupling, ones)))
}
