//! Kiwaki's objective J, which is `K Var[log w]` under perfect transitions, beside the variances of the runs.

use std::time::Instant;

use annealed::estimate::Estimate;
use annealed::model::NormalizedModel;
use annealed::path::Intermediate;
use annealed::pilot::Pilot;
use annealed::rbm::{BlockGibbs, RbmAt, RbmPath};
use annealed::schedule::Schedule;
use annealed::{Error, Result};

use crate::base::Start::{self, BaseRates, Uniform};
use crate::bootstrap::{Bootstrap, interval};
use crate::exact::{ExactSampler, Law};
use crate::kiwaki;
use crate::machines::{Folders, Machine};
use crate::rows::{Costs, Lines, Perfect, Saved, Setting, log_weights, thousandths};
use crate::runs::{Runs, betas_at_points};
use crate::tables::share;

/// Schedules of the tables.
const SCHEDULES: [&str; 6] = [
    "LINEAR",
    "VAROPT",
    "GMS13",
    "GMS13 marginal",
    "friction",
    "SM08",
];
/// Schedules in the order in which they are run with exact samples.
const PERFECT: [&str; 6] = [
    "LINEAR",
    "SM08",
    "VAROPT",
    "friction",
    "GMS13 marginal",
    "GMS13",
];
const STEPS: usize = 100_000;
/// Kind of the costs that exact samples give.
const EXACT: &str = "exact samples";
/// Segments of a path whose costs exact samples give, and samples at each of their ends.
const SEGMENTS: usize = 100;
const SAMPLES: usize = 4_000;

/// Returns `J = int beta'(t)^2 g(beta) dt` of betas that are evenly spaced in t, from the costs of segments of equal
/// length. A segment's cost is `1/2 dbeta int g`. Speed is constant between two betas, and g within a segment.
fn objective(betas: &[f64], costs: &[f64]) -> f64 {
    let segments = costs.len() as f64;
    let mut integrals = vec![0.0];
    for cost in costs {
        integrals.push(integrals[integrals.len() - 1] + 2.0 * segments * cost);
    }
    let integral = |beta: f64| {
        let segment = ((beta * segments) as usize).min(costs.len() - 1);
        let within = beta * segments - segment as f64;
        integrals[segment] + within * (integrals[segment + 1] - integrals[segment])
    };
    let steps = (betas.len() - 1) as f64;
    let of_step =
        |pair: &[f64]| steps * (pair[1] - pair[0]) * (integral(pair[1]) - integral(pair[0]));
    betas.windows(2).map(of_step).sum()
}

/// Returns the costs of the visible units between a start and a machine: by exact samples if there are any, else by
/// chains at the knots.
pub fn costs_of<'l>(lines: &'l Lines<Costs>, machine: &str, start: &str) -> Option<&'l [f64]> {
    let of_kind = |kind: &str| {
        let names = [machine, start, "GA", kind];
        let is = |line: &&Costs| [&*line.machine, &*line.start, &*line.path, &*line.kind] == names;
        lines.all.iter().find(is)
    };
    let found = of_kind(EXACT).or_else(|| of_kind("marginal"));
    found.map(|line| &*line.costs)
}

/// Returns J of a schedule whose betas are known at 51 points. SM08 leaps between two of them.
pub fn objective_of(schedule: &str, steps: usize, betas: &[f64], costs: &[f64]) -> Result<f64> {
    if schedule == "SM08" {
        let schedule = Schedule::salakhutdinov_murray(steps)?;
        return Ok(objective(schedule.betas(), costs));
    }
    Ok(objective(betas, costs))
}

/// Starts and machines of the tables.
fn places() -> Vec<(Start, Machine)> {
    let machines = [Machine::SMALL, Machine::LARGE].concat();
    let base_rates = machines.iter().map(|&machine| (BaseRates, machine));
    let uniform = [Machine::Pcd20, Machine::Cd1_20, Machine::Cd1_500];
    base_rates
        .chain(uniform.map(|machine| (Uniform, machine)))
        .collect()
}

/// Returns three tables: J with the ESS/N that it leaves, `K Var[log w] / J` of the runs with their ESS/N, and the runs
/// by exact samples.
pub fn tables(saved: &Saved<'_>) -> Result<[Vec<String>; 3]> {
    let [objectives, ratios] = gibbs_tables(saved)?;
    Ok([objectives, ratios, exact_table(saved)?])
}

fn gibbs_tables(saved: &Saved<'_>) -> Result<[Vec<String>; 2]> {
    let head = |what: &str| {
        vec![
            format!("| {what} | {} |", SCHEDULES.join(" | ")),
            format!("|---|{}", "---|".repeat(SCHEDULES.len())),
        ]
    };
    let mut tables = [head("J, ESS/N by it"), head("K Var / J [95%], ESS/N seen")];
    for (start, machine) in places() {
        let machine = machine.name();
        let Some(costs) = costs_of(saved.costs, &machine, start.name()) else {
            continue;
        };
        let mut cells = [Vec::new(), Vec::new()];
        for name in SCHEDULES {
            let setting = Setting::new([&machine, start.name(), "GA", name], STEPS);
            let Some(pooled) = saved.rows.pooled(&setting)? else {
                cells.iter_mut().for_each(|cells| cells.push(String::new()));
                continue;
            };
            let j = objective_of(name, STEPS, &pooled.rows[0].betas, costs)?;
            cells[0].push(format!("{j:.0}, {}", thousandth(ideal(j, STEPS))));
            let ratio = STEPS as f64 / j;
            let (low, high) = interval(&pooled.bootstrap.variance);
            let variances = [pooled.estimate.var_log_weight(), low, high];
            let [found, low, high] = variances.map(|variance| factor(ratio * variance));
            cells[1].push(format!(
                "{found} [{low}, {high}], {}",
                share(pooled.share())
            ));
        }
        for (table, cells) in tables.iter_mut().zip(cells) {
            table.push(format!(
                "| {machine}, {} | {} |",
                start.name(),
                cells.join(" | ")
            ));
        }
    }
    Ok(tables)
}

/// Returns the ESS/N of log weights with a normal law whose variance is J/K.
fn ideal(j: f64, steps: usize) -> f64 {
    (-j / steps as f64).exp()
}

fn thousandth(share: f64) -> String {
    format!("{share:.3}").trim_start_matches('0').into()
}

/// Formats a ratio with a decimal below ten.
fn factor(x: f64) -> String {
    let digits = usize::from(x < 9.95);
    format!("{x:.digits$}")
}

/// Returns the table of the runs by exact samples, beside the same schedules by Gibbs sampling. Without such runs it has
/// no lines.
fn exact_table(saved: &Saved<'_>) -> Result<Vec<String>> {
    if saved.perfect.all.is_empty() {
        return Ok(Vec::new());
    }
    let mut table = vec![
        "| exact samples | K | J | K times the sum of stage variances (SE) | K Var[log w] [95%] | ESS/N by J | ESS/N [95%] | ESS/N by Gibbs sampling [95%] |"
            .into(),
        "|---|---|---|---|---|---|---|---|".into(),
    ];
    for run in &saved.perfect.all {
        let (setting, steps) = (&run.setting, run.setting.steps as f64);
        let Some(costs) = costs_of(saved.costs, &setting.machine, &setting.start) else {
            continue;
        };
        let j = objective_of(&setting.schedule, setting.steps, &run.betas, costs)?;
        let weights: Vec<f64> = log_weights(&run.log_weights, run.log_z).collect();
        let estimate = Estimate::from_log_weights(&weights)?;
        let bootstrap = Bootstrap::new(&weights, run.log_z);
        let (low, high) = interval(&bootstrap.variance);
        let ess = shares(estimate.effective_sample_size(), &bootstrap, run.chains);
        let gibbs = saved.rows.pooled(setting)?.map_or(String::new(), |pooled| {
            shares(pooled.ess(), &pooled.bootstrap, pooled.estimate.chains())
        });
        table.push(format!(
            "| {}, {} | {} | {j:.0} | {:.1} ({:.1}) | {:.0} [{:.0}, {:.0}] | {} | {ess} | {gibbs} |",
            setting.machine,
            setting.schedule,
            setting.steps,
            steps * run.variance.0,
            steps * run.variance.1,
            steps * estimate.var_log_weight(),
            steps * low,
            steps * high,
            thousandth(ideal(j, setting.steps)),
        ));
    }
    Ok(table)
}

/// Formats an ESS over the number of chains, with its 95% interval.
pub fn shares(ess: f64, bootstrap: &Bootstrap, chains: usize) -> String {
    let (low, high) = interval(&bootstrap.ess);
    let [ess, low, high] = [ess, low, high].map(|ess| share(ess / chains as f64));
    format!("{ess} [{low}, {high}]")
}

/// Runs the schedules from base rates whose runs by exact samples are missing.
pub fn run(
    machine: Machine,
    folders: &Folders,
    runs: &mut Runs<'_>,
    lines: &mut Lines<Perfect>,
) -> Result<()> {
    let path = path(machine, BaseRates, folders)?;
    let survey = Pilot::default().survey(&path, &BlockGibbs, 0)?;
    let mut sampler = ExactSampler::new(&path, 0);
    for &steps in &runs.budget.steps {
        for name in PERFECT {
            let names = [&machine.name(), BaseRates.name(), "GA", name];
            let setting = Setting::new(names, steps);
            if lines.all.iter().any(|line| line.setting == setting) {
                continue;
            }
            let schedule = kiwaki::schedule(&setting, &survey, &path, runs)?;
            let begun = Instant::now();
            let exact = exact_run(&mut sampler, &schedule, runs.budget.chains)?;
            let ratio = Estimate::from_log_weights(&exact.log_weights)?.value();
            let line = Perfect {
                setting,
                chains: runs.budget.chains,
                log_z: path.base().log_normalizer() + ratio,
                variance: exact.variance,
                seconds: begun.elapsed().as_secs_f64(),
                build: runs.build.clone(),
                betas: betas_at_points(&schedule),
                log_weights: thousandths(&exact.log_weights, ratio),
            };
            eprintln!("{name}: log Z {:.3}, {:.0} s", line.log_z, line.seconds);
            lines.add(line)?;
        }
    }
    Ok(())
}

/// Estimates the costs of 100 segments by exact samples, for each start whose costs are missing.
pub fn run_costs(
    machine: Machine,
    starts: &[Start],
    folders: &Folders,
    runs: &mut Runs<'_>,
) -> Result<()> {
    if machine.hidden_units() != 20 {
        return Err(Error::invalid(
            "machine",
            machine.name(),
            "20 hidden units, for exact samples",
        ));
    }
    for &start in starts {
        let names = [&*machine.name(), start.name(), "GA", EXACT];
        let is = |line: &Costs| [&*line.machine, &*line.start, &*line.path, &*line.kind] == names;
        if runs.costs.all.iter().any(is) {
            continue;
        }
        let begun = Instant::now();
        let costs = exact_costs(&path(machine, start, folders)?)?;
        let [machine, start, path, kind] = names.map(String::from);
        runs.costs.add(Costs {
            machine,
            start,
            path,
            kind,
            by: format!("{SAMPLES} exact samples at {} betas", SEGMENTS + 1),
            costs,
            seconds: begun.elapsed().as_secs_f64(),
            build: runs.build.clone(),
        })?;
    }
    Ok(())
}

fn path(machine: Machine, start: Start, folders: &Folders) -> Result<RbmPath> {
    let file = machine.read(folders)?;
    let (base, _) = start.base(&file, 0)?;
    Ok(RbmPath::new(base, file.rbm)?.exact_weights())
}

/// Log weights of a run with perfect transitions.
pub struct ExactRun {
    /// In the law of the visible units.
    pub log_weights: Vec<f64>,
    /// In the law of both layers, of the same samples.
    pub joint: Vec<f64>,
    /// See [`Perfect::variance`].
    pub variance: (f64, f64),
}

/// Runs with perfect transitions: exact samples of each stage are weighted to the next.
pub fn exact_run(
    sampler: &mut ExactSampler<'_>,
    schedule: &Schedule,
    chains: usize,
) -> Result<ExactRun> {
    let path = sampler.path();
    let (mut log_weights, mut joint) = (vec![0.0; chains], vec![0.0; chains]);
    let (mut variance, mut error) = (0.0, 0.0);
    for pair in schedule.betas().windows(2) {
        let (here, next) = (path.at(pair[0]), path.at(pair[1]));
        let (hidden, visible) = sampler.pairs(pair[0], chains)?;
        let (from, to) = (Law::of(&here.to_rbm()?), Law::of(&next.to_rbm()?));
        for ((log_weight, state), visible) in joint.iter_mut().zip(hidden).zip(&visible) {
            *log_weight += to.log_joint(state, visible) - from.log_joint(state, visible);
        }
        let added = log_ratios(&next, &here, &visible);
        let (of_stage, of_error) = variance_and_error(&added);
        variance += of_stage;
        error += of_error * of_error;
        for (log_weight, added) in log_weights.iter_mut().zip(added) {
            *log_weight += added;
        }
    }
    Ok(ExactRun {
        log_weights,
        joint,
        variance: (variance, error.sqrt()),
    })
}

/// Returns the costs of equally long segments. With `L = log f_b / f_a` between the ends a and b of a segment,
/// `1/2 dbeta int g` is taken as the mean of `1/2 Var_a[L]` and `1/2 Var_b[L]`.
fn exact_costs(path: &RbmPath) -> Result<Vec<f64>> {
    let knots = Schedule::linear(SEGMENTS)?;
    let betas = knots.betas();
    let mut costs = vec![0.0; SEGMENTS];
    let mut sampler = ExactSampler::new(path, 0);
    for (knot, &beta) in betas.iter().enumerate() {
        let here = path.at(beta);
        let samples = sampler.samples(beta, SAMPLES)?;
        for segment in [knot.checked_sub(1), Some(knot)].into_iter().flatten() {
            let other = if segment == knot { knot + 1 } else { segment };
            if let Some(&beta) = betas.get(other) {
                let ratios = log_ratios(&path.at(beta), &here, &samples);
                costs[segment] += 0.25 * variance_and_error(&ratios).0;
            }
        }
    }
    Ok(costs)
}

fn log_ratios(next: &RbmAt<'_, f32>, here: &RbmAt<'_, f32>, samples: &[Vec<bool>]) -> Vec<f64> {
    let ratio = |sample| next.log_ratio(here, sample);
    samples.iter().map(ratio).collect()
}

/// Returns the variance of numbers and its standard error, by their fourth moment.
fn variance_and_error(numbers: &[f64]) -> (f64, f64) {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let moment = |power: i32| numbers.iter().map(|x| (x - mean).powi(power)).sum::<f64>();
    let variance = moment(2) / (n - 1.0);
    let fourth = moment(4) / n;
    (
        variance,
        ((fourth - variance * variance).max(0.0) / n).sqrt(),
    )
}
