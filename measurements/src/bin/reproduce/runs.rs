//! Runs the missing rows.

use std::process::Command;

use annealed::Result;
use annealed::ais::{Ais, Run};
use annealed::estimate::LogZ;
use annealed::pilot::{BinnedSchedule, KnotChains};
use annealed::rbm::{BlockGibbs, RbmPath};
use annealed::schedule::Schedule;
use annealed_measurements::joint_costs;

use crate::rows::{Costs, Lines, Row, Setting, thousandths};

/// Chains of one run. A larger row has several runs with successive seeds, so that an early end loses little.
const PART: usize = 250;
const POINTS: usize = 50;
/// Segments of the binned schedules and of the splines.
pub const SEGMENTS: usize = 10;

// Sizes of the runs. (A doc comment would become the program's help.)
#[derive(Debug, clap::Args)]
pub struct Budget {
    /// Number of chains N of a row, a multiple of the 250 chains of a line
    #[arg(long, global = true, default_value_t = 1_000)]
    pub chains: usize,
    /// Numbers of stages K
    #[arg(long, global = true, value_delimiter = ',', default_value = "100000")]
    pub steps: Vec<usize>,
    /// Chains at the knots, for the binned schedules: the papers have 1,000
    #[arg(long, global = true, default_value_t = 1_000)]
    pub knot_chains: usize,
    /// Updates of these chains at a knot, a sixth of them left out: Kiwaki has 6,000
    #[arg(long, global = true, default_value_t = 6_000)]
    pub knot_updates: usize,
    /// Updates of a knot of a moment-averaged spline with 500 hidden units, and five times the sweeps of the chains for its
    /// moments: 50,000 as in the paper unless set. If it is set, saved lines with another number do not count
    #[arg(long, global = true)]
    pub spline_updates: Option<usize>,
}

impl Budget {
    /// Returns the number of updates of a knot that is matched by chains.
    pub fn updates(&self) -> usize {
        self.spline_updates.unwrap_or(50_000)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            chains: 1_000,
            steps: vec![100_000],
            knot_chains: 1_000,
            knot_updates: 6_000,
            spline_updates: None,
        }
    }
}

/// The way in which the path of a row was made.
#[derive(Debug, Default, Clone, Copy)]
pub struct Origin {
    /// Duration of the search for its base in seconds.
    pub seconds: f64,
    /// See [`Row::spline_updates`].
    pub spline_updates: Option<usize>,
    /// See [`Row::moment_error`].
    pub moment_error: Option<f64>,
}

#[derive(Debug)]
pub struct Runs<'b> {
    pub budget: &'b Budget,
    /// Seed of the first part of a row.
    pub first_seed: u64,
    pub rows: Lines<Row>,
    pub costs: Lines<Costs>,
    pub build: String,
}

impl Runs<'_> {
    pub fn row(&mut self, setting: &Setting, path: &RbmPath, schedule: &Schedule) -> Result<()> {
        self.row_of(Origin::default(), setting, path, schedule)
    }

    /// Runs the missing parts of a row. They share the seconds of its origin.
    pub fn row_of(
        &mut self,
        origin: Origin,
        setting: &Setting,
        path: &RbmPath,
        schedule: &Schedule,
    ) -> Result<()> {
        let done: usize = self.chains_of(setting);
        let parts = self.budget.chains.div_ceil(PART);
        for seed in done / PART..parts {
            let chains = PART.min(self.budget.chains - seed * PART);
            let run = Ais::new(path, BlockGibbs)
                .schedule(schedule.clone())
                .chains(chains)
                .block_size(125)
                .recorded_stages(POINTS)
                .seed(self.first_seed + seed as u64)
                .run()?;
            eprintln!(
                "{} {} {} {} K = {}: {:.3} +- {:.3}, ESS {:.0} of {chains}, {:.0} s",
                setting.machine,
                setting.start,
                setting.path,
                setting.schedule,
                setting.steps,
                run.log_z(),
                run.standard_error(),
                run.effective_sample_size(),
                run.seconds()
            );
            let row = row(setting, &run, &self.build);
            self.rows.add(Row {
                spline_updates: origin.spline_updates,
                moment_error: origin.moment_error,
                seconds: row.seconds + origin.seconds / parts as f64,
                ..row
            })?;
        }
        Ok(())
    }

    /// Runs the missing parts of a row, unless another row of the same machine has the same betas.
    pub fn row_or_same(
        &mut self,
        setting: &Setting,
        path: &RbmPath,
        schedule: &Schedule,
        others: &[(String, Schedule)],
    ) -> Result<()> {
        let same = others.iter().find(|(_, other)| other == schedule);
        if self
            .rows
            .all
            .iter()
            .any(|row| row.setting == *setting && row.same_as.is_some())
        {
            return Ok(());
        }
        let (Some((name, _)), 0) = (same, self.chains_of(setting)) else {
            return self.row(setting, path, schedule);
        };
        let twin = Setting {
            schedule: name.clone(),
            ..setting.clone()
        };
        let twin = self
            .rows
            .all
            .iter()
            .find(|row| row.setting == twin)
            .cloned();
        let Some(twin) = twin else {
            return self.row(setting, path, schedule);
        };
        self.rows.add(Row {
            setting: setting.clone(),
            same_as: Some(name.clone()),
            chains: 0,
            seconds: 0.0,
            log_weights: Vec::new(),
            ..twin
        })
    }

    pub fn chains_of(&self, setting: &Setting) -> usize {
        let wanted = self.budget.spline_updates;
        let counts = |row: &&Row| match (wanted, row.spline_updates) {
            (Some(wanted), Some(updates)) => wanted == updates,
            _ => true,
        };
        let rows = self.rows.all.iter().filter(|row| row.setting == *setting);
        rows.filter(counts).map(|row| row.chains).sum()
    }

    /// Returns the costs of segments between equally spaced knots of a geometric path, in the joint law of v and h.
    pub fn joint_costs(&mut self, names: [&str; 3], path: &RbmPath) -> Result<Vec<f64>> {
        let (knots, chains) = (Schedule::linear(SEGMENTS)?, self.knot_chains());
        self.costs(names, "joint", || joint_costs(path, knots.betas(), &chains))
    }

    /// Returns the costs of the same segments in the law of v alone, on which the weights of a run depend.
    pub fn marginal_costs(&mut self, names: [&str; 3], path: &RbmPath) -> Result<Vec<f64>> {
        let binned = BinnedSchedule::new(Schedule::linear(SEGMENTS)?).chains(self.knot_chains());
        self.costs(names, "marginal", || {
            binned.estimate_costs(path, &BlockGibbs, 0)
        })
    }

    fn knot_chains(&self) -> KnotChains {
        KnotChains {
            chains: self.budget.knot_chains,
            updates: self.budget.knot_updates,
            burn_in: self.budget.knot_updates / 6,
            ..KnotChains::paper()
        }
    }

    fn costs(
        &mut self,
        [machine, start, name]: [&str; 3],
        kind: &str,
        estimate: impl FnOnce() -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        let known = self.costs.all.iter().find(|costs| {
            [&*costs.machine, &*costs.start, &*costs.path, &*costs.kind]
                == [machine, start, name, kind]
        });
        if let Some(known) = known {
            return Ok(known.costs.clone());
        }
        let begun = std::time::Instant::now();
        let costs = estimate()?;
        let seconds = begun.elapsed().as_secs_f64();
        eprintln!("{machine} {start} {name}: {kind} costs in {seconds:.0} s");
        self.costs.add(Costs {
            machine: machine.into(),
            start: start.into(),
            path: name.into(),
            kind: kind.into(),
            by: format!(
                "{} chains, {} updates",
                self.budget.knot_chains, self.budget.knot_updates
            ),
            costs: costs.clone(),
            seconds,
            build: self.build.clone(),
        })?;
        Ok(costs)
    }
}

pub fn build() -> String {
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .output();
    let commit = described.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    format!(
        "{} {}",
        env!("CARGO_PKG_VERSION"),
        commit.unwrap_or_default()
    )
}

fn row(setting: &Setting, run: &Run<Vec<bool>>, build: &str) -> Row {
    let (schedule, chains) = (run.schedule(), run.chains() as f64);
    let (betas, steps) = (schedule.betas(), schedule.stages());
    let along = run.stages().iter().map(|stage| {
        (
            rounded(stage.stage as f64 / steps as f64),
            rounded(stage.effective_sample_size / chains),
        )
    });
    let longest = betas
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .fold(0.0, f64::max);
    Row {
        setting: setting.clone(),
        seed: run.seed(),
        chains: run.chains(),
        same_as: None,
        spline_updates: None,
        moment_error: None,
        log_z: run.log_z(),
        standard_error: run.standard_error(),
        ess: run.effective_sample_size(),
        top_speed: rounded(steps as f64 * longest),
        seconds: run.seconds(),
        threads: threads(),
        engine: run
            .simd_level()
            .map_or(String::new(), |engine| engine.to_string()),
        build: build.into(),
        warnings: run.warnings().iter().map(ToString::to_string).collect(),
        betas: betas_at_points(schedule),
        along: along.collect(),
        log_weights: thousandths(run.log_weights(), run.log_z_ratio()),
    }
}

/// Returns the betas of a schedule at 51 points, evenly spaced in k.
pub fn betas_at_points(schedule: &Schedule) -> Vec<f64> {
    let (betas, steps) = (schedule.betas(), schedule.stages());
    let at_point = |i| rounded(betas[i * steps / POINTS]);
    (0..=POINTS).map(at_point).collect()
}

fn rounded(x: f64) -> f64 {
    (x * 1e5).round() / 1e5
}

/// Returns the number of threads of a run: the size of rayon's pool, but at most two for the two blocks of a part.
fn threads() -> usize {
    let set = std::env::var("RAYON_NUM_THREADS")
        .ok()
        .and_then(|text| text.parse().ok());
    set.or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, usize::from)
        .min(2)
}
