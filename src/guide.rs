#![doc = include_str!("../docs/guide.md")]

/// Defines modules that contain only a page of `docs/` each.
macro_rules! pages {
    ($($module:ident $page:literal,)+) => {$(
        #[doc = links!()]
        #[doc = include_str!(concat!("../docs/", $page))]
        pub mod $module {}
    )+};
}

pages! {
    cookbook "cookbook.md",
    batches "batches.md",
    claims "claims.md",
    draws "draws.md",
    energies "energies.md",
    evidence "evidence.md",
    features "features.md",
    free_energy "free-energy.md",
    intervals "intervals.md",
    long_runs "long-runs.md",
    many_machines "many-machines.md",
    many_states "many-states.md",
    own_models "own-models.md",
    papers_in_code "papers-in-code.md",
    populations "populations.md",
    posterior "posterior.md",
    program "program.md",
    python "python.md",
    schedules "schedules.md",
    second_witness "second-witness.md",
    slow_likelihoods "slow-likelihoods.md",
    which_method "which-method.md",
}

#[doc = links!()]
#[doc = include_str!("../docs/figures/rbm-cost.link")]
#[doc = include_str!("../docs/rbms.md")]
pub mod rbms {}
