//! T. Kiwaki, "Variational optimization of annealing schedules" (2015): Tables 1 and 2.

use annealed::pilot::{BinnedSchedule, Friction, Pilot, ScheduleMetric, Survey, VarOpt};
use annealed::rbm::{BlockGibbs, RbmPath};
use annealed::schedule::Schedule;
use annealed::{Error, Result};

use crate::base::Start;
use crate::machines::{Folders, Machine};
use crate::rows::Setting;
use crate::runs::{Runs, SEGMENTS};

/// Schedules of the tables, and further ones.
pub const SCHEDULES: [&str; 13] = [
    "VAROPT",
    "VAROPT .009",
    "VAROPT .006",
    "VAROPT .003",
    "LINEAR",
    "GMS13",
    "GMS13 marginal",
    "SM08",
    "friction",
    "VAROPT raw",
    "VAROPT raw .009",
    "VAROPT raw .006",
    "VAROPT raw .003",
];

/// Runs the rows of one machine along the geometric path from one start.
pub fn run(machine: Machine, start: Start, folders: &Folders, runs: &mut Runs<'_>) -> Result<()> {
    let file = machine.read(folders)?;
    for &steps in &runs.budget.steps {
        let (base, _) = start.base(&file, steps)?;
        let path = RbmPath::new(base, file.rbm.clone())?.exact_weights();
        let mut known: Vec<(String, Schedule)> = Vec::new();
        // The paper's pilot: 100 chains of 1,000 stages.
        let survey = Pilot::default().survey(&path, &BlockGibbs, 0)?;
        for name in SCHEDULES {
            let setting = Setting::new([&machine.name(), start.name(), "GA", name], steps);
            let schedule = match schedule(&setting, &survey, &path, runs) {
                // This row has no schedule.
                Err(error @ Error::PilotCollapsed { .. }) => {
                    eprintln!("{} {name}: {error}", machine.name());
                    continue;
                }
                schedule => schedule?,
            };
            runs.row_or_same(&setting, &path, &schedule, &known)?;
            known.push((name.into(), schedule));
        }
    }
    Ok(())
}

/// Returns the schedule of a row.
pub fn schedule(
    setting: &Setting,
    survey: &Survey,
    path: &RbmPath,
    runs: &mut Runs<'_>,
) -> Result<Schedule> {
    let (name, steps) = (&*setting.schedule, setting.steps);
    // A searched base differs for each K.
    let start = match &*setting.start {
        "auto" => format!("auto, K = {steps}"),
        start => start.into(),
    };
    let names = [&*setting.machine, &start, "GA"];
    let binned = BinnedSchedule::new(Schedule::linear(SEGMENTS)?);
    let varopt = || VarOpt::default().schedule(survey, steps);
    match name {
        "LINEAR" => Schedule::linear(steps),
        "SM08" => Schedule::salakhutdinov_murray(steps),
        "friction" => Friction::default().schedule(survey, steps),
        "GMS13" => binned.with_costs(&runs.joint_costs(names, path)?, steps),
        "GMS13 marginal" => binned.with_costs(&runs.marginal_costs(names, path)?, steps),
        _ => {
            let unlimited = if name.contains("raw") {
                raw(survey, steps)
            } else {
                varopt()
            };
            limited(unlimited?, name)
        }
    }
}

/// Applies the limit in `name`. The paper limits a step of its pilot of 1,000 stages, which is a limit on the speed.
fn limited(schedule: Schedule, name: &str) -> Result<Schedule> {
    match name.rsplit_once(".00") {
        Some((_, thousandths)) => schedule.with_speed_limit(thousandths.parse().unwrap_or(1.0)),
        None => Ok(schedule),
    }
}

/// Returns VAROPT from the pilot's raw weights. They are not corrected for their small number, not smoothed, and
/// floored only at a millionth of the mean.
fn raw(survey: &Survey, steps: usize) -> Result<Schedule> {
    let points = survey.points();
    let weighted = points.iter().map(|point| match point.stage {
        0 => point.derivative_variance,
        _ => point.derivative_variance * (1.0 - 1.0 / point.effective_sample_size),
    });
    let betas = points.iter().map(|point| point.beta).collect();
    ScheduleMetric::new(betas, weighted.collect())?
        .floored(1e-6)?
        .schedule(steps)
}
