//! Cases with a known log Z: sound set-ups, faulty ones, and cases made for one warning.

use annealed::Result;
use annealed::adaptive::Judgement;
use annealed::estimate::Warning;
use annealed_measurements::problems::advice::{Advice, Outcome, Problem};
use annealed_measurements::problems::{ALL, Entry};

use crate::{challenged, doubted, hard, runs, valleys};

/// A run of a case: whether its log Z is right, and its warnings.
pub struct Seen {
    pub right: bool,
    /// Whether its text shows only the interval.
    pub skewed: bool,
    pub warnings: Vec<Warning>,
    pub challenge: Option<Challenged>,
}

/// The judgement of a challenge about a run.
#[derive(Debug, Clone, Copy)]
pub struct Challenged {
    pub judgement: Judgement,
    /// Whether the challenged run was right.
    pub first: bool,
    /// Whether the challenged run had a warning of its own.
    pub warned: bool,
    /// Whether a contradicting bound lies above the exact log Z.
    pub is_false: bool,
    /// Error of the second run.
    pub off: f64,
}

impl Seen {
    /// Returns true if a distance from the exact log Z counts as right: within four errors, or within .1.
    pub fn is_right(distance: f64, error: f64) -> bool {
        distance.abs() <= 0.1_f64.max(4.0 * error)
    }

    /// Returns true if the run to which its warnings refer is right. `FirstRunTooLow`, the only warning measured on
    /// challenges, refers to the first run.
    pub fn first_is_right(&self) -> bool {
        self.challenge.map_or(self.right, |of| of.first)
    }

    fn of(outcome: Outcome, problem: &Problem) -> Self {
        let error = outcome.standard_error.hypot(problem.exact_error);
        Self {
            right: Self::is_right(outcome.log_z - problem.exact, error),
            skewed: outcome.skewed,
            warnings: outcome.warnings,
            challenge: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetUp {
    /// The advice of the guide.
    Sound,
    /// Too few stages, a base that misses mass, or a kernel that stands still.
    Faulty,
}

pub struct Case {
    pub name: &'static str,
    /// Kind of result, which determines the warnings that can appear.
    pub kind: &'static str,
    pub set_up: SetUp,
    /// Warning that should appear in every run.
    pub made_for: Option<&'static str>,
    /// Divisor of the number of seeds.
    pub share: u64,
    pub run: Box<dyn Fn(u64) -> Result<Seen> + Sync>,
}

impl Case {
    pub fn new(
        (name, kind): (&'static str, &'static str),
        set_up: SetUp,
        share: u64,
        run: impl Fn(u64) -> Result<Seen> + Sync + 'static,
    ) -> Self {
        Self {
            name,
            kind,
            set_up,
            made_for: None,
            share,
            run: Box::new(run),
        }
    }

    /// Returns the name. For a hard problem it includes the method.
    pub fn title(&self) -> String {
        match self.kind {
            CHALLENGED => self.name.to_owned(),
            method => format!("{}, {method}", self.name),
        }
    }

    pub fn made_for(self, warning: &'static str) -> Self {
        Self {
            made_for: Some(warning),
            ..self
        }
    }
}

pub const CHAINS: &str = "chains";
pub const WEIGHTS: &str = "weights";
pub const MACHINES: &str = "machines";
pub const UNADJUSTED: &str = "unadjusted";
pub const ISLANDS: &str = "islands";
pub const BOTH: &str = "both directions";
pub const LADDERS: &str = "ladders";
pub const LEVELS: &str = "levels";
pub const CHALLENGED: &str = "challenged";
pub const ROUNDS: &str = "in rounds";

/// Text for a result whose interval replaces the standard error. It is no warning.
pub const SKEWED: &str = "(interval alone)";

/// Any warning at all.
pub const ANY: &str = "(any warning)";

/// Warnings, and the kinds of result in which each is measured.
pub const MEASURED: [(&str, &[&str]); 22] = [
    ("LowEffectiveSampleSize", &[CHAINS, WEIGHTS, MACHINES]),
    ("DominantWeight", &[CHAINS, WEIGHTS, MACHINES]),
    ("HeavyTail", &[CHAINS, WEIGHTS, MACHINES]),
    ("ConcentratedVariance", &[CHAINS, MACHINES]),
    ("ZeroAcceptance", &[CHAINS, ISLANDS, LADDERS, LEVELS]),
    ("Rounding", &[CHAINS]),
    ("MissingMass", &[UNADJUSTED]),
    ("BelowBound", &[MACHINES]),
    ("FirstRunTooLow", &[CHALLENGED]),
    ("FewFamilies", &[ISLANDS, LEVELS]),
    ("HeavyFamilies", &[ISLANDS]),
    ("MergedFamilies", &[ROUNDS]),
    ("RisingRounds", &[ROUNDS]),
    ("FlatFirstPass", &[ROUNDS]),
    ("BelowFits", &[ROUNDS]),
    ("ForwardReverseGap", &[BOTH]),
    ("LittleOverlap", &[BOTH]),
    ("RejectedSwaps", &[LADDERS]),
    ("FewRoundTrips", &[LADDERS]),
    ("LevelsEnded", &[LEVELS]),
    (ANY, &[CHAINS, WEIGHTS, MACHINES]),
    (SKEWED, &[CHAINS, WEIGHTS, MACHINES]),
];

/// Number of evaluations with which annealing in rounds begins.
const LEAST_BUDGET: u64 = 300_000;

/// Problems of the reference table that are also run with ten stages.
const TEN_STAGES: [&str; 7] = [
    "Gaussian, 10-d",
    "Student t, 10-d",
    "banana, 8-d",
    "egg box",
    "40 clusters",
    "spin glass, 16",
    "RBM 64 x 20, CD",
];

/// Returns the cases whose names or kinds contain `only`.
pub fn all(only: &str) -> Result<Vec<Case>> {
    let chosen = |name: &str, kind: &str| name.contains(only) || kind.contains(only);
    let mut cases = Vec::new();
    for entry in ALL {
        let kind = kind(&entry);
        if chosen(entry.name, kind) {
            cases.push(of_table(&entry, (500, None), set_up(&entry), 10)?);
        }
        if chosen(entry.name, ROUNDS) {
            cases.push(in_rounds(&entry, set_up(&entry))?);
        }
        if TEN_STAGES.contains(&entry.name) && chosen("ten stages", kind) {
            cases.push(of_table(&entry, (100, Some(10)), SetUp::Faulty, 5)?);
        }
    }
    let rest = [
        runs::weights(),
        runs::chains()?,
        runs::machine()?,
        runs::unadjusted()?,
        runs::islands()?,
        runs::still()?,
        valleys::valleys()?,
        runs::both()?,
        runs::ladders()?,
        runs::levels()?,
        challenged::challenged()?,
        doubted::doubted()?,
        hard::hard()?,
    ];
    let rest = rest.into_iter().flatten();
    cases.extend(rest.filter(|case| chosen(case.name, case.kind)));
    Ok(cases)
}

fn set_up(entry: &Entry) -> SetUp {
    match entry.outside {
        None => SetUp::Sound,
        Some(_) => SetUp::Faulty,
    }
}

fn kind(entry: &Entry) -> &'static str {
    match entry.name.starts_with("RBM") {
        true => MACHINES,
        false => CHAINS,
    }
}

/// Returns a problem of the reference table, annealed in rounds, with a budget found by two trial runs.
fn in_rounds(entry: &Entry, set_up: SetUp) -> Result<Case> {
    let problem = (entry.make)(&Advice {
        chains: 256,
        stages: None,
        rounds: Some(LEAST_BUDGET),
    })?;
    let run = move |seed| Ok(Seen::of(problem.run(seed)?, &problem));
    Ok(Case::new((entry.name, ROUNDS), set_up, 20, run))
}

/// Returns a problem of the reference table with this number of chains, and of stages if it is given.
fn of_table(
    entry: &Entry,
    (chains, stages): (usize, Option<usize>),
    set_up: SetUp,
    share: u64,
) -> Result<Case> {
    let problem = (entry.make)(&Advice {
        chains,
        stages,
        rounds: None,
    })?;
    let run = move |seed| Ok(Seen::of(problem.run(seed)?, &problem));
    Ok(Case::new((entry.name, kind(entry)), set_up, share, run))
}
