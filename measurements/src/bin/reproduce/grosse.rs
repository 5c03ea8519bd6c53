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
use crate::runs::{Origin, Runs, SEGMENTS};

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

/// Largest accepted error of a moment at a knot that is matched exactly. An inaccurate match leaves the weights
/// unbiased, but the path is then not a path of averaged moments.
const MOMENT_ERROR: f64 = 0.01;

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
            updates: runs.budget.updates(),
        };
        let (path, moment_error) = source.path(kind)?;
        let of_chains = kind == Mas && !source.is_small();
        let origin = Origin {
            spline_updates: of_chains.then_some(source.updates),
            moment_error,
            ..Origin::default()
        };
        for &steps in &runs.budget.steps {
            for &name in schedules {
                let setting =
                    Setting::new([&machine.name(), start.name(), kind.name(), name], steps);
                let schedule = match name {
                    "LINEAR" => Schedule::linear(steps)?,
                    _ => source.binned(kind, &path, steps, runs)?,
                };
                runs.row_of(origin, &setting, &path, &schedule)?;
            }
        }
    }
    Ok(())
}

/// The row from the base that a search finds: start, path, schedule.
pub const SEARCHED: [&str; 3] = [Auto.name(), Ga.name(), "LINEAR"];

/// Runs the rows of one machine from a searched base. Their seconds include the search.
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
        let path = RbmPath::new(base, file.rbm.clone())?.exact_weights();
        let origin = Origin {
            seconds,
            ..Origin::default()
        };
        runs.row_of(origin, &setting, &path, &Schedule::linear(steps)?)?;
    }
    Ok(())
}

pub struct Source<'a> {
    pub machine: Machine,
    pub file: &'a RbmFile,
    pub start: Start,
    pub folders: &'a Folders,
    /// Number of updates at a knot of the full spline.
    pub updates: usize,
}

impl Source<'_> {
    fn base(&self) -> Result<BaseRate> {
        Ok(self.start.base(self.file, 0)?.0)
    }

    fn is_small(&self) -> bool {
        self.machine.hidden_units() == 20
    }

    /// Returns the path, with exact weights as for the saved rows. If its knots are matched exactly, also returns their
    /// largest error of a moment.
    pub fn path(&self, kind: PathKind) -> Result<(RbmPath, Option<f64>)> {
        if kind == Ga {
            let path = RbmPath::new(self.base()?, self.file.rbm.clone())?;
            return Ok((path.exact_weights(), None));
        }
        let path = self.spline(kind)?.exact_weights();
        let exact = kind == Mas && self.is_small();
        let error = exact.then(|| self.moment_error(&path)).transpose()?;
        Ok((path, error))
    }

    /// Prints the largest error of a moment at each knot, and refuses one that is too large.
    fn moment_error(&self, path: &RbmPath) -> Result<f64> {
        let (from, to) = (path.base().moments(), self.file.rbm.exact_moments()?);
        let mut largest = 0.0_f64;
        for knot in 1..SEGMENTS {
            let beta = path.knots().betas()[knot];
            let machine = path.model_at_knot(knot).expect("one of the knots");
            let found = machine.exact_moments()?;
            let error = found.largest_difference(&from.average(&to, beta)?);
            eprintln!(
                "{} knot {beta:.1}: a largest error of a moment of {error:.5}",
                self.machine.name()
            );
            largest = largest.max(error);
        }
        if largest <= MOMENT_ERROR {
            return Ok(largest);
        }
        let expected = format!("at most {MOMENT_ERROR}");
        Err(Error::invalid(
            "error of a moment at a knot",
            largest,
            expected,
        ))
    }

    /// Returns the folder of a spline's knots: beside the machines if they are matched exactly, else
    /// `target/reproduction`.
    fn folder_of_knots(&self, kind: PathKind) -> PathBuf {
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
        if kind == Mas && self.is_small() {
            let name = format!("{}-{}", self.machine.stem(), self.start.name());
            return self.folders.knots().join(name.replace(' ', "-"));
        }
        PathBuf::from("target/reproduction").join(name.replace(' ', "-") + &of_updates)
    }

    /// Returns the spline. Each knot is matched once, from the knot before, and kept in a file.
    fn spline(&self, kind: PathKind) -> Result<RbmPath> {
        let folder = self.folder_of_knots(kind);
        fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        let (base, knots) = (self.base()?, Schedule::linear(SEGMENTS)?);
        let mut moments = None;
        let mut rbm = RbmPath::new(base.clone(), self.file.rbm.clone())?
            .at(0.0)
            .to_rbm()?;
        let mut models = Vec::new();
        for knot in 1..SEGMENTS {
            let file = folder.join(format!("{knot}.npz"));
            if file.is_file() {
                rbm = RbmFile::<f64>::read(file)?.rbm;
            } else {
                let begun = std::time::Instant::now();
                let of_target = match moments.take() {
                    Some(known) => known,
                    None => self.moments(kind)?,
                };
                let wanted = base.moments().average(&of_target, knots.betas()[knot])?;
                moments = Some(of_target);
                rbm = self.matched(kind, &rbm, &wanted)?;
                write(rbm.cast()?, &file)?;
                let seconds = begun.elapsed().as_secs_f64();
                eprintln!("{}: matched in {seconds:.0} s", file.display());
            }
            models.push(rbm.cast()?);
        }
        models.push(self.file.rbm.clone());
        RbmPath::through(base, models, knots)
    }

    /// Returns the RBM with these moments, found from `start`.
    fn matched(&self, kind: PathKind, start: &Rbm<f64>, moments: &RbmMoments) -> Result<Rbm<f64>> {
        let chains = match kind {
            Mas if self.is_small() => {
                return ExactMatching::default().match_moments(start, moments);
            }
            Mas => PersistentMatching::full().updates(self.updates),
            _ => PersistentMatching::cheap(),
        };
        chains.match_moments(start, moments)
    }

    fn moments(&self, kind: PathKind) -> Result<RbmMoments> {
        let rbm = &self.file.rbm;
        match kind {
            Cheap => RbmMoments::from_data(rbm, &self.folders.training_images()?),
            Biased => RbmMoments::from_data(rbm, &self.folders.biased_images()?),
            _ if self.is_small() => rbm.exact_moments(),
            _ => {
                let chains = MomentChains::full().sweeps(self.updates / 5);
                chains.burn_in(self.updates / 50).moments(rbm)
            }
        }
    }

    /// Returns the optimal binned schedule (Equation 20). On a spline it uses averaged moments, on the geometric path
    /// chains at the knots.
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
