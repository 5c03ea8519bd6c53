//! The report of a run: text, JSON, pages.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use annealed::ais::{Run, StoppedBy};
use annealed::bidirectional::{Bridge, Raise, ReverseRun};
use annealed::estimate::{LogZ, Warning};
use annealed::rbm::{Candidate, LogLikelihood, Start};
use serde_json::{Value, json};

use super::bounds::Bounds;
use super::problem::Problem;
use super::reverse::Backward;

/// All that is known in the end.
pub struct Report<'a> {
    pub problem: &'a Problem,
    /// The search for the base, if there was one.
    pub start: Option<&'a Start>,
    /// Scores of the held-out data, where there are any.
    pub likelihood: Option<LogLikelihood>,
    pub bounds: Bounds,
    pub run: &'a Run<Vec<bool>>,
    pub backward: Option<Backward>,
    pub raise: Option<Raise>,
    /// Seconds of the search for the base, the schedule's pilot and the path's moment matching.
    pub pilot_seconds: f64,
    /// Whether the run began in an earlier call.
    pub continued: bool,
}

impl Report<'_> {
    /// The interval of the mean log likelihood, from that of log Z alone.
    fn interval_of(&self, likelihood: &LogLikelihood) -> (f64, f64) {
        let (lower, upper) = self.run.interval();
        (likelihood.upper_bound(upper), likelihood.upper_bound(lower))
    }

    /// Returns the warnings that the search for the base proves of the run.
    fn proofs(&self) -> Vec<Warning> {
        self.start
            .map(|start| start.warnings_of(self.run))
            .unwrap_or_default()
    }

    /// Wall time of all runs.
    fn seconds(&self) -> f64 {
        let backward = self
            .backward
            .as_ref()
            .map_or(0.0, |backward| match backward {
                Backward::Exact(both) => both.0.backward().seconds(),
                Backward::Approximate(both) => both.0.backward().seconds(),
            });
        self.pilot_seconds + self.run.seconds() + backward
    }

    /// Names of the warnings of the forward run, of both directions together and of the likelihood.
    fn warnings(&self) -> Vec<String> {
        let joint = match &self.backward {
            None => &[],
            Some(Backward::Exact(both)) => both.1.warnings(),
            Some(Backward::Approximate(both)) => both.1.warnings(),
        };
        let likelihood = self.likelihood.as_ref().and_then(LogLikelihood::warning);
        let proofs = self.proofs();
        let found = [self.run.warnings(), joint, likelihood.as_slice(), &proofs];
        let mut warnings = names(&found.concat());
        let mut met = BTreeSet::new();
        warnings.retain(|name| met.insert(name.clone()));
        warnings
    }

    pub fn json(&self) -> Value {
        let (run, problem) = (self.run, self.problem);
        let (lower, upper) = run.interval();
        let mut json = json!({
            "log_z": run.log_z(),
            "standard_error": run.standard_error(),
            "interval": [lower, upper],
            "skewed": run.is_skewed(),
            "ess": run.effective_sample_size(),
            "mean_log_weight": run.estimate().mean_log_weight(),
            "var_log_weight": run.estimate().var_log_weight(),
            "lower_bound": run.lower_bound(),
            "thermodynamic_log_z": run.thermodynamic_log_z(),
            "log_z_exact": problem.log_z_exact,
            "chains": run.chains(),
            "stopped_by": format!("{:?}", run.stopped_by()),
            "stages": run.schedule().stages(),
            "engine": run.simd_level().map(|engine| engine.to_string()),
            "seconds": self.seconds(),
            "pilot_seconds": self.pilot_seconds,
            "chain_steps_per_second": run.chain_steps_per_second(),
            "warnings": self.warnings(),
            "notes": problem.note.lines().collect::<Vec<_>>(),
        });
        self.bounds.add_to(&mut json);
        json["starts"] = self.start.map(table).into();
        match &self.backward {
            Some(Backward::Exact(both)) => {
                add_backward(&mut json, &both.0, &both.1);
                json["upper_bound"] = both.1.upper_bound().into();
                json["tight_upper_bound"] = both.1.tight_upper_bound().into();
                json["exact_samples"] = true.into();
            }
            Some(Backward::Approximate(both)) => {
                add_backward(&mut json, &both.0, &both.1);
                json["upper_bound"] = Value::Null;
                json["exact_samples"] = false.into();
            }
            None => {}
        }
        if let Some(likelihood) = &self.likelihood {
            let (lower, upper) = self.interval_of(likelihood);
            json["log_likelihood"] = likelihood.mean.into();
            json["log_likelihood_interval"] = json!([lower, upper]);
            json["log_likelihood_error_over_rows"] = likelihood.standard_error.into();
            json["base_log_likelihood"] = likelihood.base_rate.into();
            json["rows"] = likelihood.rows.into();
        }
        if let Some(raise) = &self.raise {
            let (mean, error) = raise.mean();
            json["raise"] = mean.into();
            json["raise_error_over_rows"] = error.into();
        }
        json
    }
}

/// The table of candidates.
pub fn table(start: &Start) -> Value {
    let row = |(index, candidate): (usize, &Candidate)| {
        json!({
            "base": candidate.name,
            "chosen": index == start.chosen(),
            "components": candidate.base.components().len(),
            "stages": candidate.stages,
            "chains": candidate.chains,
            "log_z": candidate.log_z,
            "standard_error": candidate.standard_error,
            "ess": candidate.effective_sample_size,
            "certified_lower_bound": candidate.certified,
        })
    };
    start.candidates().iter().enumerate().map(row).collect()
}

fn add_backward<Q>(json: &mut Value, reverse: &ReverseRun<Vec<bool>, Q>, bridge: &Bridge<Q>) {
    let (lower, upper) = bridge.interval();
    let gap = |warning: &&Warning| matches!(warning, Warning::ForwardReverseGap { .. });
    json["bar_log_z"] = bridge.log_z().into();
    json["bar_standard_error"] = bridge.standard_error().into();
    json["bar_interval"] = json!([lower, upper]);
    json["tight_lower_bound"] = bridge.tight_lower_bound().into();
    json["overlap"] = bridge.estimate().overlap().into();
    json["gap"] = bridge.gap().into();
    json["gap_warning"] = bridge.warnings().iter().any(|w| gap(&w)).into();
    json["reverse_log_z"] = reverse.log_z().into();
    json["reverse_standard_error"] = reverse.standard_error().into();
    json["reverse_chains"] = reverse.backward().chains().into();
    json["reverse_warnings"] = names(reverse.backward().warnings()).into();
}

fn names(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(Warning::name).collect()
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (run, problem) = (self.run, self.problem);
        write!(f, "{}", problem.note)?;
        if let Some(start) = self.start {
            write!(f, "{start}")?;
        }
        writeln!(f, "{run}")?;
        for warning in self.proofs() {
            writeln!(f, "warning: {warning}")?;
        }
        if let Some(exact) = problem.log_z_exact {
            let error = run.log_z() - exact;
            writeln!(f, "exact log Z = {exact:.3}, error {error:+.3}")?;
        }
        write!(f, "{}", self.bounds)?;
        self.write_backward(f)?;
        self.write_log_likelihood(f)?;
        if run.stopped_by() != StoppedBy::Chains {
            writeln!(f, "ended: {}", run.stopped_by())?;
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
    fn write_backward(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.backward {
            None => Ok(()),
            Some(Backward::Exact(both)) => {
                let (reverse, bridge) = both.as_ref();
                writeln!(
                    f,
                    "from exact samples: {reverse}\njoined (Bennett): {bridge}"
                )?;
                writeln!(
                    f,
                    "bounds in expectation: {:.3} and {:.3}; tighter {:.3} and {:.3} (these may cross within their errors)",
                    bridge.lower_bound(),
                    bridge.upper_bound(),
                    bridge.tight_lower_bound(),
                    bridge.tight_upper_bound(),
                )
            }
            Some(Backward::Approximate(both)) => {
                let (reverse, bridge) = both.as_ref();
                let chains = reverse.backward().chains();
                writeln!(
                    f,
                    "from {chains} approximate samples, no bound: {reverse}\njoined (Bennett): {bridge}"
                )
            }
        }
    }

    fn write_log_likelihood(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(likelihood) = &self.likelihood else {
            return Ok(());
        };
        let (lower, upper) = self.interval_of(likelihood);
        writeln!(
            f,
            "log likelihood of {} rows: {:.3} nats a row, +- {:.3} over rows (95% interval from the forward log Z \
             alone: {lower:.3} to {upper:.3}); under {} {:.3}",
            likelihood.rows,
            likelihood.mean,
            likelihood.standard_error,
            self.problem.simple_name(),
            likelihood.base_rate,
        )?;
        if let Some(warning) = likelihood.warning() {
            writeln!(f, "warning: {warning}")?;
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
