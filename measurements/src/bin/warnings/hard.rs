//! Hard problems of five kinds for each method, by the advice of the guide, with a challenge to each result at its
//! cost.

use std::f64::consts::{PI, TAU};

use annealed::Result;
use annealed::adaptive::{Challenge, FirstPass, Rounds};
use annealed::kernel::{BitFlip, Invariant, Metropolis, Repeat};
use annealed::model::Differentiable;
use annealed::population::{Resampling, WasteFree};
use annealed::prelude::*;

use crate::Found;
use crate::cases::{Case, Seen, SetUp};
use crate::challenged::{SITES, judged, of_spins, spins};
use crate::hierarchy::{hierarchy, non_centred, schools};
use crate::runs::normal;

type Vector = DVector<f64>;

/// A target with a gradient, behind a pointer so that the code for all cases is compiled once.
pub type Target = Box<dyn Differentiable<State = Vector> + Send + Sync>;

type Path = GeometricPath<Gaussian, Target>;

/// Exact log Z, base and target.
pub type Problem = (f64, Gaussian, Target);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Method {
    Chains,
    Resampled,
    WasteFree,
    Tempering,
    Rounds,
    Fitted,
    Levels,
}

const METHODS: [(&str, Method); 7] = [
    ("AIS", Method::Chains),
    ("SMC", Method::Resampled),
    ("waste-free", Method::WasteFree),
    ("tempering", Method::Tempering),
    ("rounds", Method::Rounds),
    ("fitted rounds", Method::Fitted),
    ("nested SMC", Method::Levels),
];

type Make = fn() -> Result<Problem>;

const VECTORS: [(&str, Make); 8] = [
    ("hard, spike beside the top, 5-d", || beside(5, 0.1, 2.5)),
    ("hard, narrower spike, 10-d", || beside(10, 0.025, 3.0)),
    ("hard, funnel from N(0, I), 5-d", || funnel(1.0)),
    ("hard, funnel from N(0, 9 I), 5-d", || funnel(3.0)),
    ("hard, three widths, 10-d", widths),
    ("hard, eight schools, centred", schools),
    ("hard, centred hierarchy, 10-d", hierarchy),
    ("not hard, the same, non-centred", non_centred),
];

const SPINS: &str = "hard, spins, ordered";

/// Divisor of the number of seeds.
const SHARE: u64 = 25;
/// Number of evaluations of a first run on vectors, and on spins.
const EVALUATIONS: u64 = 200_000;
const FLIPS: u64 = 450_000;
/// Islands of chains that interact.
const ISLANDS: usize = 32;
/// Largest number of plans for a run of nested SMC.
const PLANS: usize = 4;
/// Number of moves at each stage of a first pass, and of chains that interact.
const MOVES: usize = 3;

/// Returns each problem with each method. Levels and fitted rounds are only for vectors.
pub fn hard() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, make) in VECTORS {
        for method in METHODS {
            cases.push(of_vectors(name, make()?, method));
        }
    }
    let is_general = |of: &(&str, Method)| ![Method::Levels, Method::Fitted].contains(&of.1);
    let others = METHODS.into_iter().filter(is_general);
    for method in others {
        cases.push(of_spins_by(method)?);
    }
    Ok(cases)
}

fn of_vectors(
    name: &'static str,
    (exact, base, target): Problem,
    of: (&'static str, Method),
) -> Case {
    let path = GeometricPath::new(base, target);
    Case::new((name, of.0), SetUp::Faulty, SHARE, move |seed| {
        let walk = RandomWalkMetropolis::new(0.5)?;
        let first = match of.1 {
            Method::Rounds | Method::Fitted => {
                let rounds = Rounds::new(&path, walk.clone()).budget(EVALUATIONS);
                let rounds = rounds.seed(seed).threads(1);
                Box::new(match of.1 {
                    Method::Fitted => rounds.fitted().run()?,
                    _ => rounds.run()?,
                })
            }
            Method::Levels => levels(&path, seed)?,
            _ => {
                let pass = FirstPass::new(&path, walk.clone());
                first(&path, pass, (of.1, EVALUATIONS), seed)?
            }
        };
        let challenge = Challenge::new(&path, walk, &*first).with_gradient();
        Ok(judged(
            &*first,
            &challenge.seed(seed).threads(1).run()?,
            exact,
        ))
    })
}

fn of_spins_by(of: (&'static str, Method)) -> Result<Case> {
    let (exact, path) = (of_spins(0.9), spins(0.9)?);
    let flips = Repeat::new(Metropolis(BitFlip), SITES / 4)?;
    let run = move |seed| {
        let first = match of.1 {
            Method::Rounds => {
                let rounds = Rounds::fixed(&path, flips.clone()).budget(FLIPS);
                Box::new(rounds.seed(seed).threads(1).run()?)
            }
            _ => {
                let pass = FirstPass::fixed(&path, flips.clone());
                first(&path, pass, (of.1, FLIPS), seed)?
            }
        };
        let challenge = Challenge::fixed(&path, flips.clone(), &*first).seed(seed);
        Ok(judged(&*first, &challenge.threads(1).run()?, exact))
    };
    Ok(Case::new((SPINS, of.0), SetUp::Faulty, SHARE, run))
}

/// Runs a method with kernel and stages from a first pass, with the given number of evaluations.
fn first<'p, P, K>(
    path: P,
    pass: FirstPass<'_, P, K>,
    (method, evaluations): (Method, u64),
    seed: u64,
) -> Result<Box<dyn LogZ + 'p>>
where
    P: AnnealingPath<Base: NormalizedModel, State: Clone + Send, At: Send + Sync>
        + Send
        + Sync
        + 'p,
    K: Invariant<P::At> + Clone + Send + Sync + 'p,
{
    let pass = pass.chains(256).moves(MOVES).seed(seed).threads(1);
    let found = pass.run()?;
    let moves = evaluations as usize
        / found
            .kernel
            .evaluations(path.base().state_dimension().unwrap_or(1));
    let island = moves / (ISLANDS * found.schedule.stages());
    let ais = Ais::new(path.clone(), found.kernel.clone())
        .seed(seed)
        .threads(1);
    Ok(match method {
        Method::Resampled => {
            let block = island / MOVES;
            let ais = Ais::new(path, Repeat::new(found.kernel, MOVES)?);
            let ais = ais.seed(seed).threads(1).schedule(found.schedule);
            let ais = ais.chains(block * ISLANDS).block_size(block);
            Box::new(ais.resampling(Resampling::every(1)?).run()?)
        }
        Method::WasteFree => {
            let ancestors = (island as f64).sqrt().round() as usize;
            let ais = ais.schedule(found.schedule);
            let ais = ais.chains(island * ISLANDS).block_size(island);
            Box::new(ais.waste_free(WasteFree::new(ancestors)?).run()?)
        }
        Method::Tempering => {
            let barrier = found.barrier.global() / PI.sqrt();
            let pairs = (2.0 * barrier).ceil().max(3.0) as usize;
            // Scans double from round to round; all rounds together have 2^(rounds + 1) - 2.
            let rounds = (moves / (16 * pairs) + 1).max(2).ilog2();
            let ladders = moves / (pairs * ((2 << rounds) - 2));
            let tempering = Tempering::new(path, found.kernel).seed(seed).threads(1);
            let tempering = tempering.schedule(found.barrier.schedule(pairs)?);
            Box::new(
                tempering
                    .ladders(ladders.max(8))
                    .rounds(rounds as usize)
                    .run()?,
            )
        }
        _ => {
            let schedule = found.barrier.schedule(moves / 500)?;
            Box::new(ais.schedule(schedule).chains(500).run()?)
        }
    })
}

/// Runs nested SMC with the base as prior. The run before determines the number of levels.
fn levels(path: &Path, seed: u64) -> Result<Box<dyn LogZ>> {
    let (prior, target) = (path.base(), path.target());
    let log_z = prior.log_normalizer();
    let ratio = |x: &Vector| target.log_density(x) - prior.log_density(x) + log_z;
    let problem = TemperedPath::new(prior, FunctionModel::new(ratio));
    let run = |islands, chains, moves| {
        let levels = NestedSmc::new(&problem, RandomWalkMetropolis::new(0.5)?);
        let levels = levels.islands(islands).chains(chains).moves(moves);
        levels.seed(seed).threads(1).run()
    };
    let mut found = run(2, 16, 25)?;
    // A small run may find far too many levels, and the next run then spends little.
    for _ in 0..PLANS {
        // One island more than `ISLANDS`, because one looks for the levels.
        let moves = EVALUATIONS as usize / ((ISLANDS + 1) * found.levels().len());
        let chains = (moves as f64 / 3.0).sqrt().max(4.0) as usize;
        found = run(ISLANDS, chains, (moves / chains).max(5))?;
        if found.evaluations() > EVALUATIONS / 2 {
            break;
        }
    }
    Ok(Box::new(found))
}

/// Returns a target with a tenth of the mass in a slab `N(0, I)` and the rest in a spike at `distance` from its top.
fn beside(dimension: usize, deviation: f64, distance: f64) -> Result<Problem> {
    let mean = distance / (dimension as f64).sqrt();
    let parts = [
        (0.1, normal(dimension, 0.0, 1.0)?),
        (0.9, normal(dimension, mean, deviation)?),
    ];
    let target = GaussianMixture::new(parts)?;
    Ok((0.0, normal(dimension, 0.0, 2.0)?, Box::new(target)))
}

/// Returns modes of deviations 1, .5 and .2 and equal mass.
fn widths() -> Result<Problem> {
    let third = 1.0 / 3.0;
    let parts = [
        (third, normal(10, -1.0, 1.0)?),
        (third, normal(10, 0.5, 0.5)?),
        (third, normal(10, 1.5, 0.2)?),
    ];
    let target = GaussianMixture::new(parts)?;
    Ok((0.0, normal(10, 0.0, 2.0)?, Box::new(target)))
}

/// Returns the funnel `v ~ N(0, 3^2)`, four `x ~ N(0, e^v)`, without its constant.
fn funnel(deviation: f64) -> Result<Problem> {
    let log_density = |x: &Vector| {
        let rest = x.rows_range(1..).norm_squared();
        -0.5 * (x[0] * x[0] / 9.0 + 4.0 * x[0] + rest * (-x[0]).exp())
    };
    let gradient = |x: &Vector| {
        let rest = x.rows_range(1..).norm_squared();
        let mut slope = x * -(-x[0]).exp();
        slope[0] = 0.5 * rest * (-x[0]).exp() - x[0] / 9.0 - 2.0;
        slope
    };
    let exact = 2.5 * TAU.ln() + 3f64.ln();
    let target = FunctionModel::new(log_density).with_gradient(gradient);
    Ok((exact, normal(5, 0.0, deviation)?, Box::new(target)))
}

/// Returns one row per problem and one column per method, with three counts: first runs that are right, results that
/// are right or have a warning, and results that are right.
pub fn table(all: &[Found]) -> String {
    let cell = |name: &str, method: &str| {
        let mut cases = all.iter().map(|found| (&found.case, &found.seen));
        let seen = cases
            .find(|(case, _)| case.name == name && case.kind == method)?
            .1;
        let count = |has: fn(&Seen) -> bool| seen.iter().filter(|seen| has(seen)).count();
        let [first, told, right] = [
            count(Seen::first_is_right),
            count(|seen| seen.right || !seen.warnings.is_empty()),
            count(|seen| seen.right),
        ];
        Some(format!("{first}, {told}, {right}"))
    };
    let names = METHODS.map(|(name, _)| name);
    let mut lines = vec![format!("\n| hard problem | {} |", names.join(" | "))];
    lines.push(format!("|---|{}", "--:|".repeat(names.len())));
    for name in VECTORS.map(|(name, _)| name).into_iter().chain([SPINS]) {
        let cells = names.map(|method| cell(name, method).unwrap_or_else(|| "-".into()));
        lines.push(format!("| {name} | {} |", cells.join(" | ")));
    }
    lines.join("\n")
}
