//! The report of a run as text, JSON or pages.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use annealed::Result;
use annealed::ais::{Run, StoppedBy};
use annealed::bidirectional::Raise;
use annealed::estimate::{LogZ, Warning};
use annealed::rbm::{Candidate, LikelihoodBound, LogLikelihood, RbmPath, Start};
use serde_json::{Value, json};

use super::bounds::Bounds;
use super::options::Options;
use super::problem::Problem;
use super::reverse::Backward;
use crate::figures;
use crate::output::write_report;
use crate::page::Page;
use crate::saved::{self, Known};
use crate::scores::Scores;

/// All results of a run.
pub struct Report<'a> {
    pub problem: &'a Problem,
    /// The search for the base, if there was one.
    pub start: Option<&'a Start>,
    /// Scores of the held-out data, if there are any.
    pub likelihood: Option<LogLikelihood>,
    /// A lower bound that replaces the scores for a deep machine.
    pub likelihood_bound: Option<LikelihoodBound>,
    pub bounds: Bounds,
    /// Warnings that the run does not contain.
    pub doubts: Vec<Warning>,
    pub run: &'a Run<Vec<bool>>,
    pub backward: Option<Backward>,
    pub raise: Option<Raise>,
    /// Seconds of the search for the base, the schedule's pilot and the path's moment matching.
    pub pilot_seconds: f64,
    /// Whether the run began in an earlier call of the program.
    pub continued: bool,
}

impl<'a> Report<'a> {
    /// Creates the report of a forward run alone, without scores.
    pub fn of_forward(
        problem: &'a Problem,
        path: &RbmPath,
        run: &'a Run<Vec<bool>>,
        start: Option<&'a Start>,
    ) -> Result<Self> {
        let bounds = Bounds::new(path, run)?;
        Ok(Self {
            problem,
            start,
            likelihood: None,
            likelihood_bound: None,
            doubts: bounds.doubts(run, start),
            bounds,
            run,
            backward: None,
            raise: None,
            pilot_seconds: 0.0,
            continued: false,
        })
    }

    /// Saves the run with its [`Known`] facts. `asked` is the requested number of chains if the run was stopped before
    /// it had them.
    pub fn save_run(&self, file: &Path, asked: Option<usize>) -> Result<()> {
        let warnings = [self.run.warnings(), &self.doubts].concat();
        let known = Known {
            asked,
            ..Known::new(&self.problem.rbm, self.start, &warnings)
        };
        saved::write(file, &self.run.clone().into(), &known)
    }

    /// Scores the held-out data by the best known log Z.
    pub fn score(&mut self) -> Result<()> {
        let ([log_z, ..], _) = self.scored_by();
        self.likelihood = self.problem.log_likelihood(log_z)?;
        self.likelihood_bound = self.problem.likelihood_bound(log_z)?;
        Ok(())
    }

    /// Returns the log Z by which the data are scored, the ends of its interval and its standard error, and its
    /// description.
    fn scored_by(&self) -> ([f64; 4], &'static str) {
        fn figures(result: &dyn LogZ) -> [f64; 4] {
            let (lower, upper) = result.interval();
            [result.log_z(), lower, upper, result.standard_error()]
        }
        match (self.problem.log_z_exact, &self.backward) {
            (Some(exact), _) => ([exact, exact, exact, 0.0], "the exact log Z"),
            (None, Some(Backward { bridge, .. })) => match bridge.upper_bound() {
                Some(_) => (figures(bridge), "the joined log Z"),
                None => (figures(self.run), "the forward log Z alone"),
            },
            (None, None) => (figures(self.run), "the log Z above"),
        }
    }

    /// Returns the interval of the mean log likelihood that follows from the interval of log Z alone.
    fn interval_of(&self, likelihood: &LogLikelihood) -> (f64, f64) {
        let ([_, lower, upper, _], _) = self.scored_by();
        (likelihood.upper_bound(upper), likelihood.upper_bound(lower))
    }

    /// Returns the wall time of all runs.
    fn seconds(&self) -> f64 {
        let backward = self.backward.as_ref().map_or(0.0, Backward::seconds);
        self.pilot_seconds + self.run.seconds() + backward
    }

    /// Returns the warnings of the forward run, of its bridge with a reverse run, of the likelihood, of the search for
    /// the base, and of the bounds.
    fn warnings(&self) -> Vec<Warning> {
        let joint = self.backward.as_ref().map_or(&[][..], Backward::warnings);
        let likelihood = self.likelihood.as_ref().and_then(LogLikelihood::warning);
        let of_run = self.run.warnings().iter().chain(joint);
        figures::distinct(of_run.chain(&likelihood).chain(&self.doubts))
    }

    /// Returns advice if the data are less likely under the RBM than under base rates.
    fn advice(&self) -> Vec<String> {
        let warning = self.likelihood.as_ref().and_then(LogLikelihood::warning);
        warning.map_or(Vec::new(), |_| self.problem.advice.clone())
    }

    /// Writes the picture, the scores by row and the report that the options request.
    pub fn write_files(&self, options: &Options) -> Result<()> {
        if let Some(file) = &options.plot {
            let name = options
                .weights
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy();
            let mut picture = annealed_plot::runs([(&*name, self.run)]).warnings(&self.warnings());
            if let Some(exact) = self.problem.log_z_exact {
                picture = picture.exact(exact);
            }
            if let Some(backward) = &self.backward {
                picture = picture.bridge(&backward.bridge);
            }
            picture.save(file)?;
        }
        if let (Some(file), Some(found)) = (&options.scores, &self.likelihood) {
            let rows = (&*self.problem.held_out, &*found.by_row);
            let scores = Scores::new(self.scored_by().0, &self.warnings(), self.run.seed(), rows);
            scores.save(file)?;
        }
        let Some(file) = &options.report else {
            return Ok(());
        };
        let text = format!("{self}\nthe forward run:\n{}", Page(self.run));
        write_report(file, &self.json(), &text)
    }

    /// Returns all results, in the form of `--json` and `--report FILE.json`.
    pub fn json(&self) -> Value {
        let (run, problem) = (self.run, self.problem);
        let mut json = figures::of_run(run);
        json["log_z_exact"] = problem.log_z_exact.into();
        json["seconds"] = self.seconds().into();
        json["pilot_seconds"] = self.pilot_seconds.into();
        json["warnings"] = figures::of_warnings(&self.warnings());
        json["files"] = problem.files.clone();
        json["visible_units"] = problem.rbm.visible_units().into();
        json["hidden_units"] = problem.rbm.hidden_units().into();
        let notes = problem.note.lines().map(str::to_owned);
        json["notes"] = notes.chain(self.advice()).collect();
        self.bounds.add_to(&mut json, self.likelihood.as_ref());
        json["starts"] = self.start.map(table).into();
        if let Some(backward) = &self.backward {
            backward.add_to(&mut json);
        }
        self.add_likelihood(&mut json);
        json
    }

    fn add_likelihood(&self, json: &mut Value) {
        if let Some(likelihood) = &self.likelihood {
            let (lower, upper) = self.interval_of(likelihood);
            json["log_likelihood"] = likelihood.mean.into();
            json["log_likelihood_interval"] = json!([lower, upper]);
            json["log_likelihood_by"] = self.scored_by().1.into();
            json["log_likelihood_error_over_rows"] = likelihood.standard_error.into();
            json["base_log_likelihood"] = likelihood.base_rate.into();
            json["base_log_likelihood_by"] = self.problem.baseline_name().into();
            json["rows"] = likelihood.rows.into();
        }
        if let Some(found) = &self.likelihood_bound {
            json["log_likelihood_lower_bound"] = found.mean.into();
            json["log_likelihood_error_over_rows"] = found.standard_error.into();
            json["rows"] = found.rows.into();
        }
        if let Some(raise) = &self.raise {
            let (mean, error) = raise.mean();
            json["raise"] = mean.into();
            json["raise_error_over_rows"] = error.into();
        }
    }
}

fn table(start: &Start) -> Value {
    let row = |candidate: &Candidate| {
        json!({
            "base": candidate.name,
            "share": candidate.share,
            "components": candidate.base.components().len(),
            "stages": candidate.stages,
            "chains": candidate.chains,
            "log_z": candidate.log_z,
            "standard_error": candidate.standard_error,
            "ess": candidate.effective_sample_size,
            "certified_lower_bound": candidate.certified,
        })
    };
    start.candidates().iter().map(row).collect()
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (run, problem) = (self.run, self.problem);
        write!(f, "{}", problem.note)?;
        if let Some(start) = self.start {
            write!(f, "{start}")?;
        }
        writeln!(f, "{run}")?;
        for warning in &self.doubts {
            writeln!(f, "warning: {warning}")?;
        }
        if let Some(exact) = problem.log_z_exact {
            let error = run.log_z() - exact;
            let digits = if run.standard_error() < 1e-3 { 6 } else { 3 };
            writeln!(f, "exact log Z = {exact:.digits$}, error {error:+.digits$}")?;
        }
        let bounds = self.bounds.text(run.log_z(), self.likelihood.as_ref());
        writeln!(f, "{bounds}")?;
        if let Some(backward) = &self.backward {
            write!(f, "{backward}")?;
        }
        self.write_log_likelihood(f)?;
        if run.stopped_by() != StoppedBy::Chains {
            // An interval of skewed weights stands in the place of the error.
            writeln!(
                f,
                "ended: {}; standard error {:.2e}",
                run.stopped_by(),
                run.standard_error()
            )?;
        }
        let earlier = match self.continued {
            true => ", earlier calls included,",
            false => "",
        };
        writeln!(
            f,
            "{} chains of {} stages in {:.1} s{earlier} ({:.1} s for base, path and schedule), {:.3e} chain-steps a \
             second ({})",
            run.chains(),
            run.schedule().stages(),
            self.seconds(),
            self.pilot_seconds,
            run.chain_steps_per_second(),
            run.simd_level()
                .map_or("generic".to_string(), |engine| engine.to_string()),
        )
    }
}

impl Report<'_> {
    fn write_log_likelihood(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(found) = &self.likelihood_bound {
            writeln!(
                f,
                "log likelihood of {} rows: at least {:.3} nats a row by mean fields, +- {:.3} over rows, if log Z is right",
                found.rows, found.mean, found.standard_error,
            )?;
        }
        let Some(likelihood) = &self.likelihood else {
            return Ok(());
        };
        let (lower, upper) = self.interval_of(likelihood);
        let from = self.scored_by().1;
        let interval = match self.problem.log_z_exact.is_some() {
            true => format!("from {from}"),
            false => format!("95% interval from {from}: {lower:.3} to {upper:.3}"),
        };
        let most = self.bounds.of_scores(likelihood);
        // A difference too small to be printed is not reported.
        let excluded = match likelihood.mean > most + 5e-4 {
            true if most < lower => format!(" (excluded by the bound: at most {most:.3})"),
            true => format!(" (within its error of the bound: at most {most:.3})"),
            false => String::new(),
        };
        writeln!(
            f,
            "log likelihood of {} rows: {:.3} nats a row{excluded}, +- {:.3} over rows ({interval}); under {} {:.3}",
            likelihood.rows,
            likelihood.mean,
            likelihood.standard_error,
            self.problem.baseline_name(),
            likelihood.base_rate,
        )?;
        if let Some(warning) = likelihood.warning() {
            writeln!(f, "warning: {warning}")?;
        }
        for note in self.advice() {
            writeln!(f, "note: {note}")?;
        }
        if let Some(raise) = &self.raise {
            let (mean, error) = raise.mean();
            writeln!(
                f,
                "RAISE: {mean:.3} nats a row, +- {error:.3} over rows: in expectation a lower bound for the \
                 model that annealing defines, not for the RBM",
            )?;
        }
        Ok(())
    }
}
