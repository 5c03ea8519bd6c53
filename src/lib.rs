// The first definition of a link wins. The definitions below lead to pages of this documentation.
#![doc = "[batches]: crate::guide::batches\n[claims]: crate::guide::claims\n[cookbook]: crate::guide::cookbook\n[draws]: crate::guide::draws\n[energies]: crate::guide::energies\n[evidence]: crate::guide::evidence\n[features]: crate::guide::features\n[free]: crate::guide::free_energy\n[guide]: crate::guide\n[intervals]: crate::guide::intervals\n[long]: crate::guide::long_runs\n[machines]: crate::guide::many_machines\n[own]: crate::guide::own_models\n[papers]: crate::guide::papers_in_code\n[populations]: crate::guide::populations\n[posterior]: crate::guide::posterior\n[program]: crate::guide::program\n[python]: crate::guide::python\n[rbms]: crate::guide::rbms\n[schedules]: crate::guide::schedules\n[slow]: crate::guide::slow_likelihoods\n[states]: crate::guide::many_states\n[which]: crate::guide::which_method\n[witness]: crate::guide::second_witness\n"]
#![doc = include_str!("../docs/figures/both-directions.link")]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adaptive;
pub mod ais;
pub mod bidirectional;
pub mod data;
pub mod drift;
pub mod error;
pub mod estimate;
// The first definition of a link wins. The definitions below lead to pages of this documentation.
macro_rules! links {
    () => {
        concat!(
            "[batches]: crate::guide::batches\n",
            "[claims]: crate::guide::claims\n",
            "[cookbook]: crate::guide::cookbook\n",
            "[draws]: crate::guide::draws\n",
            "[energies]: crate::guide::energies\n",
            "[evidence]: crate::guide::evidence\n",
            "[features]: crate::guide::features\n",
            "[free]: crate::guide::free_energy\n",
            "[guide]: crate::guide\n",
            "[intervals]: crate::guide::intervals\n",
            "[long]: crate::guide::long_runs\n",
            "[machines]: crate::guide::many_machines\n",
            "[own]: crate::guide::own_models\n",
            "[papers]: crate::guide::papers_in_code\n",
            "[populations]: crate::guide::populations\n",
            "[posterior]: crate::guide::posterior\n",
            "[program]: crate::guide::program\n",
            "[python]: crate::guide::python\n",
            "[rbms]: crate::guide::rbms\n",
            "[schedules]: crate::guide::schedules\n",
            "[slow]: crate::guide::slow_likelihoods\n",
            "[states]: crate::guide::many_states\n",
            "[which]: crate::guide::which_method\n",
            "[witness]: crate::guide::second_witness\n",
            "\n"
        )
    };
}
#[doc = links!()]
pub mod guide;
#[doc(inline)]
pub use rbm::harmonium;
pub mod kernel;
pub mod learned;
pub mod many;
pub mod model;
pub mod nested;
mod num;
pub mod path;
pub mod pilot;
pub mod population;
pub mod random;
pub mod rbm;
pub mod schedule;
pub mod tempering;
pub mod testing;
mod work;

pub use error::{Error, Result};
#[cfg(feature = "num-dual")]
pub use num_dual;
#[cfg(feature = "checkpoint")]
pub use work::{ranks, store as checkpoint};
pub use {nalgebra, rand};

/// The names that most programs need, imported with `use annealed::prelude::*`.
pub mod prelude {
    pub use nalgebra::{DMatrix, DVector};

    pub use crate::adaptive::{Challenge, FirstPass, Judged, Judgement, Rounds, RoundsRun};
    pub use crate::ais::{Ais, Run};
    pub use crate::bidirectional::{Bridge, BridgeSampling, TargetSamples};
    pub use crate::estimate::{
        Agreement, LogRatio, LogZ, ModelComparison, Quantities, Warning, WeightedSample,
    };
    pub use crate::kernel::{
        CoordinateGibbs, Hmc, Invariant, Mala, Metropolis, Mixture, Preconditioner,
        RandomWalkMetropolis, Repeat, Sequence, Slice, TransitionKernel, Tunable,
    };
    #[cfg(feature = "num-dual")]
    pub use crate::model::DualModel;
    pub use crate::model::{
        BatchModel, Differentiable, FunctionModel, Gaussian, GaussianMixture, GradientModel,
        JointPrior, NormalizedModel, Prior, Priors, Sampleable, StudentT, UniformBox,
        UnnormalizedModel,
    };
    pub use crate::nested::NestedSmc;
    pub use crate::path::{AnnealingPath, GeometricPath, TemperedPath};
    pub use crate::pilot::{Friction, Pilot, ScheduleOptimizer, VarOpt};
    pub use crate::population::Resampling;
    pub use crate::rbm::{BaseRate, BlockGibbs, ContrastiveDivergence, Rbm, RbmPath, StartSearch};
    pub use crate::schedule::Schedule;
    pub use crate::tempering::Tempering;
}
