//! Learned transitions on targets with far modes: which objectives and transitions find them all.
//!
//! ```text
//! cargo run --release --example annealed_variational               # 4-mode grid, two objectives
//! cargo run --release --example annealed_variational -- --full     # all cases, objectives, 4 seeds
//! cargo run --release --example annealed_variational -- --table    # objectives x transitions, grid
//! cargo run --release --example annealed_variational -- --svg samples.svg
//! ```
//!
//! Every objective has the same network and the same number of gradients of log densities. All kinds of transitions have
//! about 590 parameters each in two dimensions, 320 in one. The rate of gated transitions was tuned on other seeds, by `--cases grid --first-seed 101 --seeds 4 --rate R`: 1e-2 was best for
//! every objective (docs/notes/variational.md).

#[path = "common/scatter_sheet.rs"]
mod scatter_sheet;

use std::time::Instant;

use annealed::ais::Ais;
use annealed::learned::{
    AuxiliaryPath, Coupling, Family, LearnedTransitions, Mean, Noise, Objective,
    TrainedTransitions, Training, mode_occupancy,
};
use annealed::model::{
    Differentiable, Gaussian, GaussianMixture, NormalizedModel, UnnormalizedModel,
};
use annealed::path::{AnnealingPath, GeometricPath};
use annealed::schedule::Schedule;
use clap::{Parser, ValueEnum};
use nalgebra::{DVector, dvector};
use serde_json::{Map, Value, json};

const BATCH: usize = 256;
const COMPONENTS: usize = 4;
const BINS: usize = 8;
/// Trajectories per group of the importance-weighted objective.
const SAMPLES: usize = 16;
const CHAINS: usize = 50_000;
/// Noise for log Z, with tails that bound the variance of the weights.
const NOISE: Noise = Noise::Student {
    degrees_of_freedom: 5,
};

#[derive(Parser)]
struct Options {
    /// JSON output: per case and objective a list over transitions and seeds.
    #[arg(long)]
    json: bool,
    /// Table of the grid with AVO, the ELBO and the importance-weighted bound, for each kind of transitions.
    #[arg(long)]
    table: bool,
    /// All cases, all objectives and 4 seeds.
    #[arg(long)]
    full: bool,
    /// Cases; only the grid unless set.
    #[arg(long, value_delimiter = ',')]
    cases: Option<Vec<CaseName>>,
    /// Objectives; annealed and hierarchical unless set.
    #[arg(long, value_delimiter = ',')]
    objectives: Option<Vec<ObjectiveName>>,
    /// Kinds of transitions; gated unless set. Couplings without auxiliary variables need two dimensions.
    #[arg(long, value_delimiter = ',')]
    transitions: Option<Vec<TransitionName>>,
    /// Number of seeds; 1 unless set.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Iterations of the annealed objectives: 1,500 unless set, 500 with --table; the others have T times as many.
    #[arg(long)]
    iterations: Option<usize>,
    /// Weight a of the loss-calibrated objective.
    #[arg(long, default_value_t = 0.9)]
    weight: f64,
    /// Learning rate before its decay; 1e-2 unless set, 3e-3 for couplings.
    #[arg(long)]
    rate: Option<f64>,
    /// Figure of the samples after each transition beside the tempered targets (AVO, 4-mode grid).
    #[arg(long)]
    svg: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum CaseName {
    Grid,
    Circle,
    Pair,
}

#[derive(Clone, Copy, ValueEnum)]
enum ObjectiveName {
    Annealed,
    LossCalibrated,
    AlphaAnnealing,
    Hierarchical,
    BetaAnnealing,
    ImportanceWeighted,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum TransitionName {
    Gated,
    Mixture,
    Affine,
    Additive,
    Spline,
    AuxiliaryGated,
    AuxiliaryAffine,
    AuxiliarySpline,
}

impl TransitionName {
    /// Returns the form of transitions for a target of so many dimensions, with the hidden units that the budget allows.
    fn family(self, dimension: usize) -> Family {
        let pick = |one: usize, two: usize| if dimension == 1 { one } else { two };
        match self {
            Self::Gated => (Mean::Gated { hidden: 32 }).into(),
            Self::Mixture => Family::Mixture {
                mean: Mean::Gated { hidden: 12 },
                components: COMPONENTS,
            },
            Self::Affine => (Coupling::Affine { hidden: 73 }).into(),
            Self::Additive => (Coupling::Additive { hidden: 98 }).into(),
            Self::Spline => Coupling::Spline {
                hidden: 11,
                bins: BINS,
            }
            .into(),
            Self::AuxiliaryGated => (Mean::Gated {
                hidden: pick(17, 16),
            })
            .into(),
            Self::AuxiliaryAffine => (Coupling::Affine { hidden: 41 }).into(),
            Self::AuxiliarySpline => Coupling::Spline {
                hidden: 5,
                bins: BINS,
            }
            .into(),
        }
    }

    fn has_auxiliary(self) -> bool {
        use TransitionName::{AuxiliaryAffine, AuxiliaryGated, AuxiliarySpline};
        matches!(self, AuxiliaryGated | AuxiliaryAffine | AuxiliarySpline)
    }

    fn rate(self) -> f64 {
        match self {
            Self::Gated | Self::Mixture | Self::AuxiliaryGated => 1e-2,
            _ => 3e-3,
        }
    }
}

impl ObjectiveName {
    fn objective(self, weight: f64) -> Objective {
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

/// A target with modes of equal mass and log Z = 0.
struct Case {
    modes: Vec<DVector<f64>>,
    deviation: f64,
    transitions: usize,
}

struct Outcome {
    occupancy: Vec<f64>,
    elbo: f64,
    log_z: f64,
    interval: (f64, f64),
    ess: f64,
    target_gradients: u64,
    seconds: f64,
}

type Path = GeometricPath<Gaussian, GaussianMixture>;

fn main() -> annealed::Result<()> {
    let options = Options::parse();
    let (cases, objectives, transitions, seeds) = options.choice();
    if let Some(file) = &options.svg {
        figure::save(file, &options)?;
    }
    let mut report = Map::new();
    for case in cases {
        let mut by_objective = Map::new();
        for &objective in &objectives {
            let mut outcomes = Vec::new();
            for &transition in &transitions {
                let of_seed = |seed| case.build().run(objective, transition, seed, &options);
                let seeds = options.first_seed..options.first_seed + seeds;
                let of_seeds: Vec<_> = seeds.map(of_seed).collect::<annealed::Result<_>>()?;
                options.print(case, objective, transition, &of_seeds);
                outcomes.extend(of_seeds.iter().map(|outcome| outcome.json(transition)));
            }
            by_objective.insert(name(objective), outcomes.into());
        }
        report.insert(name(case), by_objective.into());
    }
    if options.json {
        println!("{}", Value::from(report));
    }
    Ok(())
}

fn name(value: impl ValueEnum) -> String {
    let possible = value.to_possible_value();
    possible.map_or_else(String::new, |value| value.get_name().to_string())
}

type Choice = (Vec<CaseName>, Vec<ObjectiveName>, Vec<TransitionName>, u64);

impl Options {
    fn choice(&self) -> Choice {
        let (annealed, bound) = (ObjectiveName::Annealed, ObjectiveName::Hierarchical);
        let (grid, gated) = (vec![CaseName::Grid], vec![TransitionName::Gated]);
        let (cases, objectives, transitions, seeds) = if self.full {
            let cases = CaseName::value_variants().to_vec();
            (cases, ObjectiveName::value_variants().to_vec(), gated, 4)
        } else if self.table {
            let objectives = vec![annealed, bound, ObjectiveName::ImportanceWeighted];
            let transitions = TransitionName::value_variants().to_vec();
            println!("| objective | transitions | modes | ELBO | log Z | ESS/N | seconds |");
            println!("|---|---|---|---|---|---|---|");
            (grid, objectives, transitions, 1)
        } else {
            (grid, vec![annealed, bound], gated, 1)
        };
        (
            self.cases.clone().unwrap_or(cases),
            self.objectives.clone().unwrap_or(objectives),
            self.transitions.clone().unwrap_or(transitions),
            self.seeds.unwrap_or(seeds),
        )
    }

    /// Prints a row of the table, or a line for each seed.
    fn print(
        &self,
        case: CaseName,
        objective: ObjectiveName,
        transition: TransitionName,
        outcomes: &[Outcome],
    ) {
        if self.table {
            let list = |of: &dyn Fn(&Outcome) -> String| {
                let entries: Vec<_> = outcomes.iter().map(of).collect();
                entries.join(" ")
            };
            println!(
                "| {} | {} | {} | {} | {} | {} | {} |",
                name(objective),
                name(transition),
                list(&|o| o.modes().to_string()),
                list(&|o| format!("{:.2}", o.elbo)),
                list(&|o| format!("{:.2}", o.log_z)),
                list(&|o| format!("{:.2}", o.ess / CHAINS as f64)),
                list(&|o| format!("{:.0}", o.seconds)),
            );
        } else if !self.json {
            for (seed, outcome) in (self.first_seed..).zip(outcomes) {
                let what = [name(case), name(transition), name(objective)];
                outcome.print(what, seed);
            }
        }
    }
}

impl CaseName {
    fn build(self) -> Case {
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

impl Case {
    fn path(&self) -> annealed::Result<Path> {
        let mass = 1.0 / self.modes.len() as f64;
        let component =
            |mode: &DVector<f64>| Ok((mass, Gaussian::isotropic(mode.clone(), self.deviation)?));
        let components: annealed::Result<Vec<_>> = self.modes.iter().map(component).collect();
        Ok(GeometricPath::new(
            Gaussian::standard(self.modes[0].len())?,
            GaussianMixture::new(components?)?,
        ))
    }

    fn train<'p, P>(
        &self,
        path: &'p P,
        objective: ObjectiveName,
        transition: TransitionName,
        seed: u64,
        options: &Options,
    ) -> annealed::Result<TrainedTransitions>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At: Differentiable,
    {
        let dimension = self.modes[0].len();
        let states = path.base().state_dimension().unwrap_or(dimension);
        let flow =
            LearnedTransitions::new(transition.family(dimension), states, self.transitions, seed)?;
        let objective = objective.objective(options.weight);
        let iterations = if options.table { 500 } else { 1_500 };
        let gradients = options.iterations.unwrap_or(iterations) * self.transitions;
        let trained = Training::new(objective)
            .iterations(gradients / objective.gradients_per_sample(self.transitions))
            .batch_size(BATCH)
            .learning_rate(options.rate.unwrap_or_else(|| transition.rate()))
            .seed(seed)
            .train(flow, path, &self.schedule()?)?;
        Ok(trained)
    }

    fn schedule(&self) -> annealed::Result<Schedule> {
        Schedule::linear(self.transitions)
    }

    fn run(
        &self,
        objective: ObjectiveName,
        transition: TransitionName,
        seed: u64,
        options: &Options,
    ) -> annealed::Result<Outcome> {
        let path = self.path()?;
        if transition.has_auxiliary() {
            // One for each coordinate.
            let path = AuxiliaryPath::new(path, self.modes[0].len())?;
            return self.run_on(&path, objective, transition, seed, options);
        }
        self.run_on(&path, objective, transition, seed, options)
    }

    /// Trains a flow and scores it: ELBO and occupancy as trained, log Z and ESS with `NOISE`.
    fn run_on<'p, P>(
        &self,
        path: &'p P,
        objective: ObjectiveName,
        transition: TransitionName,
        seed: u64,
        options: &Options,
    ) -> annealed::Result<Outcome>
    where
        P: AnnealingPath<State = DVector<f64>> + Sync,
        P::Base: NormalizedModel,
        P::At: Differentiable,
    {
        let start = Instant::now();
        let trained = self.train(path, objective, transition, seed, options)?;
        let seconds = start.elapsed().as_secs_f64();
        let run = |flow: &LearnedTransitions| {
            let ais = Ais::new(path, flow).schedule(self.schedule()?);
            ais.chains(CHAINS).seed(seed).run()
        };
        let as_trained = run(&trained.flow)?;
        let weighted = run(&trained.flow.with_noise(NOISE)?)?;
        let dimension = self.modes[0].len();
        let own =
            |state: &DVector<f64>| state.rows(state.len() - dimension, dimension).into_owned();
        let states: Vec<_> = as_trained.states().iter().map(own).collect();
        Ok(Outcome {
            occupancy: mode_occupancy(&states, &self.modes)?,
            elbo: as_trained.lower_bound(),
            log_z: weighted.log_z(),
            interval: weighted.interval(),
            ess: weighted.effective_sample_size(),
            target_gradients: trained.target_gradients,
            seconds,
        })
    }
}

impl Outcome {
    /// Returns the number of modes with more than a quarter of their share.
    fn modes(&self) -> usize {
        let share = 1.0 / self.occupancy.len() as f64;
        self.occupancy.iter().filter(|&&o| o > share / 4.0).count()
    }

    fn print(&self, [case, transition, objective]: [String; 3], seed: u64) {
        let occupancy: Vec<String> = self.occupancy.iter().map(|o| format!("{o:.2}")).collect();
        println!(
            "{case:6} {transition:16} {objective:19} seed {seed}: {} modes, ELBO {:6.3}, \
             log Z {:6.3} ({:.3} to {:.3}), ESS {:5.0} of {CHAINS}, occupancy {}",
            self.modes(),
            self.elbo,
            self.log_z,
            self.interval.0,
            self.interval.1,
            self.ess,
            occupancy.join(" ")
        );
    }

    fn json(&self, transition: TransitionName) -> Value {
        json!({
            "transition": name(transition),
            "modes": self.modes(),
            "occupancy": self.occupancy,
            "elbo": self.elbo,
            "log_z": self.log_z,
            "log_z_interval": [self.interval.0, self.interval.1],
            "divergence_bound": -self.elbo,
            "ess": self.ess,
            "target_gradients": self.target_gradients,
            "seconds": self.seconds,
        })
    }
}

mod figure {
    use annealed::model::UnnormalizedModel;
    use annealed::path::AnnealingPath;
    use annealed::random::{Purpose, StreamRng, stream};
    use nalgebra::{DVector, dvector};
    use rand::distr::{Distribution, weighted::WeightedIndex};

    use super::{CaseName, ObjectiveName, Options, TransitionName};
    use crate::scatter_sheet::ScatterSheet;

    const POINTS: usize = 400;
    const EDGE: f64 = 7.0;
    const CELLS: usize = 140;

    /// Draws samples after each transition above exact samples of the tempered targets.
    pub fn save(file: &std::path::Path, options: &Options) -> annealed::Result<()> {
        let case = CaseName::Grid.build();
        let path = case.path()?;
        let seed = options.first_seed;
        let (objective, transition) = (ObjectiveName::Annealed, TransitionName::Gated);
        let trained = case.train(&path, objective, transition, seed, options)?;
        let point = |z: &DVector<f64>| (z[0], z[1]);
        let reached = trained.flow.samples(&path, POINTS, seed)?;
        let reached = reached
            .iter()
            .map(|states| states.iter().map(point).collect());
        let mut rng = stream(seed, Purpose::Run, 1);
        let schedule = case.schedule()?;
        let exact = schedule.betas().iter();
        let exact = exact.map(|&beta| from_grid(&path.at(beta), &mut rng));
        let by_flow = "the flow's samples after each transition";
        let sheet = ScatterSheet::new((-EDGE, EDGE), (-EDGE, EDGE))
            .row(by_flow, &reached.collect::<Vec<_>>())
            .row("the tempered targets", &exact.collect::<Vec<_>>());
        std::fs::write(file, sheet.to_svg()).map_err(|error| annealed::Error::io(file, error))
    }

    /// Draws cells of a grid in proportion to their density.
    fn from_grid(
        model: &impl UnnormalizedModel<State = DVector<f64>>,
        rng: &mut StreamRng,
    ) -> Vec<(f64, f64)> {
        let centre = |i: usize| EDGE * ((2 * i + 1) as f64 / CELLS as f64 - 1.0);
        let cell = |k: usize| (centre(k % CELLS), centre(k / CELLS));
        let density = |k: usize| {
            let (x, y) = cell(k);
            model.log_density(&dvector![x, y]).exp()
        };
        let law = WeightedIndex::new((0..CELLS * CELLS).map(density)).expect("a positive density");
        (0..POINTS).map(|_| cell(law.sample(rng))).collect()
    }
}
