//! Kiwaki's Figures 1 to 6, and all cells of both papers, drawn from the saved lines.

use std::path::Path;

use annealed::{Error, Result};
use annealed_measurements::dot_sheet::DotSheet;
use annealed_plot::Chart;

use crate::bootstrap::interval;
use crate::kiwaki::SCHEDULES;
use crate::machines::{Folders, Machine};
use crate::papers::{GROSSE, KIWAKI, Printed};
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
    // The table has the values of the paper's Figure 3 at its largest K.
    for &(.., schedule, _, printed) in KIWAKI.iter().filter(|printed| printed.0 == name) {
        let share = printed / 1e3;
        if ["LINEAR", "GMS13", "VAROPT .009"].contains(&schedule) {
            ess = ess.line_with_errors(
                &format!("paper: {schedule}"),
                [(1e5, share, (share, share))],
            );
        }
    }
    Ok((log_z, ess))
}

fn setting(machine: &str, schedule: &str, steps: usize) -> Setting {
    Setting::new([machine, "base rates", "GA", schedule], steps)
}

/// Draws the ESS/N of all rows of the papers' tables: the printed one, and ours with its interval.
pub fn cells(lines: &Lines<Row>, figures: &Path) -> Result<()> {
    let mut sheet =
        DotSheet::new("ESS/N at K = 100,000: printed (rings), ours with 95% intervals (dots)");
    let papers: [(&str, &[Printed], f64); 2] = [("Kiwaki", &KIWAKI, 1e3), ("Grosse", &GROSSE, 5e3)];
    for (paper, printed, chains) in papers {
        for &(machine, start, path, schedule, _, ess) in printed {
            let names = [machine, start, path, schedule];
            let ours = lines.pooled(&Setting::new(names, STEPS[2]))?.map(|pooled| {
                let chains = pooled.estimate.chains() as f64;
                let (low, high) = interval(&pooled.bootstrap.ess);
                (pooled.share(), low / chains, high / chains)
            });
            let label = match paper {
                "Kiwaki" => format!("{paper}: {machine}, {schedule}"),
                _ => format!(
                    "{paper}: {machine}, {start}, {path}, {}",
                    schedule.to_lowercase()
                ),
            };
            sheet.row(&label, Some(ess / chains), ours);
        }
    }
    let file = figures.join("papers-cells.svg");
    std::fs::write(&file, sheet.to_svg()).map_err(|error| Error::io(&file, error))
}
