//! The tables in Markdown: the paper's figures beside ours.

use annealed::Result;

use crate::bootstrap::interval;
use crate::grosse;
use crate::kiwaki;
use crate::machines::{Folders, Machine};
use crate::papers::{GROSSE, GROSSE_EXACT, KIWAKI, KIWAKI_EXACT, Printed};
use crate::rows::{Lines, Pooled, Row, Setting};

/// The longest runs, whose rows are compared with the papers'.
const STEPS: usize = 100_000;
/// Shorter ones, whose ESS stands beside.
const SHORTER: [usize; 2] = [1_000, 10_000];

/// A paper's table of one machine.
struct Table<'a> {
    machine: Machine,
    /// Start, path and schedule of each row.
    rows: Vec<[&'static str; 3]>,
    printed: &'a [Printed],
    /// The exact log Z of the paper's machine of this name.
    their_exact: Option<f64>,
    /// The paper's number of chains.
    chains: f64,
}

/// Prints all tables for which there are lines.
pub fn print(folders: &Folders, lines: &Lines<Row>) -> Result<()> {
    let exact_of = |list: &[(&str, f64)], machine: Machine| {
        list.iter()
            .find(|entry| entry.0 == machine.name())
            .map(|entry| entry.1)
    };
    let machines = || [Machine::SMALL, Machine::LARGE].concat();
    println!("# Kiwaki (2015), Tables 1 and 2: base-rate start, geometric path");
    for machine in machines() {
        let rows = kiwaki::SCHEDULES
            .map(|schedule| ["base rates", "GA", schedule])
            .to_vec();
        let their_exact = exact_of(&KIWAKI_EXACT, machine);
        Table {
            machine,
            rows,
            printed: &KIWAKI,
            their_exact,
            chains: 1e3,
        }
        .print(folders, lines)?;
    }
    println!("\n# Grosse, Maddison and Salakhutdinov (2013), Tables 1 and 2");
    for machine in machines() {
        let rows = grosse::rows(machine)
            .into_iter()
            .flat_map(|(start, path, schedules)| {
                schedules
                    .iter()
                    .map(move |&schedule| [start, path.name(), schedule])
            });
        let biased = [["base rates", "MAS biased", "LINEAR"]];
        let their_exact = exact_of(&GROSSE_EXACT, machine);
        let rows = rows.chain(biased).collect();
        Table {
            machine,
            rows,
            printed: &GROSSE,
            their_exact,
            chains: 5e3,
        }
        .print(folders, lines)?;
    }
    Ok(())
}

impl Table<'_> {
    fn print(&self, folders: &Folders, lines: &Lines<Row>) -> Result<()> {
        let pooled: Result<Vec<Option<Pooled>>> = self
            .rows
            .iter()
            .map(|&row| lines.pooled(&self.setting(row, STEPS)))
            .collect();
        let pooled = pooled?;
        let best = pooled
            .iter()
            .flatten()
            .max_by(|a, b| a.share().total_cmp(&b.share()));
        let Some(best) = best else { return Ok(()) };
        let exact = self.machine.log_z_exact(folders)?;
        print!("\n## {}", self.machine.name());
        match (exact, self.their_exact) {
            (Some(ours), Some(theirs)) => {
                println!(": exact log Z {ours:.3} (the paper's machine {theirs})")
            }
            (Some(ours), None) => println!(": exact log Z {ours:.3}"),
            _ => println!(),
        }
        let what = if exact.is_some() { "error" } else { "log Z^" };
        println!(
            "\n| | paper: {what} | ESS/N | ours: {what} (SE) | ESS/N [95%] | N | core minutes | top speed | ESS/N, K = 1,000 | 10,000 |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        for (&row, pooled) in self.rows.iter().zip(&pooled) {
            if let Some(pooled) = pooled {
                self.line(row, pooled, best, exact, lines)?;
            }
        }
        Ok(())
    }

    fn line(
        &self,
        row: [&str; 3],
        pooled: &Pooled,
        best: &Pooled,
        exact: Option<f64>,
        lines: &Lines<Row>,
    ) -> Result<()> {
        let machine = self.machine.name();
        let printed = self
            .printed
            .iter()
            .find(|p| p.0 == machine && [p.1, p.2, p.3] == row);
        let theirs = printed.map_or("| ".into(), |&(.., log_z, ess)| {
            let log_z = self.their_exact.map_or(format!("{log_z:.2}"), |exact| {
                format!("{:+.3}", log_z - exact)
            });
            format!("{log_z} | {}", share(ess / self.chains))
        });
        let estimate = &pooled.estimate;
        let ours = exact.map_or(format!("{:.3}", estimate.value()), |exact| {
            format!("{:+.3}", estimate.value() - exact)
        });
        let (low, high) = interval(&pooled.bootstrap.ess);
        let chains = estimate.chains() as f64;
        let bold = if pooled.is_as_good_as(best) { "**" } else { "" };
        let shorter = SHORTER.map(|steps| lines.pooled(&self.setting(row, steps)));
        let [short, longer] = shorter.map(|pooled| {
            pooled
                .ok()
                .flatten()
                .map_or(String::new(), |p| share(p.share()))
        });
        println!(
            "| {} | {theirs} | {ours} ({}) | {bold}{}{bold} [{}, {}] | {chains} | {:.1} | {:.1} | {short} | {longer} |",
            self.label(row),
            short_number(estimate.standard_error()),
            share(pooled.share()),
            share(low / chains),
            share(high / chains),
            pooled.seconds / 60.0,
            pooled.rows[0].top_speed,
        );
        Ok(())
    }

    fn label(&self, [start, path, schedule]: [&str; 3]) -> String {
        match self.chains as u32 {
            1_000 => schedule.into(),
            _ => format!("{start}, {path}, {}", schedule.to_lowercase()),
        }
    }

    fn setting(&self, [start, path, schedule]: [&str; 3], steps: usize) -> Setting {
        Setting {
            machine: self.machine.name(),
            start: start.into(),
            path: path.into(),
            schedule: schedule.into(),
            steps,
        }
    }
}

/// Without the zero before the point.
fn share(x: f64) -> String {
    let digits = if x < 0.0995 { 3 } else { 2 };
    format!("{x:.digits$}").trim_start_matches('0').into()
}

fn short_number(x: f64) -> String {
    format!("{x:.3}").trim_start_matches('0').into()
}
