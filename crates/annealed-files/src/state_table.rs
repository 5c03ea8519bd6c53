//! Reduced potentials of draws under several states.

use std::path::Path;

use annealed::estimate::{Dependence, Mbar};
use annealed::nalgebra::DMatrix;
use annealed::{Error, Result};

use crate::array::Array;
use crate::csv::{Cells, names};
use crate::{Arrays, listed, text_of};

/// Column with the name of the state that a row was drawn from.
const STATE: &str = "state";
/// Column with the time of a row.
const TIME: &str = "time";
/// End of the names of alchemlyb's columns with the state that a row was drawn from.
const LAMBDA: &str = "-lambda";

/// Reduced potentials `u_k(x_n)`, in kT, of draws x_n under K states, from a file. [`mbar`](Self::mbar) estimates the
/// free energies of the states.
///
/// - CSV: a column for each state and a row for each draw. The column `state` has the name of the state from which the row
///   was drawn; in the place of it alchemlyb's tables (`extract_u_nk(..).to_csv(..)`) have columns such as `fep-lambda`,
///   whose numbers are those in the names of the states. A column `time` holds the times of
///   replica exchange, or of chains, whose rows must be in this order.
/// - `.npz` with pymbar's arrays `u_kn`, a row for each state, and `N_k`; `.npy` with `u_kn` alone. Draws are sorted by state.
///
/// ```no_run
/// use annealed::estimate::Dependence;
/// use annealed_files::StateTable;
///
/// let table = StateTable::read("u_nk.csv")?;
/// println!("{}", table.mbar(Dependence::Independent)?);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StateTable {
    names: Vec<String>,
    /// Log densities, a row for each draw and a column for each state.
    log_densities: DMatrix<f64>,
    labels: Option<Vec<usize>>,
    times: Option<Vec<f64>>,
}

impl StateTable {
    /// Reads a table.
    ///
    /// # Errors
    /// [`Error::File`]: an unreadable file; a cell that is no number, NaN or `-inf`; no states; a row whose state is none
    /// of the columns.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        let found = match text_of(bytes) {
            Ok(text) => of_text(&text),
            Err(bytes) => Arrays::parse(bytes).and_then(of_arrays),
        };
        found.map_err(|reason| Error::file(path, reason))
    }

    /// Sets the number of draws of each state, for a file that does not tell from which state its rows are.
    ///
    /// # Errors
    /// Counts of another number than the states, or of another sum than the draws; a file that tells the states.
    pub fn with_counts(mut self, counts: &[usize]) -> Result<Self> {
        if self.labels.is_some() {
            let expected = "none beside a file that tells the state of each row";
            return Err(Error::invalid("counts", format!("{counts:?}"), expected));
        }
        self.labels = Some(labels(counts, self.log_densities.shape())?);
        Ok(self)
    }

    /// Returns the names of the states: those of the columns, or their indices.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of draws of each state; 0 if the file does not tell from which state its rows are.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.names.len()];
        let labels = self.labels.iter().flatten();
        labels.for_each(|label| counts[*label] += 1);
        counts
    }

    /// Returns the times of the draws, for [`Dependence::replicas`]; `None` if the file has none.
    pub fn times(&self) -> Option<&[f64]> {
        self.times.as_deref()
    }

    /// Estimates log Z of all states, which is minus their free energy over kT.
    ///
    /// # Errors
    /// A file that does not tell from which state its rows are; [`Chains`](Dependence::Chains) whose rows are not in the
    /// order of time; those of [`Mbar::from_labels`].
    pub fn mbar(&self, mut dependence: Dependence) -> Result<Mbar> {
        let labels = self.labels.clone().ok_or_else(|| {
            Error::invalid(
                "counts",
                "none",
                "the number of draws of each state, since the file does not tell it (N_k)",
            )
        })?;
        if let (Dependence::Chains, Some(times)) = (&dependence, &self.times) {
            dependence = Dependence::chains(times, &labels)?;
        }
        Mbar::from_labels(self.log_densities.clone(), labels, dependence)
    }
}

/// Returns the state of each draw, for draws sorted by state.
fn labels(counts: &[usize], (draws, states): (usize, usize)) -> Result<Vec<usize>> {
    let total = counts
        .iter()
        .fold(0_usize, |sum, count| sum.saturating_add(*count));
    crate::check_size("counts (one for each state)", counts.len(), states)?;
    crate::check_size("counts (their sum is the number of draws)", total, draws)?;
    let of_state = |(state, count): (usize, &usize)| std::iter::repeat_n(state, *count);
    Ok(counts.iter().enumerate().flat_map(of_state).collect())
}

fn of_arrays(mut arrays: Arrays) -> Result<StateTable, String> {
    let (u_kn, counts) = match arrays {
        Arrays::One(array) => (array, None),
        _ => (arrays.first_of(&["u_kn"])?.1, arrays.get("N_k")?),
    };
    let &[states, draws] = u_kn.shape() else {
        let shape = u_kn.shape();
        return Err(format!(
            "u_kn of the shape {shape:?}, expected a row for each state and a column for each draw"
        ));
    };
    if states > draws {
        return Err(format!(
            "{states} states (rows) and {draws} draws (columns) in u_kn, expected more draws: transpose it"
        ));
    }
    let values = Vec::from_iter(u_kn.values());
    let numbered = values.iter().zip(0..).find(|(u, _)| !is_potential(**u));
    if let Some((u, place)) = numbered {
        let (state, draw) = (place / draws, place % draws);
        return Err(format!(
            "u_kn is {u} at state {state}, draw {draw}, expected a number or +inf"
        ));
    }
    // The rows of u_kn lie one after the other, as the columns of a matrix do.
    let log_densities = -DMatrix::from_vec(draws, states, values);
    let labels = counts
        .map(|counts| labels(&whole(&counts)?, (draws, states)).map_err(|error| error.to_string()));
    Ok(StateTable {
        names: (0..states).map(|state| state.to_string()).collect(),
        log_densities,
        labels: labels.transpose()?,
        times: None,
    })
}

/// Returns counts. Refuses numbers that are no counts.
fn whole(counts: &Array) -> Result<Vec<usize>, String> {
    let count = |x: f64| match x >= 0.0 && x.fract() == 0.0 && x < 9e15 {
        true => Ok(x as usize),
        false => Err(format!("N_k has {x}, expected counts")),
    };
    counts.values().map(count).collect()
}

fn is_potential(u: f64) -> bool {
    u > f64::NEG_INFINITY
}

/// Columns of a text, by what they hold.
struct Columns {
    names: Vec<String>,
    /// Places of the states.
    states: Vec<usize>,
    /// Place of the column `state`.
    label: Option<usize>,
    /// Places of alchemlyb's columns with the state of a row.
    lambdas: Vec<usize>,
    time: Option<usize>,
}

impl Columns {
    fn of(header: &str) -> Result<Self, String> {
        let names = names(header, |_| true)?;
        let place = |wanted: &str| names.iter().position(|name| name == wanted);
        let (label, time) = (place(STATE), place(TIME));
        let is_lambda = |place: &usize| names[*place].ends_with(LAMBDA);
        let (lambdas, others): (Vec<_>, Vec<_>) = (0..names.len()).partition(is_lambda);
        let is_state =
            |place: &usize| !names[*place].is_empty() && ![label, time].contains(&Some(*place));
        let states = Vec::from_iter(others.into_iter().filter(is_state));
        if states.len() < 2 {
            return Err(format!(
                "the columns {}, expected one for each of two or more states",
                listed(&names)
            ));
        }
        if label.is_none() && lambdas.is_empty() {
            let found = listed(&names);
            return Err(format!(
                "the columns {found}, expected one of the name {STATE} (or alchemlyb's fep-lambda ..) with the state of each row"
            ));
        }
        Ok(Self {
            names,
            states,
            label,
            lambdas,
            time,
        })
    }

    /// Returns the index of the state from which a row was drawn.
    fn label(&self, cells: &[&str]) -> Result<usize, String> {
        let name = |state: &usize| self.names[*state].as_str();
        let (found, place) = match self.label {
            Some(place) => (
                cells[place].to_owned(),
                self.states
                    .iter()
                    .position(|state| name(state) == cells[place]),
            ),
            None => {
                let cells = Vec::from_iter(self.lambdas.iter().map(|place| cells[*place]));
                let found = cells.join(", ");
                let numbers = numbers(&found);
                (
                    found,
                    self.states
                        .iter()
                        .position(|state| self::numbers(name(state)) == numbers),
                )
            }
        };
        place.ok_or_else(|| {
            let names = Vec::from_iter(self.states.iter().map(|state| self.names[*state].clone()));
            format!(
                "a row of the state {found}, expected one of the columns {}",
                listed(&names)
            )
        })
    }
}

/// Returns the numbers in the name of a state, such as `0.25`, `(0.25, 1.0)` or `(np.float64(0.25), np.float64(1.0))`.
fn numbers(name: &str) -> Vec<f64> {
    let name = name.replace("np.float64", "");
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
    parts.filter_map(|part| part.parse().ok()).collect()
}

fn of_text(text: &str) -> Result<StateTable, String> {
    let lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .zip(1..);
    let mut lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let (header, _) = lines.next().ok_or("an empty file")?;
    let columns = Columns::of(header)?;
    let (mut values, mut labels, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for (line, number) in lines {
        let read = || -> Result<_, String> {
            let cells = Cells(Some(line)).collect::<Result<Vec<_>, _>>()?;
            let (found, expected) = (cells.len(), columns.names.len());
            if found != expected {
                return Err(format!(
                    "{found} cells, expected {expected} as in the header"
                ));
            }
            let cell = |place: &usize, is_right: fn(f64) -> bool, expected: &str| {
                let parsed = cells[*place].parse().ok().filter(|x| is_right(*x));
                parsed.ok_or_else(|| {
                    format!(
                        "column {}: `{}`, expected {expected}",
                        columns.names[*place], cells[*place]
                    )
                })
            };
            for state in &columns.states {
                values.push(-cell(state, is_potential, "a number or inf")?);
            }
            let time = columns
                .time
                .as_ref()
                .map(|place| cell(place, f64::is_finite, "a finite number"));
            times.extend(time.transpose()?);
            columns.label(&cells)
        }();
        labels.push(read.map_err(|reason| format!("line {number}: {reason}"))?);
    }
    let names = columns
        .states
        .iter()
        .map(|place| columns.names[*place].clone());
    Ok(StateTable {
        names: names.collect(),
        log_densities: DMatrix::from_row_slice(labels.len(), columns.states.len(), &values),
        labels: Some(labels),
        times: columns.time.map(|_| times),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "time,fep-lambda,0.0,0.5,1.0\n0,0.0,0.1,0.2,0.4\n1,0.0,0.0,0.3,inf\n0,0.5,0.3,0.1,0.2\n1,0.5,0.4,0.2,0.1\n";

    #[test]
    fn tables_of_alchemlyb() {
        let table = of_text(TABLE).unwrap();
        assert_eq!(table.names(), ["0.0", "0.5", "1.0"]);
        assert_eq!(table.labels, Some(vec![0, 0, 1, 1]));
        assert_eq!(table.times(), Some(&[0.0, 1.0, 0.0, 1.0][..]));
        assert_eq!(
            table
                .log_densities
                .row(1)
                .iter()
                .copied()
                .collect::<Vec<_>>(),
            [0.0, -0.3, f64::NEG_INFINITY]
        );
        // Two lambdas, with the names that pandas writes for tuples under NumPy 1 and 2.
        for names in [
            "\"(0.0, 0.0)\",\"(1.0, 0.25)\"",
            "\"(np.float64(0.0), np.float64(0.0))\",\"(np.float64(1.0), np.float64(0.25))\"",
        ] {
            let text = format!("time,coul-lambda,vdw-lambda,{names}\n0,0,0,1,2\n0,1.0,0.25,3,4\n");
            assert_eq!(of_text(&text).unwrap().labels, Some(vec![0, 1]));
        }
    }

    #[test]
    fn rows_of_chains_are_in_the_order_of_time() {
        let text = |order: &[usize]| {
            let row = |i: &usize| {
                let x = ((i * 37) % 101) as f64 / 101.0;
                format!("{i},0.0,{x},{}\n{i},1.0,{},{}\n", 2.0 * x, x * x, 1.0 - x)
            };
            "time,fep-lambda,0.0,1.0\n".to_owned() + &String::from_iter(order.iter().map(row))
        };
        let found = |order: &[usize], how| of_text(&text(order)).unwrap().mbar(how);
        let sorted = Vec::from_iter(0..100);
        let shuffled = Vec::from_iter((0..100).map(|i| i * 63 % 100));
        assert!(found(&sorted, Dependence::Chains).is_ok());
        assert!(found(&shuffled, Dependence::Independent).is_ok());
        let error = found(&shuffled, Dependence::Chains).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("in the order of time: sort them"),
            "{error}"
        );
    }

    #[test]
    fn rows_name_their_state() {
        let table = of_text("state,cold,hot\nhot,1,2\ncold,3,4\nhot,5,6\n").unwrap();
        assert_eq!(
            (table.names(), &table.labels),
            (
                &["cold".to_owned(), "hot".to_owned()][..],
                &Some(vec![1, 0, 1])
            )
        );
        assert_eq!(table.times(), None);
    }

    #[test]
    fn faults_have_line_and_column() {
        let refused = |text: &str| of_text(text).unwrap_err();
        assert!(refused("a,b\n1,2\n").contains("expected one of the name state"));
        assert!(refused("state,a\na,1\n").contains("two or more states"));
        assert_eq!(
            refused("state,a,b\na,1,2\nc,1,2\n"),
            "line 3: a row of the state c, expected one of the columns a, b"
        );
        assert_eq!(
            refused("state,a,b\na,nan,2\n"),
            "line 2: column a: `nan`, expected a number or inf"
        );
        assert_eq!(
            refused("state,a,b\na,1\n"),
            "line 2: 2 cells, expected 3 as in the header"
        );
    }

    #[test]
    fn arrays_of_pymbar() {
        // Column by column.
        let npy = |shape: Vec<usize>, values: &[f64]| {
            let bytes = crate::npy::format(&shape, 8, values.iter().copied());
            Arrays::parse(bytes).unwrap()
        };
        let table = of_arrays(npy(vec![2, 3], &[1.0, 4.0, 2.0, 5.0, 3.0, f64::INFINITY])).unwrap();
        assert_eq!(
            table
                .log_densities
                .column(0)
                .iter()
                .copied()
                .collect::<Vec<_>>(),
            [-1.0, -2.0, -3.0]
        );
        let error = table.mbar(Dependence::Independent).unwrap_err().to_string();
        assert!(error.contains("invalid counts: got none"), "{error}");
        assert_eq!(
            table.clone().with_counts(&[1, 2]).unwrap().labels,
            Some(vec![0, 1, 1])
        );
        assert!(table.with_counts(&[1, 1]).is_err());
        let nan = of_arrays(npy(vec![2, 3], &[1.0, 4.0, f64::NAN, 5.0, 3.0, 6.0])).unwrap_err();
        assert_eq!(
            nan,
            "u_kn is NaN at state 0, draw 1, expected a number or +inf"
        );
        let turned = of_arrays(npy(vec![3, 2], &[0.0; 6])).unwrap_err();
        assert!(turned.ends_with("transpose it"), "{turned}");
    }
}
