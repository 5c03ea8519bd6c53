//! Summary of many seeds of a problem: a row of the table, an object of JSON, and the three figures.

use annealed::estimate::Warning;
use serde_json::{Value, json};

use super::Entry;
use super::advice::{Outcome, Problem};

/// The runs of a problem. The first run has seed 1.
pub struct Row {
    pub entry: Entry,
    pub problem: Problem,
    pub outcomes: Vec<Outcome>,
}

const QUANTILE: f64 = 1.959964;

impl Row {
    fn z(&self, outcome: &Outcome) -> f64 {
        let error = outcome.standard_error.hypot(self.problem.exact_error);
        (outcome.log_z - self.problem.exact) / error
    }

    /// Returns true if the interval covers the exact value. The error of a published estimate widens the interval.
    fn covers(&self, outcome: &Outcome) -> bool {
        let own = QUANTILE * self.problem.exact_error;
        let below = (outcome.log_z - outcome.interval.0).hypot(own);
        let above = (outcome.interval.1 - outcome.log_z).hypot(own);
        let error = outcome.log_z - self.problem.exact;
        error <= below && -error <= above
    }

    fn share(&self, holds: impl Fn(&Outcome) -> bool) -> f64 {
        let count = self.outcomes.iter().filter(|o| holds(o)).count();
        count as f64 / self.outcomes.len() as f64
    }

    pub fn coverage(&self) -> f64 {
        self.share(|o| self.covers(o))
    }

    pub fn warned(&self) -> f64 {
        self.share(|o| !o.warnings.is_empty())
    }

    /// Returns the number of runs without a warning. Among them counts covering intervals and `|z| > 4`.
    pub fn unwarned(&self) -> (usize, usize, usize) {
        let runs = self.outcomes.iter().filter(|o| o.warnings.is_empty());
        runs.fold((0, 0, 0), |(runs, covered, far), o| {
            let is_far = self.z(o).abs() > 4.0;
            (
                runs + 1,
                covered + usize::from(self.covers(o)),
                far + usize::from(is_far),
            )
        })
    }

    fn mean(&self, f: impl Fn(&Outcome) -> f64) -> f64 {
        self.outcomes.iter().map(f).sum::<f64>() / self.outcomes.len() as f64
    }

    /// Returns the log of the mean of Z over the runs, relative to the exact Z, and its standard error.
    pub fn bias(&self) -> (f64, f64) {
        let ratio = |o: &Outcome| (o.log_z - self.problem.exact).exp();
        let mean = self.mean(ratio);
        let variance = self.mean(|o| (ratio(o) - mean).powi(2));
        let error = (variance / (self.outcomes.len() - 1).max(1) as f64).sqrt();
        (mean.ln(), error / mean)
    }

    fn warning_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .outcomes
            .iter()
            .flat_map(|o| o.warnings.iter().map(Warning::name))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub fn json(&self) -> Value {
        let first = &self.outcomes[0];
        json!({
            "name": self.entry.name,
            "source": self.entry.source,
            "exact": self.problem.exact,
            "exact_error": self.problem.exact_error,
            "log_z": first.log_z,
            "standard_error": first.standard_error,
            "lower": first.interval.0,
            "upper": first.interval.1,
            "warnings": first.warnings.iter().map(Warning::name).collect::<Vec<_>>(),
            "seeds": self.outcomes.len(),
            "coverage": self.coverage(),
            "warned": self.warned(),
            "skewed": self.share(|o| o.skewed),
            "chains": self.problem.chains,
            "steps": self.problem.steps,
            "seconds": self.mean(|o| o.seconds),
        })
    }

    pub fn line(&self) -> String {
        let (runs, covered, far) = self.unwarned();
        let coverage = match runs {
            0 => "-".to_owned(),
            _ => format!("{:.3}", covered as f64 / runs as f64),
        };
        let mean = self.mean(|o| self.z(o));
        let square = self.mean(|o| self.z(o).powi(2));
        let (bias, error) = self.bias();
        format!(
            "| {} | {} | {:.3} | {} | {:.2} | {mean:+.2} | {:.2} | {bias:+.4} ({error:.4}) | {:.3} | {:.3} | {coverage} | {far} | {:.0} | {} |",
            self.entry.name,
            self.entry.source,
            self.problem.exact,
            self.problem.steps,
            self.mean(|o| o.ess_ratio),
            square.sqrt(),
            self.coverage(),
            self.warned(),
            1e3 * self.mean(|o| o.seconds),
            self.warning_names().join(", "),
        )
    }
}

pub const HEADER: &str = "\
| problem | log Z by | log Z | K | ESS/N | mean z | rms z | log of mean Z, off by | coverage | warned | unwarned: coverage | abs(z) > 4 | ms a run | warnings |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|";

/// Formats the three figures of the table, and the problems that are excluded from them.
pub fn verdict(rows: &[Row]) -> String {
    let inside = || rows.iter().filter(|row| row.entry.outside.is_none());
    let (mut runs, mut covered, mut far) = (0, 0, 0);
    for row in inside() {
        let counts = row.unwarned();
        runs += counts.0;
        covered += counts.1;
        far += counts.2;
    }
    let low = |row: &&Row| {
        let (runs, covered, _) = row.unwarned();
        runs > 0 && (covered as f64) < 0.9 * runs as f64
    };
    let false_alarm = |row: &&Row| row.coverage() >= 0.93 && row.warned() >= 0.02;
    let names = |rows: Vec<&Row>| match rows.is_empty() {
        true => "none".to_owned(),
        false => rows
            .iter()
            .map(|row| row.entry.name)
            .collect::<Vec<_>>()
            .join("; "),
    };
    let mut lines = vec![
        format!(
            "Unwarned runs: {:.2}% of {runs} intervals hold the exact value (aim 93 to 97). Problems below 90%: {}.",
            100.0 * covered as f64 / runs.max(1) as f64,
            names(inside().filter(low).collect())
        ),
        format!(
            "Unwarned runs with |z| > 4: {far}, {:.2} in a thousand (aim at most 1). Problems with any: {}.",
            1e3 * far as f64 / runs.max(1) as f64,
            names(inside().filter(|row| row.unwarned().2 > 0).collect())
        ),
        format!(
            "False alarms, on 2% or more of the runs of a problem whose interval covers 93% or more: {}.",
            names(inside().filter(false_alarm).collect())
        ),
    ];
    for row in rows {
        if let Some(reason) = row.entry.outside {
            let (runs, covered, far) = row.unwarned();
            lines.push(format!(
                "Left out, {}: {reason}. {covered} of {runs} unwarned intervals hold the exact value; |z| > 4 in {far}.",
                row.entry.name
            ));
        }
    }
    lines.join("\n")
}
