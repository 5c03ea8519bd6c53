#![doc = include_str!("../README.md")]

pub mod ais;
pub mod data;
pub mod error;
pub mod estimate;
pub mod kernel;
mod math;
mod minimize;
pub mod model;
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
    pub use crate::ais::{Ais, Run};
    pub use crate::kernel::{
        BlockGibbs, CoordinateGibbs, Hmc, Mala, RandomWalkMetropolis, Stage, Step,
        TransitionKernel, tune,
    };
    pub use crate::model::{
        Differentiable, FunctionModel, Gaussian, NormalizedModel, Rbm, Sampleable,
        UnnormalizedModel,
    };
    pub use crate::path::{
        AnnealingPath, GeometricPath, MomentPath, MomentSplinePath, RbmPath, TemperedPath,
    };
    pub use crate::schedule::{Friction, Schedule, ScheduleOptimizer, VarOpt};
}
