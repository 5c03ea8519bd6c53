//! Options of both reproductions.

use std::path::PathBuf;

use clap::Parser;

use super::Training;

/// Without options: a minute's sketch on embedded 8 x 8 digits, to see that everything works.
#[derive(Debug, Parser)]
pub struct Options {
    /// Folder with MNIST's IDX files, plain or .gz
    #[arg(long)]
    pub mnist: Option<PathBuf>,
    /// Minutes on two cores: shorter training, fewer chains and stages than in the papers
    #[arg(long, conflicts_with = "full")]
    pub fast: bool,
    /// The papers' numbers of chains and stages: hours
    #[arg(long)]
    pub full: bool,
    /// Number of hidden units; above 20 there is no exact log Z to compare with
    #[arg(long, default_value_t = 20)]
    pub hidden: usize,
    /// The RBMs, by their training; those of the paper unless set
    #[arg(long, value_enum, value_delimiter = ',')]
    pub rbms: Vec<Training>,
    /// Number of chains, instead of the setting's
    #[arg(long)]
    pub chains: Option<usize>,
    /// Number of stages, instead of the setting's
    #[arg(long)]
    pub steps: Option<usize>,
    /// Independent runs of each row, instead of the setting's
    #[arg(long)]
    pub repeats: Option<u64>,
    /// Updates in training, instead of the setting's
    #[arg(long)]
    pub updates: Option<usize>,
    /// Folder for the figures (SVG), made where it is missing; none are drawn without it
    #[arg(long, value_parser = folder)]
    pub figures: Option<PathBuf>,
    /// Folder for the trained RBMs (.npz, with the exact log Z), made where it is missing
    #[arg(long, value_parser = folder)]
    pub save_rbms: Option<PathBuf>,
    /// Seed of training and runs
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

fn folder(path: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(path)?;
    Ok(path.into())
}

/// How much is spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Updates in training.
    pub updates: usize,
    pub chains: usize,
    /// Stages of the longest run.
    pub steps: usize,
    /// Independent runs of each row.
    pub repeats: u64,
    /// Whether pilots are as long as in the papers.
    pub long_pilots: bool,
}

impl Options {
    /// The RBMs asked for, or those of the paper.
    pub fn rbms_or(&self, paper: &[Training]) -> Vec<Training> {
        if self.rbms.is_empty() {
            paper.to_vec()
        } else {
            self.rbms.clone()
        }
    }

    pub fn setting(&self) -> Setting {
        let (updates, chains, steps, repeats) = if self.full {
            (250_000, 1_000, 100_000, 1)
        } else if self.fast {
            (10_000, 256, 10_000, 2)
        } else {
            (1_000, 128, 1_000, 1)
        };
        Setting {
            updates: self.updates.unwrap_or(updates).max(1),
            chains: self.chains.unwrap_or(chains),
            steps: self.steps.unwrap_or(steps),
            repeats: self.repeats.unwrap_or(repeats).max(1),
            long_pilots: self.full,
        }
    }
}
