//! Small values of each type that the target `json` reads, by the byte that chooses the type.

use annealed::Result;
use annealed::drift::{
    BumpFeatures, DriftModifiedLangevin, EnsembleModifier, QuadratureModifier, RidgeModifier,
    RidgePath, RidgePrior, SeparableModifier, Sinusoid,
};
use annealed::estimate::Estimate;
use annealed::harmonium::{CategoricalUnits, GaussianUnits, Harmonium};
use annealed::kernel::{Hmc, Preconditioner};
use annealed::learned::{AmortizedTransitions, Coupling, LearnedTransitions, Mean};
use annealed::model::{Bernoulli, GaussianMixture, Prior, Priors, StudentT, UniformBox};
use annealed::path::GaussianPath;
use annealed::pilot::{DerivativeRecorder, ScheduleMetric, Survey};
use annealed::prelude::*;
use annealed::rbm::{BaseRate, Rbm, StartSearch};
use annealed::tempering::Tempering;
use nalgebra::{DMatrix, dvector};
use serde::Serialize;

struct Seeds(Vec<(u8, String)>);

impl Seeds {
    fn add(&mut self, kind: u8, value: &impl Serialize) {
        let text = serde_json::to_string(value).expect("it can be written");
        self.0.push((kind, text));
    }

    fn runs(&mut self) -> Result<()> {
        let normal = |at, deviation| Gaussian::isotropic(dvector![at], deviation);
        let path = GaussianPath::new(normal(0.0, 1.0)?, normal(0.5, 0.8)?)?;
        let schedule = Schedule::linear(2)?;
        let walk = RandomWalkMetropolis::new(0.5)?;
        let ais = || {
            Ais::new(&path, walk.clone())
                .schedule(schedule.clone())
                .chains(4)
                .block_size(2)
        };
        let (run, part) = (ais().run()?, ais().run_range(0..2)?);
        self.add(1, &run);
        for kind in [2, 3] {
            self.add(kind, &part);
            self.add(kind, &run);
        }
        let tempering = Tempering::new(&path, walk.clone()).schedule(schedule.clone());
        self.add(23, &tempering.ladders(2).rounds(3).run()?);
        let recorded = ais().recorder(DerivativeRecorder::default()).run()?;
        let survey = Survey::from_run(&recorded)?;
        let estimate = Estimate::from_log_weights(&[0.0, 1.0, 0.5])?;
        let metric = ScheduleMetric::new(vec![0.0, 0.5, 1.0], vec![1.0, 2.0, 1.0])?;
        self.add(24, &(survey, estimate, metric));
        let table = QuadratureModifier::new(&path, &schedule, (-4.0, 4.0), 5)?;
        self.add(18, &SeparableModifier::new([table]));
        let features = BumpFeatures::new(1, &[dvector![0.3]], &[0.5])?;
        self.add(
            19,
            &EnsembleModifier::fit(&path, features, &schedule, 0.1, 20, 1)?,
        );
        let wave = Sinusoid {
            amplitude: 1.0,
            frequency: 2.0,
            phase: 0.0,
        };
        let ridges = RidgePath::new(DMatrix::identity(1, 1), [wave], 2.0, 1.0, 0.3)?;
        let modifier = RidgeModifier::new(&ridges, &schedule, 5)?;
        self.add(17, &modifier);
        self.add(20, &DriftModifiedLangevin::new(modifier, 0.1)?);
        Ok(())
    }

    fn machines(&mut self) -> Result<()> {
        let weights = DMatrix::from_row_slice(2, 3, &[1.0, -1.0, 0.5, -0.5, 1.0, 2.0]);
        let biases = (dvector![0.2, -0.3], dvector![0.1, -0.2, 0.3]);
        let rbm = Rbm::new(weights.clone(), biases.0.clone(), biases.1.clone())?;
        let rbm: Rbm<f32> = rbm.cast()?;
        let start = StartSearch::new(1).threads(1).run(&rbm)?;
        self.add(4, &start);
        self.add(
            3,
            &serde_json::json!({"start": start, "contradictions": []}),
        );
        self.add(12, &rbm);
        self.add(13, &BaseRate::new(2, biases.1.clone())?);
        self.add(25, &rbm.exact_moments()?);
        let gaussian = GaussianUnits::new(biases.1.clone(), dvector![1.0, 2.0, 0.5])?;
        self.add(14, &Harmonium::new(weights, biases.0, gaussian)?);
        self.add(
            15,
            &Harmonium::start(2, CategoricalUnits::uniform(2, 2)?, 1)?,
        );
        Ok(())
    }

    fn models(&mut self) -> Result<()> {
        let covariance = || DMatrix::from_row_slice(2, 2, &[2.0, 1.0, 1.0, 2.0]);
        let gaussian = Gaussian::new(dvector![0.0, 1.0], covariance())?;
        self.add(5, &gaussian);
        self.add(5, &Gaussian::standard(2)?);
        self.add(6, &StudentT::new(gaussian.clone(), 4.0)?);
        self.add(7, &UniformBox::new([(0.0, 1.0), (-1.0, 2.0)])?);
        let priors = [
            Prior::normal(1.0, 2.0)?,
            Prior::student_t(3.0, 0.0, 1.0)?,
            Prior::gamma(2.0, 0.5)?,
            Prior::half_cauchy(1.5)?,
            Prior::uniform(-1.0, 3.0)?,
            Prior::inverse_gamma(3.0, 2.0)?,
        ];
        self.add(8, &Priors::new(priors)?);
        let components = [(0.3, gaussian), (0.7, Gaussian::standard(2)?)];
        self.add(9, &GaussianMixture::new(components)?);
        let shape = Preconditioner::covariance(&covariance())?;
        self.add(10, &shape);
        self.add(26, &Hmc::new(0.3, 2)?.preconditioned(shape));
        self.add(11, &Bernoulli::new(dvector![0.5, -1.0])?);
        self.add(16, &RidgePrior::new(covariance(), 1.0, 0.3)?);
        self.add(
            21,
            &LearnedTransitions::new(Mean::Residual { hidden: 2 }, 1, 2, 1)?,
        );
        self.add(
            21,
            &LearnedTransitions::new(Coupling { hidden: 1, bins: 2 }, 2, 1, 1)?,
        );
        self.add(
            22,
            &AmortizedTransitions::new(Mean::Gated { hidden: 1 }, 1, 1, 1, 1)?,
        );
        self.add(0, &Schedule::linear(3)?);
        self.0
            .push((27, "# a schedule\n0\n\n0.25\n1e-0\n".to_owned()));
        Ok(())
    }
}

/// Returns the seeds.
///
/// # Errors
/// None, as they are valid.
pub fn json() -> Result<Vec<(u8, String)>> {
    let mut seeds = Seeds(Vec::new());
    seeds.runs()?;
    seeds.machines()?;
    seeds.models()?;
    Ok(seeds.0)
}
