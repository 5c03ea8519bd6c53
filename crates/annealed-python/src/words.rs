//! The library's advice in the words of Python: calls and arguments of the package in the place of Rust's.

use pyo3::prelude::*;

/// A phrase of the library, and the package's phrase for it.
type Phrase = (&'static str, &'static str);

/// Phrases for all calls.
const OF_ALL: &[Phrase] = &[
    (" (for an RBM, with weights of 64 bits)", ""),
    (
        "none reached the support of the target, or steps of an uncorrected kernel were so far off that every weight vanished. \
         Choose a base that overlaps with the target, and steps of the kernel's scale. If the target is 0 on nearly all of the \
         base, use `NestedSmc` for a likelihood (with more chains the rarer the rest is), or a finite penalty that is annealed \
         for a constraint (see the cookbook)",
        "none reached a state where your function is above -inf. Pass more chains, and give parameters their bounds by the \
         prior (of annealed.log_z by the base), not by a value of -inf",
    ),
];

/// Phrases for `annealed.evidence`.
const OF_EVIDENCE: &[Phrase] = &[
    ("fitted() may need", "fitted=True may need"),
    (
        "challenge the run, let rounds over vectors fit a base (`.fitted()`)",
        "call run.challenge(), let the rounds fit a base (fitted=True)",
    ),
    ("challenge the run", "call run.challenge()"),
    (
        "or use a base near the target or a better kernel",
        "or pass a gradient",
    ),
    (
        "fit a base (`.fitted()`)",
        "let the rounds fit a base (fitted=True)",
    ),
    (
        "use a larger budget, a base near the target or a better mixing kernel",
        "pass a larger budget or a gradient",
    ),
    (
        "use a base that reaches this region, or for a likelihood nested sampling (`NestedSmc`)",
        "give parameters their bounds by the prior, or use annealed.nested",
    ),
    (
        "use more moves at each stage, a better mixing kernel or a wider base",
        "pass a gradient, or a larger budget",
    ),
    (
        "use more stages or a better mixing kernel",
        "pass a larger budget or a gradient",
    ),
    (
        "use more stages, another base or a better mixing kernel",
        "pass a larger budget or a gradient",
    ),
    (
        "choose a base closer to the target, or use more stages if the support changes along the path",
        "give parameters their bounds by the prior, or pass a larger budget",
    ),
    (
        "place more stages there, or give rounds a larger budget",
        "pass a larger budget",
    ),
    (
        "use more stages or more chains",
        "pass a larger budget or more chains",
    ),
    (
        "error understated; use more stages",
        "error understated; pass a larger budget",
    ),
    ("use smaller steps", "pass a smaller step_size"),
    (
        "Start from a base that covers this mass (a challenge may find one, or for an RBM a search for a start), or use more \
         stages",
        "Call run.challenge(), or pass a larger budget",
    ),
    (
        "challenge again with a larger budget to look for more",
        "call run.challenge(budget=..) with a larger budget to look for more",
    ),
    (
        "look at the second run, or challenge again with a larger budget",
        "call run.challenge(budget=..) with a larger budget, or another seed",
    ),
    (
        "the samples are probably not from this target, or the kernel's reversal is wrong; check both",
        "the samples are probably not from this posterior",
    ),
    (
        "use a base that covers the target, more stages or a better mixing kernel",
        "pass a larger budget or a gradient",
    ),
    (
        "use more stages, more chains or a better mixing kernel",
        "pass a larger budget or more chains",
    ),
];

/// Phrases for `annealed.nested` and `annealed.tempering`.
const OF_MODES: &[Phrase] = &[
    ("allow more levels", "pass a larger max_levels"),
    (
        "the estimate of the resampled run rests on about",
        "the islands are worth about",
    ),
    (
        " independent families of chains, too few to judge the error: run at least 10 blocks, with more chains or a smaller \
         block_size; if the run already has 10 blocks, use more stages or a better mixing kernel",
        " independent ones, too few to judge the error: pass more islands, at least 20; if there are as many, more chains or \
         moves",
    ),
    (
        "use more moves at each stage, a better mixing kernel or a wider base",
        "pass more chains or moves",
    ),
    (" betas (the barrier is", " stages (the barrier is"),
    (
        "round trips between base and target",
        "round trips between prior and posterior",
    ),
    (
        "the target's states still depend on where they began",
        "the posterior's states still depend on where they began",
    ),
    (
        "use more betas, or more rounds",
        "pass more stages, or more rounds",
    ),
    (
        "more rounds or a better mixing kernel",
        "more rounds, or pass a gradient",
    ),
    ("use smaller steps", "pass a smaller step_size"),
    (
        "use more stages, another base or a better mixing kernel",
        "pass more chains or moves",
    ),
    (
        "use more stages or more chains",
        "pass more islands, chains or moves",
    ),
    (
        "error understated; use more stages",
        "error understated; pass more chains or moves",
    ),
    (
        "challenge again with a larger budget to look for more",
        "call run.challenge(budget=..) with a larger budget to look for more",
    ),
    (
        "look at the second run, or challenge again with a larger budget",
        "call run.challenge(budget=..) with a larger budget, or another seed",
    ),
];

/// Phrases for `annealed.rbm` and its reverse runs, `annealed.stan` and `annealed.log_likelihoods`.
const OF_STAGES: &[Phrase] = &[
    (
        "use more stages, another base or a better mixing kernel",
        "pass more stages",
    ),
    (
        "place more stages there, or give rounds a larger budget",
        "pass more stages",
    ),
    (
        "Start from a base that covers this mass (a challenge may find one, or for an RBM a search for a start), or use more \
         stages",
        "Pass more stages, for an RBM with base=\"auto\"",
    ),
    (
        "use a base that covers the target, more stages or a better mixing kernel",
        "pass more stages, with base=\"auto\"",
    ),
    (
        "use more stages, more chains or a better mixing kernel",
        "pass more stages or more chains",
    ),
    (
        "the samples are probably not from this target, or the kernel's reversal is wrong; check both",
        "the samples are probably not from this machine",
    ),
];

/// Phrases for `annealed.from_draws`.
const OF_DRAWS: &[Phrase] = &[
    (
        "compare log Z with a run from the prior",
        "compare log Z with annealed.evidence",
    ),
    (
        "the two directions hardly overlap",
        "the draws and the fitted law hardly overlap",
    ),
    (
        "use more stages, slower processes or states between, or more samples in both directions",
        "pass law=\"mixture\", or use annealed.evidence",
    ),
    (
        "the two directions overlap (",
        "the draws and the fitted law overlap (",
    ),
    ("use more samples in both directions", "pass more draws"),
];

/// Phrases for `annealed.free_energy`.
const OF_WORKS: &[Phrase] = &[
    (
        "their units (over kT, or as stated)",
        "their units (the argument unit)",
    ),
    ("use more stages, slower processes", "use slower processes"),
];

fn of(call: &str) -> impl Iterator<Item = &'static Phrase> {
    let own = match call {
        "annealed.evidence" | "annealed.log_z" => OF_EVIDENCE,
        "annealed.from_draws" => OF_DRAWS,
        "annealed.free_energy" => OF_WORKS,
        "annealed.nested" | "annealed.tempering" => OF_MODES,
        "annealed.log_likelihoods" | "annealed.rbm" | "annealed.stan" => OF_STAGES,
        _ => &[],
    };
    own.iter().chain(OF_ALL)
}

/// Returns a text of the library in the words of Python. `call` is the function that the user called, empty if it is
/// not known.
pub fn in_python(call: &str, text: &str) -> String {
    of(call).fold(text.to_owned(), |text, (phrase, own)| {
        text.replace(phrase, own)
    })
}

/// Returns the phrases of the library that the package replaces. Only tests use this.
#[pyfunction]
pub fn _phrases() -> Vec<&'static str> {
    let calls = [
        "annealed.evidence",
        "annealed.from_draws",
        "annealed.free_energy",
        "annealed.nested",
        "annealed.rbm",
    ];
    let phrases = calls.into_iter().flat_map(of);
    phrases.map(|(phrase, _)| *phrase).collect()
}
