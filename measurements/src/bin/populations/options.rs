//! Command line of the program.

use std::path::PathBuf;

use clap::Parser;

use crate::methods::Method;
use crate::named::{Name, sonar_file};

/// Populations of chains on problems with a known log Z.
#[derive(Debug, Parser)]
pub struct Options {
    /// The problem
    #[arg(long, value_enum, required_unless_present = "compare")]
    pub problem: Option<Name>,
    /// Method; rounds unless set, every method with --compare
    #[arg(long, value_enum)]
    pub method: Option<Method>,
    /// Budget of density evaluations, pilots and tuning included; a value with its gradient counts as one. The
    /// problem's own unless set, 2,000,000 with --compare
    #[arg(long)]
    pub budget: Option<u64>,
    /// Order of the Latin squares, 4 to 11
    #[arg(long, default_value_t = 11)]
    pub order: usize,
    /// File of sonar returns, 60 numbers and a label a line
    #[arg(long, default_value_os_t = sonar_file())]
    pub data: PathBuf,
    /// Seed; one seed gives the same figures for any number of threads
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Output of one JSON object
    #[arg(long)]
    pub json: bool,
    /// Table of docs/which-method.md: every method on eight kinds of target
    #[arg(long, conflicts_with_all = ["problem", "json"])]
    pub compare: bool,
    /// Seeds per problem and method, with --compare
    #[arg(long, default_value_t = 20)]
    pub seeds: u64,
    /// Only the targets whose names contain this, with --compare
    #[arg(long, default_value = "")]
    pub only: String,
}
