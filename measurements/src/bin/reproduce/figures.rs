//! Kiwaki's Figures 1 to 6, drawn from the saved lines.

use std::path::Path;

use annealed::Result;
use annealed_plot::Chart;

use crate::bootstrap::interval;
use crate::kiwaki::SCHEDULES;
use crate::machines::{Folders, Machine};
use crate::rows::{Lines, Pooled, Row, Setting};

const STEPS: [usize; 3] = [1_000, 10_000, 100_000];
/// Schedules of the figures. The limited ones are left out; the table shows them.
const DRAWN: [&str; 6] = [
    "LINEAR",
    "GMS13",
    "VAROPT",
    "VAROPT raw",
    "SM08",
    "friction",
];

/// Draws figures for each machine that has lines: schedules, log Z^ and ESS against K, and ESS along the runs.
pub fn draw(folders: &Folders, lines: &Lines<Row>, figures: &Path) -> Result<()> {
    for machine in [Machine::SMALL, Machine::LARGE].concat() {
        let name = machine.name();
        let cells = |steps: usize| -> Result<Vec<(&str, Pooled)>> {
            let drawn = SCHEDULES.iter().filter(|schedule| DRAWN.contains(schedule));
            let pooled = drawn
                .map(|schedule| Ok((*schedule, lines.pooled(&setting(&name, schedule, steps))?)));
            let pooled: Result<Vec<_>> = pooled.collect();
            Ok(pooled?
                .into_iter()
                .filter_map(|(schedule, pooled)| Some((schedule, pooled?)))
                .collect())
        };
        let mut most = Vec::new();
        let stem = machine.stem();
        let file = |what: &str| figures.join(format!("kiwaki-{stem}-{what}.svg"));
        for steps in STEPS {
            let cells = cells(steps)?;
            if !cells.is_empty() {
                along(&name, steps, &cells).save(file(&format!("ess-along-{steps}")))?;
                if cells.len() >= most.len() {
                    most = cells;
                }
            }
        }
        if most.is_empty() {
            continue;
        }
        schedules(&name, &most).save(file("schedules"))?;
        let exact = machine.log_z_exact(folders)?;
        let (log_z, ess) = against_steps(&name, exact, lines)?;
        log_z.save(file("log-z"))?;
        ess.save(file("ess"))?;
    }
    Ok(())
}

fn schedules(name: &str, cells: &[(&str, Pooled)]) -> Chart {
    let mut chart = Chart::new(&format!("{name}: schedules"), "k / K", "beta");
    for (schedule, pooled) in cells {
        let betas = &pooled.rows[0].betas;
        let last = (betas.len() - 1) as f64;
        chart = chart.line(
            schedule,
            betas
                .iter()
                .enumerate()
                .map(|(i, &beta)| (i as f64 / last, beta)),
        );
    }
    chart
}

/// Charts the ESS along the runs as a share of their chains, averaged over the parts of a row.
fn along(name: &str, steps: usize, cells: &[(&str, Pooled)]) -> Chart {
    let mut chart = Chart::new(
        &format!("{name}: ESS along the run, K = {steps}"),
        "k / K",
        "ESS / N",
    );
    for (schedule, pooled) in cells {
        let parts = pooled.rows.len() as f64;
        let points = pooled.rows[0].along.iter().enumerate();
        let mean = |i: usize| pooled.rows.iter().map(|row| row.along[i].1).sum::<f64>() / parts;
        chart = chart.line(schedule, points.map(|(i, &(t, _))| (t, mean(i))));
    }
    chart
}

fn against_steps(name: &str, exact: Option<f64>, lines: &Lines<Row>) -> Result<(Chart, Chart)> {
    let title = if exact.is_some() {
        "log Ẑ - log Z"
    } else {
        "log Ẑ"
    };
    let mut log_z = Chart::new(&format!("{name}: {title}"), "K", "nats").logarithmic_x();
    let mut ess = Chart::new(&format!("{name}: ESS"), "K", "ESS / N").logarithmic_x();
    let shift = exact.unwrap_or(0.0);
    for schedule in DRAWN {
        let (mut estimates, mut shares) = (Vec::new(), Vec::new());
        for steps in STEPS {
            let Some(pooled) = lines.pooled(&setting(name, schedule, steps))? else {
                continue;
            };
            let chains = pooled.estimate.chains() as f64;
            let (low, high) = interval(&pooled.bootstrap.log_z);
            estimates.push((
                steps as f64,
                pooled.estimate.value() - shift,
                (low - shift, high - shift),
            ));
            let (low, high) = interval(&pooled.bootstrap.ess);
            shares.push((steps as f64, pooled.share(), (low / chains, high / chains)));
        }
        log_z = log_z.line_with_errors(schedule, estimates);
        ess = ess.line_with_errors(schedule, shares);
    }
    Ok((log_z, ess))
}

fn setting(machine: &str, schedule: &str, steps: usize) -> Setting {
    Setting::new([machine, "base rates", "GA", schedule], steps)
}
