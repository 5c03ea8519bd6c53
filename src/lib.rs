#![doc = include_str!("../README.md")]

pub mod ais;
pub mod data;
mod engine;
pub mod error;
pub mod estimate;
#[doc = include_str!("../docs/guide.md")]
pub mod guide {
    #[doc = include_str!("../docs/intervals.md")]
    pub mod intervals {}
}
#[cfg(doctest)]
#[doc = include_str!("../docs/schedules.md")]
mod schedules_of_the_docs {}
pub mod kernel;
mod math;
mod minimize;
pub mod model;
mod network;
mod normal;
pub mod path;
#[cfg(feature = "plot")]
pub mod plot;
pub mod schedule;
#[cfg(feature = "serde")]
mod serial;
pub mod testing;

pub use error::{Error, Result};
pub use {nalgebra, rand};

/// What most programs need, by `use annealed::prelude::*`.
pub mod prelude {
    pub use nalgebra::{DMatrix, DVector};

    pub use crate::ais::{Ais, Run};
    pub use crate::estimate::Warning;
    pub use crate::kernel::{
        BlockGibbs, CoordinateGibbs, Hmc, Mala, Metropolis, NonFinite, RandomWalkMetropolis,
        Repeat, Stage, Step, SymmetricProposal, TransitionKernel, Tunable, tune,
    };
    #[cfg(feature = "npz")]
    pub use crate::model::RbmFile;
    pub use crate::model::{
        BaseRate, ContrastiveDivergence, Differentiable, FunctionModel, Gaussian, GaussianMixture,
        NormalizedModel, Rbm, Sampleable, UnnormalizedModel,
    };
    pub use crate::path::{
        AnnealingPath, Engine, GeometricPath, MomentPath, MomentSplinePath, RbmPath, TemperedPath,
    };
    pub use crate::schedule::{
        BinnedSchedule, ConstantConditionalEss, Friction, KnotChains, Pilot, Schedule,
        ScheduleOptimizer, Survey, VarOpt,
    };
}
