//! Runs of annealed importance sampling: exact answers, budgets, what a run reports and refuses.

mod allocations;
mod along_the_path;
mod bad_input;
mod budget_coverage;
mod budgets;
mod finite_state;
mod other_runs;
mod unbiasedness;
