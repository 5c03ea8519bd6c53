//! Names of cases, objectives and transitions on the command line.

use annealed::learned::{Coupling, Family, Mean, Objective};
use clap::ValueEnum;
use nalgebra::dvector;

use crate::case::Case;

const COMPONENTS: usize = 4;
const BINS: usize = 8;
/// Trajectories per group of the importance-weighted objective.
const SAMPLES: usize = 16;

#[derive(Clone, Copy, ValueEnum)]
pub enum CaseName {
    Grid,
    Circle,
    Pair,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ObjectiveName {
    Annealed,
    LossCalibrated,
    AlphaAnnealing,
    Hierarchical,
    BetaAnnealing,
    ImportanceWeighted,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum TransitionName {
    Gated,
    Mixture,
    Spline,
    AuxiliaryGated,
    AuxiliarySpline,
}

impl TransitionName {
    /// Returns the transitions for a target in `dimension` dimensions, with the hidden units that the budget allows.
    pub fn family(self, dimension: usize) -> Family {
        let pick = |one: usize, two: usize| if dimension == 1 { one } else { two };
        match self {
            Self::Gated => (Mean::Gated { hidden: 32 }).into(),
            Self::Mixture => Family::Mixture {
                mean: Mean::Gated { hidden: 12 },
                components: COMPONENTS,
            },
            Self::Spline => Coupling {
                hidden: 11,
                bins: BINS,
            }
            .into(),
            Self::AuxiliaryGated => (Mean::Gated {
                hidden: pick(17, 16),
            })
            .into(),
            Self::AuxiliarySpline => Coupling {
                hidden: 5,
                bins: BINS,
            }
            .into(),
        }
    }

    pub fn has_auxiliary(self) -> bool {
        matches!(self, Self::AuxiliaryGated | Self::AuxiliarySpline)
    }

    pub fn rate(self) -> f64 {
        match self {
            Self::Gated | Self::Mixture | Self::AuxiliaryGated => 1e-2,
            _ => 3e-3,
        }
    }
}

impl ObjectiveName {
    pub fn objective(self, weight: f64) -> Objective {
        match self {
            Self::Annealed => Objective::Annealed,
            Self::LossCalibrated => Objective::LossCalibrated { weight },
            Self::AlphaAnnealing => Objective::EnergyTempered {
                start: 0.01,
                until: 0.5,
            },
            Self::Hierarchical => Objective::Hierarchical,
            Self::BetaAnnealing => Objective::WarmUp { until: 0.5 },
            Self::ImportanceWeighted => Objective::ImportanceWeighted { samples: SAMPLES },
        }
    }
}

impl CaseName {
    pub fn build(self) -> Case {
        match self {
            Self::Grid => Case {
                modes: [(-4.0, -4.0), (-4.0, 4.0), (4.0, -4.0), (4.0, 4.0)]
                    .map(|(x, y)| dvector![x, y])
                    .to_vec(),
                deviation: 0.6,
                transitions: 6,
            },
            Self::Circle => Case {
                modes: (0..8)
                    .map(|i| f64::from(i) * std::f64::consts::FRAC_PI_4)
                    .map(|angle| dvector![angle.cos(), angle.sin()] * 5.0)
                    .collect(),
                deviation: 0.5,
                transitions: 8,
            },
            Self::Pair => Case {
                modes: vec![dvector![-4.0], dvector![4.0]],
                deviation: 0.5,
                transitions: 4,
            },
        }
    }
}

pub fn name(value: impl ValueEnum) -> String {
    let possible = value.to_possible_value();
    possible.map_or_else(String::new, |value| value.get_name().to_string())
}
