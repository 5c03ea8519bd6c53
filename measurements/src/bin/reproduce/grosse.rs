//! R. Grosse, C. Maddison and R. Salakhutdinov, "Annealing between distributions by averaging moments" (2013): Tables
//! 1 and 2.

use std::fs;
use std::path::{Path, PathBuf};

use annealed::pilot::BinnedSchedule;
use annealed::rbm::{
    BaseRate, ExactMatching, MomentChains, PersistentMatching, Rbm, RbmMatching, RbmMoments,
    RbmPath,
};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use annealed_files::RbmFile;

use crate::base::Start::{self, Auto, BaseRates, Uniform};
use crate::machines::{Folders, Machine};
use crate::rows::Setting;
use crate::runs::{Runs, SEGMENTS};

/// Kind of path of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PathKind {
    /// The geometric path
    Ga,
    /// The moment-averaged spline: exact with 20 hidden units, else by the paper's chains
    Mas,
    /// The cheap moment-averaged spline: moments of the data, 1,000 updates a knot
    Cheap,
    /// The cheap variant from moments of data in which digit i counts i + 1 times (footnote 3)
    Biased,
}

use PathKind::*;

impl PathKind {
    pub const fn name(self) -> &'static str {
        match self {
            Ga => "GA",
            Mas => "MAS",
            Cheap => "MAS cheap",
            Biased => "MAS biased",
        }
    }
}

pub const STARTS: [Start; 2] = [Uniform, BaseRates];

/// Returns the rows of a machine: start, path, schedules.
pub fn rows(machine: Machine) -> Vec<(Start, PathKind, &'static [&'static str])> {
    if machine.hidden_units() == 20 {
        return [Ga, Mas]
            .map(|kind| (Uniform, kind, &["LINEAR", "binned optimal"][..]))
            .to_vec();
    }
    let starts = STARTS.iter();
    starts
        .flat_map(|&start| [Ga, Mas, Cheap].map(|kind| (start, kind, &["LINEAR"][..])))
        .collect()
}

/// Runs the rows of one machine whose path is one of `kinds`.
pub fn run(
    machine: Machine,
    kinds: &[PathKind],
    folders: &Folders,
    runs: &mut Runs<'_>,
) -> Result<()> {
    let file = machine.read(folders)?;
    let biased = [(BaseRates, Biased, &["LINEAR"][..])];
    let rows = rows(machine).into_iter().chain(biased);
    for (start, kind, schedules) in rows.filter(|row| kinds.contains(&row.1)) {
        let source = Source {
            machine,
            file: &file,
            start,
            folders,
            updates: runs.budget.spline_updates,
        };
        let path = source.path(kind)?;
        for &steps in &runs.budget.steps {
            for &name in schedules {
                let setting =
                    Setting::new([&machine.name(), start.name(), kind.name(), name], steps);
                let schedule = match name {
                    "LINEAR" => Schedule::linear(steps)?,
                    _ => source.binned(kind, &path, steps, runs)?,
                };
                runs.row(&setting, &path, &schedule)?;
            }
        }
    }
    Ok(())
}

/// The row from the base that a search finds: start, path, schedule.
pub const SEARCHED: [&str; 3] = [Auto.name(), Ga.name(), "LINEAR"];

/// Runs the rows of one machine from a searched base; their seconds include the search.
pub fn run_searched(machine: Machine, folders: &Folders, runs: &mut Runs<'_>) -> Result<()> {
    let file = machine.read(folders)?;
    let [start, path, schedule] = SEARCHED;
    for &steps in &runs.budget.steps {
        let setting = Setting::new([&machine.name(), start, path, schedule], steps);
        let chains = runs.budget.chains;
        if runs.chains_of(&setting) >= chains {
            continue;
        }
        let (base, seconds) = Auto.base(&file, steps)?;
        let path = RbmPath::new(base, file.rbm.clone())?;
        runs.row_after(seconds, &setting, &path, &Schedule::linear(steps)?)?;
    }
    Ok(())
}

pub struct Source<'a> {
    pub machine: Machine,
    pub file: &'a RbmFile,
    pub start: Start,
    pub folders: &'a Folders,
    /// Updates of a knot of the full spline.
    pub updates: usize,
}

impl Source<'_> {
    fn base(&self) -> Result<BaseRate> {
        Ok(self.start.base(self.file, 0)?.0)
    }

    pub fn path(&self, kind: PathKind) -> Result<RbmPath> {
        match kind {
            Ga => RbmPath::new(self.base()?, self.file.rbm.clone()),
            _ => self.spline(kind),
        }
    }

    /// Returns the spline; its knots are matched once and kept in files under `target/reproduction`.
    fn spline(&self, kind: PathKind) -> Result<RbmPath> {
        let of_updates = match kind {
            Mas => format!("-{}", self.updates),
            _ => String::new(),
        };
        let name = format!(
            "{}-{}-{}",
            self.machine.name(),
            self.start.name(),
            kind.name()
        );
        let name = name.replace(' ', "-") + &of_updates;
        let folder = PathBuf::from("target/reproduction").join(name);
        let knots = Schedule::linear(SEGMENTS)?;
        let file = |knot: usize| folder.join(format!("{knot}.npz"));
        if !file(SEGMENTS - 1).is_file() {
            let begun = std::time::Instant::now();
            let path = self.matched(kind, knots.clone())?;
            fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
            for knot in 1..SEGMENTS {
                let rbm = path.model_at_knot(knot).expect("one of the knots").clone();
                write(rbm, &file(knot))?;
            }
            eprintln!(
                "{}: knots matched in {:.0} s",
                folder.display(),
                begun.elapsed().as_secs_f64()
            );
        }
        let models = (1..SEGMENTS).map(|knot| Ok(RbmFile::read(file(knot))?.rbm));
        let models = models
            .chain([Ok(self.file.rbm.clone())])
            .collect::<Result<_>>()?;
        RbmPath::through(self.base()?, models, knots)
    }

    fn matched(&self, kind: PathKind, knots: Schedule) -> Result<RbmPath> {
        let small = self.machine.hidden_units() == 20;
        let moments = self.moments(kind)?;
        match kind {
            // A rough match leaves the weights unbiased, but is no path of averaged moments.
            Mas if small => {
                let matching = ExactMatching::default().iterations(1_000).tolerance(0.01);
                self.through(&moments, knots, &matching)
            }
            Mas => {
                let matching = PersistentMatching::full().updates(self.updates);
                self.through(&moments, knots, &matching)
            }
            _ => self.through(&moments, knots, &PersistentMatching::cheap()),
        }
    }

    fn through(
        &self,
        moments: &RbmMoments,
        knots: Schedule,
        matching: &impl RbmMatching,
    ) -> Result<RbmPath> {
        RbmPath::moment_spline(
            self.base()?,
            self.file.rbm.clone(),
            moments,
            knots,
            matching,
        )
    }

    fn moments(&self, kind: PathKind) -> Result<RbmMoments> {
        let rbm = &self.file.rbm;
        match kind {
            Cheap => RbmMoments::from_data(rbm, &self.folders.training_images()?),
            Biased => RbmMoments::from_data(rbm, &self.folders.biased_images()?),
            _ if self.machine.hidden_units() == 20 => rbm.exact_moments(),
            _ => {
                let chains = MomentChains::full().sweeps(self.updates / 5);
                chains.burn_in(self.updates / 50).moments(rbm)
            }
        }
    }

    /// Returns the optimal binned schedule (Equation 20): by averaged moments on a spline, by chains at the knots on
    /// the geometric path.
    fn binned(
        &self,
        kind: PathKind,
        path: &RbmPath,
        steps: usize,
        runs: &mut Runs<'_>,
    ) -> Result<Schedule> {
        let knots = Schedule::linear(SEGMENTS)?;
        let machine = self.machine.name();
        let names = [&*machine, self.start.name(), kind.name()];
        let costs = match kind {
            Ga => runs.joint_costs(names, path)?,
            _ => {
                let (from, to) = (path.base().moments(), self.moments(kind)?);
                let moments = knots.betas().iter().map(|&beta| from.average(&to, beta));
                path.joint_costs(&knots, &moments.collect::<Result<Vec<_>>>()?)?
            }
        };
        BinnedSchedule::new(knots).with_costs(&costs, steps)
    }
}

fn write(rbm: Rbm, file: &Path) -> Result<()> {
    RbmFile {
        rbm,
        base: None,
        log_z_exact: None,
        chains: None,
    }
    .write(file)
}
