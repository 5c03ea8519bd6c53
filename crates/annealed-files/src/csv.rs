//! Draws in CSV: a header, then a row for each draw; lines that begin with `#` are comments.

use std::collections::HashMap;

use crate::Draws;
use crate::cmdstan::{ADAPTED, CmdStanRows};
use crate::column::{MOST_COLUMNS, check_different, choose};

/// Largest number of chains in a file. Each chain takes some memory in addition to its numbers.
const MOST_CHAINS: usize = 1 << 16;

const CHAIN: [&str; 3] = ["chain", ".chain", "chain__"];
const ORDER: [&str; 6] = [
    "draw",
    ".draw",
    "draw__",
    "iteration",
    ".iteration",
    "iter__",
];
const WEIGHT: [&str; 6] = [
    "weight",
    "weights",
    "logwt",
    "log_weight",
    "log_weights",
    ".log_weight",
];
const DIVERGENT: &str = "divergent__";

pub(super) fn read(text: &str, wanted: Option<&[String]>) -> Result<Draws, String> {
    let text = text.trim_start_matches('\u{feff}');
    let (mut comments, mut table) = (Vec::new(), None::<Table>);
    let lines = text.lines().map(str::trim).zip(1..);
    for (line, number) in lines.filter(|(line, _)| !line.is_empty()) {
        let read = match (&mut table, line.strip_prefix('#')) {
            (None, Some(_)) => {
                comments.push(line);
                Ok(())
            }
            (Some(table), Some(comment)) => {
                table.pass(comment.trim());
                Ok(())
            }
            (None, None) => Table::new(line, &comments, wanted).map(|begun| table = Some(begun)),
            (Some(table), None) => table.add(line),
        };
        read.map_err(|reason| format!("line {number}: {reason}"))?;
    }
    table
        .ok_or("no header, expected the names of parameters")?
        .draws()
}

/// The rows below the header, as they are read.
struct Table<'t> {
    names: Vec<String>,
    /// Places of the kept columns, in the order of the result.
    chosen: Vec<usize>,
    chain: Option<usize>,
    /// Places of the columns whose numbers must rise within a chain.
    order: Vec<usize>,
    divergent: Option<usize>,
    divergences: usize,
    cmdstan: Option<CmdStanRows>,
    rows: usize,
    /// Number of rows before the end of CmdStan's adaptation.
    adapted: Option<usize>,
    places: HashMap<&'t str, usize>,
    chains: Vec<Chain>,
}

/// The kept numbers of a chain, and the last number of each column that must rise.
struct Chain {
    values: Vec<f64>,
    last: Vec<f64>,
}

impl<'t> Table<'t> {
    fn new(header: &str, comments: &[&str], wanted: Option<&[String]>) -> Result<Self, String> {
        let names = names(header, |name| name.parse::<f64>().is_err())?;
        let of_stan = names.iter().any(|name| name == "lp__");
        let place = |name: &str| names.iter().position(|other| other == name);
        let is_parameter = |place: &usize| {
            let name = names[*place].as_str();
            let of_sampler = of_stan && name.ends_with("__");
            !name.is_empty() && !CHAIN.contains(&name) && !ORDER.contains(&name) && !of_sampler
        };
        let chosen = match wanted {
            Some(wanted) => choose(&names, wanted)?,
            None => {
                check_unweighted(&names)?;
                (0..names.len()).filter(is_parameter).collect()
            }
        };
        if chosen.is_empty() {
            return Err("no column of a parameter".into());
        }
        Ok(Self {
            chosen,
            chain: CHAIN.into_iter().find_map(place),
            order: ORDER.into_iter().filter_map(place).collect(),
            divergent: place(DIVERGENT),
            divergences: 0,
            cmdstan: CmdStanRows::of(comments, &names)?,
            rows: 0,
            adapted: None,
            places: HashMap::new(),
            chains: Vec::new(),
            names,
        })
    }

    /// Records the comment that ends CmdStan's adaptation, and ignores other comments between rows.
    fn pass(&mut self, comment: &str) {
        if comment == ADAPTED {
            self.adapted = Some(self.rows);
        }
    }

    fn add(&mut self, line: &'t str) -> Result<(), String> {
        let cells = Cells(Some(line)).collect::<Result<Vec<_>, _>>()?;
        if cells.len() != self.names.len() {
            let (found, expected) = (cells.len(), self.names.len());
            return Err(format!(
                "{found} cells, expected {expected} as in the header"
            ));
        }
        self.rows += 1;
        if self.rows <= self.cmdstan.as_ref().map_or(0, |rows| rows.warm_up) {
            return Ok(());
        }
        let place = self.place_of(self.chain.map_or("", |place| cells[place]))?;
        let number = |place: usize| number(&self.names[place], cells[place]);
        let chain = &mut self.chains[place];
        for (last, column) in chain.last.iter_mut().zip(&self.order) {
            let next = number(*column)?;
            if next <= *last {
                let name = &self.names[*column];
                return Err(format!(
                    "{name} {next} after {last} in one chain, expected rising numbers"
                ));
            }
            *last = next;
        }
        for column in &self.chosen {
            chain.values.push(number(*column)?);
        }
        let divergent = self.divergent.map(number).transpose()?;
        self.divergences += usize::from(divergent.is_some_and(|count| count != 0.0));
        Ok(())
    }

    /// Returns the place of the chain with this name. Adds a chain if the name is new.
    fn place_of(&mut self, name: &'t str) -> Result<usize, String> {
        if let Some(place) = self.places.get(name) {
            return Ok(*place);
        }
        if self.chains.len() == MOST_CHAINS {
            return Err(format!("more than {MOST_CHAINS} chains"));
        }
        self.places.insert(name, self.chains.len());
        self.chains.push(Chain {
            values: Vec::new(),
            last: vec![f64::NEG_INFINITY; self.order.len()],
        });
        Ok(self.chains.len() - 1)
    }

    fn draws(self) -> Result<Draws, String> {
        if let Some(rows) = &self.cmdstan {
            rows.check(self.rows, self.adapted)?;
        }
        if self.chains.is_empty() {
            return Err("no draws below the header".into());
        }
        let names = self.chosen.iter().map(|place| self.names[*place].clone());
        let chains = self.chains.into_iter().map(|chain| chain.values);
        Ok(Draws::new(
            names.collect(),
            chains.collect(),
            self.divergences,
        ))
    }
}

/// Refuses a column of weights, unless the caller names the columns to read.
fn check_unweighted(names: &[String]) -> Result<(), String> {
    match names.iter().find(|name| WEIGHT.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!(
            "a column {name}, expected equally weighted draws: resample the draws by their weights; if {name} is a \
             parameter or the weights are equal, name the columns to read"
        )),
    }
}

/// Reads a header. Its first name may be empty, because R and pandas number the rows in a first column without a name.
/// `may_be` says which names a column may have.
pub(super) fn names(header: &str, may_be: fn(&str) -> bool) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for name in Cells(Some(header)) {
        let name = name?;
        if !may_be(name) || name.is_empty() && !names.is_empty() {
            return Err(format!(
                "column {} has the name `{name}`, expected a header",
                names.len() + 1
            ));
        }
        if names.len() == MOST_COLUMNS {
            return Err(format!("more than {MOST_COLUMNS} columns"));
        }
        names.push(name.replace("\"\"", "\""));
    }
    if let [only] = &names[..]
        && let Some(mark) = [';', '\t'].into_iter().find(|mark| only.contains(*mark))
    {
        return Err(format!(
            "columns divided by {mark:?}, expected commas (in R `write.csv`, in pandas `to_csv` with sep=\",\")"
        ));
    }
    check_different(&names)?;
    Ok(names)
}

fn number(column: &str, cell: &str) -> Result<f64, String> {
    match cell.parse() {
        Ok(number) if f64::is_finite(number) => Ok(number),
        _ => Err(format!(
            "column {column}: `{cell}`, expected a finite number"
        )),
    }
}

/// An iterator over the cells of a line, without their quotes.
pub(super) struct Cells<'t>(pub(super) Option<&'t str>);

impl<'t> Iterator for Cells<'t> {
    type Item = Result<&'t str, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0.take()?.trim_start();
        let Some(quoted) = rest.strip_prefix('"') else {
            let (cell, after) = rest
                .split_once(',')
                .map_or((rest, None), |(cell, after)| (cell, Some(after)));
            self.0 = after;
            return Some(Ok(cell.trim_end()));
        };
        let Some(end) = end_of_quote(quoted) else {
            return Some(Err("a quote without its end".into()));
        };
        let after = quoted[end + 1..].trim_start();
        match after.strip_prefix(',') {
            Some(after) => self.0 = Some(after),
            None if after.is_empty() => {}
            None => return Some(Err(format!("`{after}` after a quote, expected a comma"))),
        }
        Some(Ok(&quoted[..end]))
    }
}

/// Returns the place of the quote that ends the text. Two adjacent quotes stand for one quote within the text.
fn end_of_quote(quoted: &str) -> Option<usize> {
    let mut end = quoted.find('"')?;
    while quoted[end + 1..].starts_with('"') {
        end += 2 + quoted[end + 2..].find('"')?;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Vec<Vec<f64>>> {
        let draws = read(text, None).unwrap();
        draws.states_by(|row| Ok(row.to_vec())).unwrap()
    }

    fn refused(text: &str) -> String {
        read(text, None).unwrap_err()
    }

    #[test]
    fn a_header_and_rows() {
        let expected = [[[1.0, -2.5], [3e2, 4.0]]];
        for text in [
            "a,b\n1,-2.5\n3e2,4\n",
            "a,b\n1,-2.5\n3e2,4",
            "\u{feff}\"a\", \"b\"\r\n\"1\" , -2.5\r\n\r\n3e2,\"4\"\r\n",
            "# a comment, \"of\" any kind\na,b\n1,-2.5\n# another\n3e2,4\n",
            "\"\",\"a[1,1]\",\"b\"\"c\"\n\"1\",1,-2.5\n\"2\",3e2,4\n",
        ] {
            assert_eq!(rows(text), expected, "{text}");
        }
        let quoted = read("\"\",\"a[1,1]\",\"b\"\"c\"\n1,1,2\n", None).unwrap();
        assert_eq!(quoted.names(), ["a[1,1]", "b\"c"]);
    }

    #[test]
    fn chains_are_divided_by_their_column() {
        assert_eq!(
            rows("chain,draw,a\n0,0,1\n1,0,2\n0,4,3\n1,1,4\n1,2,5\n"),
            [
                vec![vec![1.0], vec![3.0]],
                vec![vec![2.0], vec![4.0], vec![5.0]]
            ]
        );
        assert_eq!(rows("a,.chain,.draw\n1,x,1\n2,y,2\n"), [[[1.0]], [[2.0]]]);
    }

    #[test]
    fn faults_have_line_and_column() {
        for (text, reason) in [
            (
                "a,b\n1,2\n1,nan\n",
                "line 3: column b: `nan`, expected a finite number",
            ),
            (
                "a,b\n1,2\n\n-inf,2\n",
                "line 4: column a: `-inf`, expected a finite number",
            ),
            (
                "a,b\n1,\n",
                "line 2: column b: ``, expected a finite number",
            ),
            (
                "a,b\n1,2;3\n",
                "line 2: column b: `2;3`, expected a finite number",
            ),
            (
                "a,b\n1,2\n1,2,3\n",
                "line 3: 3 cells, expected 2 as in the header",
            ),
            ("a,b\n1\n", "line 2: 1 cells, expected 2 as in the header"),
            (
                "a,b\n1,2\na,b\n",
                "line 3: column a: `a`, expected a finite number",
            ),
            ("a,b\n", "no draws below the header"),
            ("# nothing\n", "no header, expected the names of parameters"),
            (
                "1.5,2.5\n1,2\n",
                "line 1: column 1 has the name `1.5`, expected a header",
            ),
            (
                "a,,b\n1,2,3\n",
                "line 1: column 2 has the name ``, expected a header",
            ),
            ("a[1],b,a.1\n1,2,3\n", "line 1: two columns a.1"),
            ("chain,draw\n1,2\n", "line 1: no column of a parameter"),
            ("\"a,b\n1,2\n", "line 1: a quote without its end"),
            (
                "a,b\n\"1\"2,3\n",
                "line 2: `2,3` after a quote, expected a comma",
            ),
            (
                "chain,draw,a\n0,0,1\n1,0,2\n0,0,3\n",
                "line 4: draw 0 after 0 in one chain, expected rising numbers",
            ),
            (
                "iteration,a\n1,1\n2,2\n1,3\n",
                "line 4: iteration 1 after 2 in one chain, expected rising numbers",
            ),
        ] {
            assert_eq!(refused(text), reason);
        }
        let many: String = (0..=MOST_CHAINS).map(|i| format!("{i},1\n")).collect();
        assert!(refused(&format!("chain,a\n{many}")).ends_with("more than 65536 chains"));
    }

    #[test]
    fn columns_that_are_not_wanted_may_hold_anything() {
        let text = "lp__,a,note\n-1,2,nan\n-3,4,text\n";
        let wanted = ["a".to_owned(), "lp__".to_owned()];
        let draws = read(text, Some(&wanted)).unwrap();
        let rows = draws.states_by(|row| Ok(row.to_vec())).unwrap();
        assert_eq!(rows, [[[2.0, -1.0], [4.0, -3.0]]]);
        assert!(refused(text).contains("column note: `nan`"));
        assert!(refused("a,log_weight\n1,0\n").contains("expected equally weighted draws"));
        assert!(read("a,log_weight\n1,0\n", Some(&["log_weight".to_owned()])).is_ok());
        let of_pymc = read("mu,sigma_log__\n1,2\n", None).unwrap();
        assert_eq!(of_pymc.names(), ["mu", "sigma_log__"]);
    }

    const HEADER: &str = "lp__,accept_stat__,a";

    /// Returns a file of CmdStan: `settings`, `before` rows, the end of the adaptation, `after` rows.
    fn cmdstan(settings: &[(&str, &str)], before: usize, after: usize) -> String {
        let comments = settings
            .iter()
            .map(|(name, value)| format!("#     {name} = {value}\n"));
        let comments: String = comments.collect();
        let (warm_up, rows) = ("-9,1,99\n".repeat(before), "-1,1,2\n".repeat(after));
        format!(
            "# method = sample (Default)\n{comments}{HEADER}\n{warm_up}# {ADAPTED}\n# Step size = 1\n{rows}"
        )
    }

    fn settings(saved: &'static str) -> [(&'static str, &'static str); 4] {
        [
            ("num_samples", "5"),
            ("num_warmup", "3"),
            ("save_warmup", saved),
            ("thin", "2 (Default)"),
        ]
    }

    #[test]
    fn the_warm_up_of_cmdstan_is_dropped() {
        for (saved, before) in [
            ("1", 2),
            ("true", 2),
            ("0 (Default)", 0),
            ("false (Default)", 0),
        ] {
            let text = cmdstan(&settings(saved), before, 3);
            assert_eq!(rows(&text), [[[2.0]; 3]], "{saved}");
        }
        // Without adaptation no comment follows the warm-up.
        let text = cmdstan(&settings("1"), 2, 3).replace(ADAPTED, "");
        assert_eq!(rows(&text), [[[2.0]; 3]]);
        // Rows of the warm-up may contain anything.
        let text = cmdstan(&settings("1"), 2, 3).replace("99", "inf");
        assert_eq!(rows(&text), [[[2.0]; 3]]);
    }

    /// RStan writes a divergence as 1 in a column `divergent__`, and counts the warm-up among the iterations.
    #[test]
    fn files_of_rstan_are_read_with_their_divergences() {
        let settings = "# iter=6\n# warmup=2\n# save_warmup=1\n# thin=1\n";
        let header = "lp__,accept_stat__,divergent__,a\n";
        let rows = "-9,1,1,99\n-9,1,1,99\n# Adaptation terminated\n-1,1,0,2\n-1,1,1,2\n-1,1,0,2\n-1,1,1,2\n";
        let draws = read(&format!("{settings}{header}{rows}"), None).unwrap();
        assert_eq!(draws.divergences(), 2);
        assert_eq!(draws.states()[0].len(), 4);
        let short = format!("{settings}{header}{rows}").replace("iter=6", "iter=7");
        assert!(refused(&short).contains("6 rows, expected 2 of warm-up and 5 draws"));
    }

    #[test]
    fn other_marks_between_columns_are_named() {
        assert!(refused("a;b\n1;2\n").contains("divided by ';', expected commas"));
        assert!(refused("a\tb\n1\t2\n").contains("divided by '\\t'"));
        assert!(refused("a,log_weight\n1,0\n").contains("a column log_weight, expected equally"));
    }

    #[test]
    fn files_of_cmdstan_that_contradict_themselves_are_refused() {
        for (text, reason) in [
            (
                cmdstan(&settings("0"), 2, 3),
                "2 rows before `Adaptation terminated`, expected a warm-up of 0",
            ),
            (
                cmdstan(&settings("1"), 0, 3),
                "0 rows before `Adaptation terminated`, expected a warm-up of 2",
            ),
            (
                cmdstan(&settings("1"), 3, 3),
                "3 rows before `Adaptation terminated`, expected a warm-up of 2",
            ),
            (
                cmdstan(&settings("1"), 2, 2),
                "4 rows, expected 2 of warm-up and 3 draws",
            ),
            (
                cmdstan(&settings("0"), 0, 4),
                "4 rows, expected 0 of warm-up and 3 draws",
            ),
            (
                cmdstan(&settings("2"), 0, 3),
                "without the comment save_warmup",
            ),
            (
                cmdstan(&settings("1")[1..], 2, 3),
                "without the comment num_samples",
            ),
            (
                cmdstan(&settings("1")[..3], 2, 3),
                "without the comment thin",
            ),
            (
                cmdstan(&settings("1"), 2, 3).replace("num_warmup = 3", "num_warmup = -3"),
                "num_warmup = -3, expected a whole",
            ),
            (
                cmdstan(&settings("0"), 0, 3).replace("sample (", "pathfinder ("),
                "method pathfinder of CmdStan, expected sample",
            ),
            (
                cmdstan(&[], 0, 3).replace("# method = sample (Default)", ""),
                "without the comment num_warmup",
            ),
            (
                format!("#num_samples=3\n{HEADER}\n1,1,2\n"),
                "without the comment num_warmup",
            ),
            (
                cmdstan(&[("algorithm", "fixed_param")], 0, 3),
                "algorithm fixed_param of CmdStan",
            ),
            (
                cmdstan(
                    &[
                        ("num_samples", "18446744073709551615"),
                        ("num_warmup", "2"),
                        ("save_warmup", "1"),
                        ("thin", "1"),
                    ],
                    2,
                    3,
                ),
                "5 rows, expected 2",
            ),
        ] {
            let error = refused(&text);
            assert!(error.contains(reason), "{error}, not {reason}");
        }
    }
}
