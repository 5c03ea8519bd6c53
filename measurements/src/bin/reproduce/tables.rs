//! Tables in Markdown: the papers' figures beside ours.

use annealed::Result;

use crate::base::Start::{Auto, BaseRates, Uniform};
use crate::bootstrap::interval;
use crate::grosse;
use crate::kiwaki;
use crate::machines::{Folders, Machine};
use crate::papers::{GROSSE, GROSSE_EXACT, KIWAKI, KIWAKI_EXACT, Printed};
use crate::rows::{Lines, Pooled, Row, Setting};

/// Numbers of stages. The longest runs are compared with the papers' 100,000; the others show only their ESS.
const STEPS: [usize; 3] = [100_000, 10_000, 1_000];

struct Table<'a> {
    machine: Machine,
    /// Start, path and schedule of each row.
    rows: Vec<[&'static str; 3]>,
    printed: &'a [Printed],
    /// Exact log Z of the paper's machine of this name.
    their_exact: Option<f64>,
    /// The paper's number of chains.
    chains: f64,
}

pub fn print(folders: &Folders, lines: &Lines<Row>) -> Result<()> {
    let exact_of = |list: &[(&str, f64)], machine: Machine| {
        list.iter()
            .find(|entry| entry.0 == machine.name())
            .map(|entry| entry.1)
    };
    let machines = || [Machine::SMALL, Machine::LARGE].concat();
    println!("# Kiwaki (2015), Tables 1 and 2: geometric path, base-rate start unless said");
    for machine in machines() {
        let rows = [BaseRates, Uniform, Auto]
            .map(|start| kiwaki::SCHEDULES.map(|schedule| [start.name(), "GA", schedule]));
        let rows = rows.concat();
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
                    .map(move |&schedule| [start.name(), path.name(), schedule])
            });
        let others = [["base rates", "MAS biased", "LINEAR"], grosse::SEARCHED];
        let their_exact = exact_of(&GROSSE_EXACT, machine);
        let rows = rows.chain(others).collect();
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
        let mut columns = Vec::new();
        for steps in STEPS {
            let column = self
                .rows
                .iter()
                .map(|&row| lines.pooled(&self.setting(row, steps)));
            columns.push((steps, column.collect::<Result<Vec<_>>>()?));
        }
        columns.retain(|(_, column)| column.iter().any(Option::is_some));
        let Some(((steps, longest), others)) = columns.split_first() else {
            return Ok(());
        };
        let exact = self.machine.log_z_exact(folders)?;
        self.print_head(*steps, exact, others);
        let best = longest
            .iter()
            .flatten()
            .max_by(|a, b| a.share().total_cmp(&b.share()));
        for (i, (&row, pooled)) in self.rows.iter().zip(longest).enumerate() {
            let runs = columns.iter().find_map(|(_, column)| column[i].as_ref());
            let (Some(runs), Some(best)) = (runs, best) else {
                continue;
            };
            let printed = self.printed(row);
            let theirs = printed.map_or("| ".into(), |printed| self.theirs(printed));
            let run = &runs.rows[0].setting.schedule;
            if run != row[2] {
                // A schedule that another row has run already.
                if printed.is_some() {
                    println!("| {} | {theirs} | is {run} |", row[2]);
                }
                continue;
            }
            let ours = pooled.as_ref().map_or("| | | | | ".into(), |pooled| {
                let theirs = printed.map(|printed| printed.5 / self.chains);
                ours(pooled, best, exact, theirs)
            });
            print!("| {} | {theirs} | {ours} |", self.label(row, runs));
            for (_, other) in others {
                let other = other[i].as_ref().map(|other| share(other.share()));
                print!(" {} |", other.unwrap_or_default());
            }
            println!();
        }
        Ok(())
    }

    fn print_head(
        &self,
        steps: usize,
        exact: Option<f64>,
        others: &[(usize, Vec<Option<Pooled>>)],
    ) {
        print!("\n## {}", self.machine.name());
        match (exact, self.their_exact) {
            (Some(ours), Some(theirs)) => {
                println!(": log Z {ours:.3}, of the paper's machine {theirs}")
            }
            (Some(ours), None) => println!(": log Z {ours:.3}"),
            _ => println!(),
        }
        let what = if exact.is_some() { "error" } else { "log Z^" };
        print!(
            "\n| | paper, K = 100000: {what} | ESS/N | ours, K = {steps}: {what} (SE) | ESS/N [95%] | our ESS is | N | top speed | core minutes |"
        );
        others
            .iter()
            .for_each(|(steps, _)| print!(" ESS/N, K = {steps} |"));
        println!("\n{}|", "|---".repeat(9 + others.len()));
    }

    fn printed(&self, row: [&str; 3]) -> Option<&Printed> {
        let name = self.machine.name();
        let is_row = |p: &&Printed| p.0 == name && [p.1, p.2, p.3] == row;
        self.printed.iter().find(is_row)
    }

    fn theirs(&self, &(.., log_z, ess): &Printed) -> String {
        let error = |exact: f64| format!("{:+.3}", log_z - exact);
        let log_z = self.their_exact.map_or(format!("{log_z:.2}"), error);
        format!("{log_z} | {}", share(ess / self.chains))
    }

    fn label(&self, [start, path, schedule]: [&str; 3], pooled: &Pooled) -> String {
        if self.chains == 1e3 {
            return match start {
                "base rates" => schedule.into(),
                _ => format!("{schedule}, {start}"),
            };
        }
        // Small machines are matched exactly.
        let large = self.machine.hidden_units() > 20;
        let updates = pooled.rows[0].spline_updates.filter(|_| large);
        let updates = updates.map(|updates| format!(" ({updates} updates a knot)"));
        let schedule = schedule.to_lowercase();
        format!("{start}, {path}{}, {schedule}", updates.unwrap_or_default())
    }

    fn setting(&self, [start, path, schedule]: [&str; 3], steps: usize) -> Setting {
        Setting::new([&self.machine.name(), start, path, schedule], steps)
    }
}

/// Formats our figures of a row. The paper's ESS is the same as ours if it lies in our interval.
fn ours(pooled: &Pooled, best: &Pooled, exact: Option<f64>, theirs: Option<f64>) -> String {
    let estimate = &pooled.estimate;
    let value = estimate.value();
    let value = exact.map_or(format!("{value:.3}"), |exact| {
        format!("{:+.3}", value - exact)
    });
    let (low, high) = interval(&pooled.bootstrap.ess);
    let chains = estimate.chains() as f64;
    let verdict = match theirs {
        None => "",
        Some(theirs) if theirs > high / chains => "lower",
        Some(theirs) if theirs < low / chains => "higher",
        Some(_) => "the same",
    };
    let bold = if pooled.is_as_good_as(best) { "**" } else { "" };
    format!(
        "{value} ({}) | {bold}{}{bold} [{}, {}] | {verdict} | {chains} | {:.1} | {:.1}",
        short_number(estimate.standard_error()),
        share(pooled.share()),
        share(low / chains),
        share(high / chains),
        pooled.rows[0].top_speed,
        pooled.seconds / 60.0,
    )
}

/// Formats a share without the zero before the point.
fn share(x: f64) -> String {
    let digits = if x < 0.0995 { 3 } else { 2 };
    format!("{x:.digits$}").trim_start_matches('0').into()
}

fn short_number(x: f64) -> String {
    format!("{x:.3}").trim_start_matches('0').into()
}
