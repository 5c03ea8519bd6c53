//! Warnings that state a fact and do not judge log Z.

/// Names of warnings, each with a fact. The warning always appears if the fact is true.
pub const FACTS: [(&str, &str); 28] = [
    ("FewChains", "fewer than 25 chains"),
    ("DeadChains", "a chain has weight 0"),
    (
        "BaseMissesTarget",
        "a chain met a state of the target that the base excludes",
    ),
    (
        "ErrorNotReached",
        "the standard error is above the one asked for",
    ),
    ("MissingChains", "parts of the run are missing"),
    ("CheckpointNotWritten", "the file could not be written"),
    ("ChallengeUndecided", "a challenge is undecided"),
    (
        "DrawsContradict",
        "draws of a state are not draws of it, by the log densities of all states",
    ),
    (
        "ShortChain",
        "correlated draws of a state span fewer than 200 autocorrelation times, or a chain has fewer than 50 draws",
    ),
    (
        "FewWeightedDraws",
        "the draws of all states, weighted for one, are worth fewer than 25, or have a heavy tail",
    ),
    (
        "FewDraws",
        "draws at hand are worth fewer than 100 independent ones",
    ),
    (
        "Autocorrelated",
        "acceptances of weights at hand are correlated with the ones before them, at some lag or over blocks, by five errors",
    ),
    (
        "HalvesDisagree",
        "the two halves of the draws at hand give values that lie more than three of their errors apart",
    ),
    ("FewLadders", "fewer than 4 ladders"),
    (
        "BelowBaseRate",
        "rows are less likely than under base rates or fair coins, by two errors over rows",
    ),
    (
        "WeakSearch",
        "no pilot of a search for a start has more than 20 effective samples of the mass that is known",
    ),
    (
        "HigherPilot",
        "a pilot of a search for a start lies three of its errors above the interval",
    ),
    (
        "LowSampleSizes",
        "half of the data have few effective chains",
    ),
    (
        "InState",
        "as the warning that it holds, of one state of several",
    ),
    (
        "SlowCoordinate",
        "draws at hand are worth fewer than 25 independent ones in a coordinate, or fewer than 400 and an eighth of those in log f",
    ),
    (
        "Divergences",
        "the sampler of draws at hand reported divergent transitions",
    ),
    ("ShiftsCut", "shifts of a drift modifier were cut"),
    (
        "PilotNearCollapse",
        "the pilot's effective sample size is below 5 or half of its chains, at some beta",
    ),
    ("PilotFewChains", "fewer than 10 chains of a pilot"),
    ("PilotFewSteps", "fewer than 20 steps of a pilot"),
    (
        "PilotNothingVaries",
        "equal derivatives of all chains of a pilot",
    ),
    (
        "PilotNegligibleCost",
        "a segment's cost is below .1% of the mean",
    ),
    (
        "InPilot",
        "as the warning of a run that it holds, of a pilot",
    ),
];
