//! Tables in Markdown: the papers' figures beside ours.

use annealed::Result;

use crate::base::Start::{Auto, BaseRates, Uniform};
use crate::bootstrap::interval;
use crate::claims;
use crate::grosse;
use crate::grosse_figures;
use crate::kiwaki;
use crate::machines::{Folders, Machine};
use crate::papers::{GROSSE, GROSSE_EXACT, KIWAKI, KIWAKI_EXACT, Printed};
use crate::perfect;
use crate::rows::{Lines, Pooled, Row, Saved, Setting};

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

/// A table in Markdown. It has no lines if there are no runs.
pub struct Markdown {
    pub heading: String,
    pub lines: Vec<String>,
}

/// Returns Kiwaki's Tables 1 and 2. Path and start are geometric and base rates, unless a row names others.
pub fn kiwaki(folders: &Folders, lines: &Lines<Row>) -> Result<Vec<Markdown>> {
    let rows = [BaseRates, Uniform, Auto]
        .map(|start| kiwaki::SCHEDULES.map(|schedule| [start.name(), "GA", schedule]))
        .concat();
    let tables = machines().map(|machine| Table {
        machine,
        rows: rows.clone(),
        printed: &KIWAKI,
        their_exact: exact_of(&KIWAKI_EXACT, machine),
        chains: 1e3,
    });
    tables.map(|table| table.markdown(folders, lines)).collect()
}

/// Returns Tables 1 and 2 of Grosse et al.
pub fn grosse(folders: &Folders, lines: &Lines<Row>) -> Result<Vec<Markdown>> {
    let tables = machines().map(|machine| {
        let rows = grosse::rows(machine).into_iter();
        let rows = rows.flat_map(|(start, path, schedules)| {
            let row = move |&schedule| [start.name(), path.name(), schedule];
            schedules.iter().map(row)
        });
        let others = [["base rates", "MAS biased", "LINEAR"], grosse::SEARCHED];
        Table {
            machine,
            rows: rows.chain(others).collect(),
            printed: &GROSSE,
            their_exact: exact_of(&GROSSE_EXACT, machine),
            chains: 5e3,
        }
    });
    tables.map(|table| table.markdown(folders, lines)).collect()
}

fn machines() -> impl Iterator<Item = Machine> {
    [Machine::SMALL, Machine::LARGE].concat().into_iter()
}

fn exact_of(list: &[(&str, f64)], machine: Machine) -> Option<f64> {
    let entry = list.iter().find(|entry| entry.0 == machine.name());
    entry.map(|entry| entry.1)
}

/// Machines in the order of the table of searched starts.
const SEARCHED_ON: [Machine; 6] = [
    Machine::Cd1_20,
    Machine::Cd25_20,
    Machine::Cd1_500,
    Machine::Pcd20,
    Machine::Pcd500,
    Machine::Cd25_500,
];

/// Returns the ESS of the searched start beside the best row from another start.
pub fn searched(lines: &Lines<Row>) -> Result<Vec<String>> {
    let heads = SEARCHED_ON.map(|machine| machine.name());
    let mut table = vec![
        format!("| ESS/N | {} |", heads.join(" | ")),
        "|---|--:|--:|--:|--:|--:|--:|".into(),
    ];
    for (steps, label) in [(10_000, "10,000"), (100_000, "100,000")] {
        let mut cells = Vec::new();
        for machine in &heads {
            let [start, path, schedule] = grosse::SEARCHED;
            let setting = Setting::new([machine, start, path, schedule], steps);
            let pooled = lines.pooled(&setting)?;
            cells.push(pooled.map_or(String::new(), |pooled| share(pooled.share())));
        }
        table.push(format!(
            "| auto, linear, K = {label} | {} |",
            cells.join(" | ")
        ));
    }
    let (mut shares, mut names) = (Vec::new(), Vec::new());
    for machine in &heads {
        let others = lines.all.iter().map(|row| &row.setting).filter(|setting| {
            setting.machine == *machine && setting.start != "auto" && setting.steps == STEPS[0]
        });
        let mut best = (0.0, String::new());
        for setting in others {
            let found = lines.pooled(setting)?.map_or(0.0, |pooled| pooled.share());
            if found > best.0 {
                best = (found, short_name(setting));
            }
        }
        shares.push(share(best.0));
        names.push(best.1);
    }
    table.push(format!(
        "| best other, K = 100,000 | {} |",
        shares.join(" | ")
    ));
    table.push(format!("| which it is | {} |", names.join(" | ")));
    Ok(table)
}

/// Names a row by the parts that differ from the defaults: start, path and schedule.
fn short_name(setting: &Setting) -> String {
    let name = match &*setting.schedule {
        "LINEAR" => &setting.path,
        schedule => schedule,
    };
    match &*setting.start {
        "base rates" => name.into(),
        start => format!("{start}, {name}"),
    }
}

/// Prints all tables.
pub fn print(folders: &Folders, saved: &Saved<'_>) -> Result<()> {
    let lines = saved.rows;
    let papers = [
        ("Kiwaki (2015)", kiwaki(folders, lines)?),
        (
            "Grosse, Maddison and Salakhutdinov (2013)",
            grosse(folders, lines)?,
        ),
    ];
    for (paper, tables) in papers {
        println!("# {paper}, Tables 1 and 2");
        for table in tables.iter().filter(|table| !table.lines.is_empty()) {
            println!("\n## {}\n\n{}", table.heading, table.lines.join("\n"));
        }
        println!();
    }
    println!("# Searched starts\n\n{}\n", searched(lines)?.join("\n"));
    let figure = grosse_figures::exact_samples_table(Machine::Pcd20, folders, saved.points)?;
    println!("# Figure 3, PCD(20)\n\n{}\n", figure.join("\n"));
    let shortfalls = grosse_figures::shortfalls_table(Machine::Pcd20, folders, saved.points)?;
    println!("# Theorem 2, PCD(20)\n\n{}\n", shortfalls.join("\n"));
    println!("# J, and the variances of the runs");
    for table in perfect::tables(saved)? {
        println!("\n{}", table.join("\n"));
    }
    println!();
    print_claims(folders, saved)
}

pub fn print_claims(folders: &Folders, saved: &Saved<'_>) -> Result<()> {
    println!("# Claims");
    for table in claims::tables(folders, saved)? {
        println!("\n## {}\n\n{}", table.heading, table.lines.join("\n"));
    }
    Ok(())
}

impl Table<'_> {
    fn markdown(&self, folders: &Folders, lines: &Lines<Row>) -> Result<Markdown> {
        let exact = self.machine.log_z_exact(folders)?;
        let mut table = Markdown {
            heading: self.heading(exact),
            lines: Vec::new(),
        };
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
            return Ok(table);
        };
        table.lines.extend(head(*steps, exact, others));
        let shares = longest.iter().flatten();
        let best = shares.max_by(|a, b| a.share().total_cmp(&b.share()));
        let best = best.expect("columns without runs are left out");
        for (i, &row) in self.rows.iter().enumerate() {
            let cells: Vec<_> = columns.iter().map(|column| column.1[i].as_ref()).collect();
            table.lines.extend(self.line(row, &cells, best, exact));
        }
        Ok(table)
    }

    /// Returns the line of a row, with its runs in each column. `None` if there are neither runs nor printed figures.
    fn line(
        &self,
        row: [&str; 3],
        cells: &[Option<&Pooled>],
        best: &Pooled,
        exact: Option<f64>,
    ) -> Option<String> {
        let printed = self.printed(row);
        let theirs = printed.map_or("| ".into(), |printed| self.theirs(printed));
        let Some(runs) = cells.iter().find_map(|&cell| cell) else {
            return printed.map(|_| format!("| {} | {theirs} | not run |", self.label(row, None)));
        };
        let run = &runs.rows[0].setting.schedule;
        if run != row[2] {
            // Another row has already run this schedule.
            return printed.map(|_| format!("| {} | {theirs} | is {run} |", row[2]));
        }
        let ours = cells[0].map_or("| | | | | ".into(), |pooled| {
            let theirs = printed.map(|printed| printed.5 / self.chains);
            ours(pooled, best, exact, theirs)
        });
        let mut line = format!("| {} | {theirs} | {ours} |", self.label(row, Some(runs)));
        for other in &cells[1..] {
            let other = other.map(|other| share(other.share()));
            line += &format!(" {} |", other.unwrap_or_default());
        }
        Some(line)
    }

    fn heading(&self, exact: Option<f64>) -> String {
        let name = self.machine.name();
        match (exact, self.their_exact) {
            (Some(ours), Some(theirs)) => {
                format!("{name}: log Z {ours:.3}, of the paper's machine {theirs}")
            }
            (Some(ours), None) => format!("{name}: log Z {ours:.3}"),
            _ => name,
        }
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

    fn label(&self, [start, path, schedule]: [&str; 3], pooled: Option<&Pooled>) -> String {
        if self.chains == 1e3 {
            return match start {
                "base rates" => schedule.into(),
                _ => format!("{schedule}, {start}"),
            };
        }
        let updates = pooled.and_then(|pooled| pooled.rows[0].spline_updates);
        let updates = updates.map(|updates| format!(" ({updates} updates a knot)"));
        let schedule = schedule.to_lowercase();
        format!("{start}, {path}{}, {schedule}", updates.unwrap_or_default())
    }

    fn setting(&self, [start, path, schedule]: [&str; 3], steps: usize) -> Setting {
        Setting::new([&self.machine.name(), start, path, schedule], steps)
    }
}

/// Returns the head of a table and the line below it.
fn head(steps: usize, exact: Option<f64>, others: &[(usize, Vec<Option<Pooled>>)]) -> [String; 2] {
    let what = if exact.is_some() { "error" } else { "log Z^" };
    let mut head = format!(
        "| | paper, K = 100000: {what} | ESS/N | ours, K = {steps}: {what} (SE) | ESS/N [95%] | our ESS is | N | top speed | core minutes |"
    );
    for (steps, _) in others {
        head += &format!(" ESS/N, K = {steps} |");
    }
    [head, format!("{}|", "|---".repeat(9 + others.len()))]
}

/// Formats our figures of a row. The paper's ESS counts as equal to ours if it lies in our interval.
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
pub fn share(x: f64) -> String {
    let digits = if x < 0.0995 { 3 } else { 2 };
    format!("{x:.digits$}").trim_start_matches('0').into()
}

fn short_number(x: f64) -> String {
    format!("{x:.3}").trim_start_matches('0').into()
}
