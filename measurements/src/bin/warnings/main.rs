//! Level and power of every warning: how often it appears in right runs and in wrong runs. A run is right if its log Z
//! lies within four of its errors, or .1, of the exact value. For `FirstRunTooLow` the first run counts
//! (docs/notes/warnings.md).
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin warnings -- --seeds 1000
//! cargo run --release -p annealed-measurements --bin warnings -- --seeds 100 --only "both directions" --json
//! ```

mod cases;
mod challenged;
mod doubted;
mod facts;
mod hard;
mod hierarchy;
mod potts;
mod runs;
mod valleys;

use annealed::Result;
use annealed::adaptive::Judgement;
use annealed_measurements::problems::seeds::over_seeds;
use clap::Parser;
use serde_json::{Value, json};

use cases::{Case, Challenged, Seen, SetUp};

/// How often each warning appears, over runs whose log Z is known.
#[derive(Debug, Parser)]
struct Options {
    /// Number of seeds of runs that take microseconds; others have a fraction of it
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// Only the cases whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// JSON object
    #[arg(long)]
    json: bool,
}

/// A case with the results of its seeds.
struct Found {
    case: Case,
    seen: Vec<Seen>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let mut all = Vec::new();
    for case in cases::all(&options.only)? {
        let seeds = (options.seeds / case.share).max(1);
        let seen = over_seeds(seeds, |seed| (case.run)(seed))?;
        if !options.json {
            eprintln!("{}: {} seeds", case.name, seen.len());
        }
        all.push(Found { case, seen });
    }
    if options.json {
        let rows = cases::MEASURED.map(|(name, of)| Row::new(name, of, &all).json());
        let facts = facts::FACTS.map(|(name, says)| json!({ "warning": name, "says": says }));
        println!("{:#}", json!({ "measured": rows, "facts": facts }));
        return Ok(());
    }
    println!("{HEADER}");
    for (name, of) in cases::MEASURED {
        println!("{}", Row::new(name, of, &all).line());
    }
    println!("{CHALLENGES}");
    for row in all.iter().filter_map(judgements) {
        println!("{row}");
    }
    println!("{}", hard::table(&all));
    println!("\n| warning | is a fact of the run |\n|---|---|");
    for (name, says) in facts::FACTS {
        println!("| `{name}` | {says} |");
    }
    Ok(())
}

const HEADER: &str = "\
| warning | sound set-up, right runs | most, of one problem | faulty set-up, right runs | wrong runs | cases made for it |
|---|--:|---|--:|--:|--:|";

const CHALLENGES: &str = "
| challenged | seeds | first run right | warned itself | contradicted | falsely | improved | undecided | right or warned | right | second run: bias, rms |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

/// Returns the row of a case's challenges and their judgements; `None` for other cases.
fn judgements(Found { case, seen }: &Found) -> Option<String> {
    let all: Vec<(&Seen, Challenged)> = seen
        .iter()
        .filter_map(|one| Some((one, one.challenge?)))
        .collect();
    let count = |has: &dyn Fn(&Seen, Challenged) -> bool| {
        let having = all.iter().filter(|(seen, of)| has(seen, *of));
        having.count().to_string()
    };
    let counts = [
        count(&|_, of| of.first),
        count(&|_, of| of.warned),
        count(&|_, of| matches!(of.judgement, Judgement::Contradicted { .. })),
        count(&|_, of| of.is_false),
        count(&|_, of| matches!(of.judgement, Judgement::Improved { .. })),
        count(&|_, of| of.judgement == Judgement::Undecided),
        count(&|seen, _| seen.right || !seen.warnings.is_empty()),
        count(&|seen, _| seen.right),
    ];
    let seeds = all.len();
    let mean = |of: fn(f64) -> f64| all.iter().map(|(_, x)| of(x.off)).sum::<f64>() / seeds as f64;
    let (bias, rms) = (mean(|off| off), mean(|off| off * off).sqrt());
    let (name, counts) = (case.title(), counts.join(" | "));
    (seeds > 0).then(|| format!("| {name} | {seeds} | {counts} | {bias:.2}, {rms:.2} |"))
}

/// Number of runs in which a warning appeared, and number of all runs.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    spoke: usize,
    runs: usize,
}

impl Count {
    fn of<'a>(
        seen: impl IntoIterator<Item = &'a Seen>,
        counts: impl Fn(&Seen) -> bool,
        speaks: impl Fn(&Seen) -> bool,
    ) -> Self {
        let mut count = Self::default();
        for seen in seen.into_iter().filter(|seen| counts(seen)) {
            count.runs += 1;
            count.spoke += usize::from(speaks(seen));
        }
        count
    }

    fn share(self) -> f64 {
        self.spoke as f64 / self.runs.max(1) as f64
    }

    fn text(self) -> String {
        match self.runs {
            0 => "-".to_owned(),
            runs => format!("{:.1}% of {runs}", 100.0 * self.share()),
        }
    }

    fn json(self) -> Value {
        json!({ "spoke": self.spoke, "runs": self.runs })
    }
}

/// Counts of one warning over all cases whose kind of result can have it.
struct Row {
    name: &'static str,
    sound: Count,
    most: (&'static str, f64),
    faulty: Count,
    wrong: Count,
    made_for_it: Count,
}

impl Row {
    fn new(name: &'static str, of: &[&str], all: &[Found]) -> Self {
        let speaks = |seen: &Seen| match name {
            cases::SKEWED => seen.skewed,
            cases::ANY => !seen.warnings.is_empty(),
            _ => seen.warnings.iter().any(|warning| warning.name() == name),
        };
        let cases = || all.iter().filter(|found| of.contains(&found.case.kind));
        let right = |set_up: SetUp| {
            let chosen = cases().filter(move |found| found.case.set_up == set_up);
            Count::of(
                chosen.flat_map(|found| &found.seen),
                Seen::first_is_right,
                speaks,
            )
        };
        let mut most = ("-", 0.0);
        for found in cases().filter(|found| found.case.set_up == SetUp::Sound) {
            let share = Count::of(&found.seen, Seen::first_is_right, speaks).share();
            if share > most.1 {
                most = (found.case.name, share);
            }
        }
        let every = || cases().flat_map(|found| &found.seen);
        let made = all.iter().filter(|found| found.case.made_for == Some(name));
        Self {
            name,
            sound: right(SetUp::Sound),
            most,
            faulty: right(SetUp::Faulty),
            wrong: Count::of(every(), |seen| !seen.first_is_right(), speaks),
            made_for_it: Count::of(made.flat_map(|found| &found.seen), |_| true, speaks),
        }
    }

    fn line(&self) -> String {
        let most = match self.most.1 > 0.0 {
            true => format!("{:.1}%, {}", 100.0 * self.most.1, self.most.0),
            false => "-".to_owned(),
        };
        let [sound, faulty, wrong, made] =
            [self.sound, self.faulty, self.wrong, self.made_for_it].map(Count::text);
        format!(
            "| `{}` | {sound} | {most} | {faulty} | {wrong} | {made} |",
            self.name
        )
    }

    fn json(&self) -> Value {
        json!({
            "warning": self.name,
            "sound_right": self.sound.json(),
            "most": { "case": self.most.0, "share": self.most.1 },
            "faulty_right": self.faulty.json(),
            "wrong": self.wrong.json(),
            "made_for_it": self.made_for_it.json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_warning_is_left_out() {
        let source = include_str!("../../../../src/estimate/warning.rs");
        let body = source.split("pub enum Warning {").nth(1).expect("the enum");
        let body = body.split("\n}\n").next().expect("its end");
        let variant = |line: &str| {
            line.strip_prefix("    ")?
                .strip_suffix(" {")
                .map(str::to_owned)
        };
        let variants = body.lines().filter_map(variant);
        let variants = variants.filter(|name| name.starts_with(char::is_uppercase));
        let measured = cases::MEASURED.iter().map(|(name, _)| *name);
        let known: Vec<&str> = measured
            .chain(facts::FACTS.iter().map(|(name, _)| *name))
            .collect();
        let missing: Vec<String> = variants.filter(|name| !known.contains(&&**name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
