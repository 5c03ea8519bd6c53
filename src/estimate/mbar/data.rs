//! Log densities of draws under all states, and the checks of them.

use nalgebra::DMatrix;

use crate::{Error, Result};

/// How the draws of all states depend on each other. The standard errors follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dependence {
    /// All draws are independent.
    Independent,
    /// The draws of each state, in the given order, are one chain.
    Chains,
    /// Index of the chain of each draw. Draws of one state with one index, in the given order, are a chain.
    ManyChains(Vec<usize>),
    /// Time of each draw. Draws of all states at near times depend on each other, as in replica exchange, where
    /// replicas move over the states.
    Replicas(Vec<usize>),
}

/// Log densities of draws under all states, with checked labels. States whose densities are equal at all draws are one
/// *law*. The laws of states with draws come first.
#[derive(Debug, Clone)]
pub(super) struct Data {
    /// Log density of each draw (row) under each state (column).
    densities: DMatrix<f64>,
    /// State of each draw.
    pub(super) labels: Vec<usize>,
    /// Number of draws of each state.
    pub(super) counts: Vec<usize>,
    pub(super) dependence: Dependence,
    /// Law of each state.
    pub(super) law_of: Vec<usize>,
    /// First state of each law.
    states: Vec<usize>,
    /// Number of laws with draws.
    pub(super) sampled: usize,
}

/// Argument name in errors of the matrix.
const MATRIX: &str = "log densities (a row for each draw, a column for each state)";

impl Data {
    pub(super) fn new(
        densities: DMatrix<f64>,
        labels: Vec<usize>,
        dependence: Dependence,
    ) -> Result<Self> {
        let (draws, states) = densities.shape();
        Error::check_at_least("number of states", states, 2)?;
        Error::check_not_empty("draws", draws)?;
        check_rows("labels", labels.len(), draws, states)?;
        let outside = labels
            .iter()
            .enumerate()
            .find(|(_, label)| **label >= states);
        if let Some((row, label)) = outside {
            let expected = format!("a state, 0 to {}", states - 1);
            return Err(Error::invalid(
                "labels",
                format!("{label} at row {row}"),
                expected,
            ));
        }
        if let Dependence::ManyChains(each) | Dependence::Replicas(each) = &dependence {
            Error::check_dimension("chains or times of the draws", each.len(), draws)?;
        }
        check_values(&densities, &labels)?;
        let mut counts = vec![0; states];
        labels.iter().for_each(|&label| counts[label] += 1);
        if let Some(state) = counts.iter().position(|&count| count == 1) {
            let value = format!("1 in state {state}");
            return Err(Error::invalid(
                "draws of a state",
                value,
                "none, or 2 and more",
            ));
        }
        let (law_of, laws, sampled) = laws(&densities, &counts);
        let data = Self {
            densities,
            labels,
            counts,
            dependence,
            law_of,
            states: laws,
            sampled,
        };
        data.check_connected()?;
        Ok(data)
    }

    /// Returns the log densities of all draws under a law.
    pub(super) fn column(&self, law: usize) -> &[f64] {
        let (draws, state) = (self.draws(), self.states[law]);
        &self.densities.as_slice()[state * draws..(state + 1) * draws]
    }

    pub(super) fn draws(&self) -> usize {
        self.labels.len()
    }

    pub(super) fn laws(&self) -> usize {
        self.states.len()
    }

    /// Returns the law of the state from which a draw comes.
    pub(super) fn own(&self, draw: usize) -> usize {
        self.law_of[self.labels[draw]]
    }

    /// Returns the states of the given laws that have draws.
    pub(super) fn states_of(&self, laws: &[usize]) -> Vec<usize> {
        let has = |state: &usize| self.counts[*state] > 0 && laws.contains(&self.law_of[*state]);
        (0..self.counts.len()).filter(has).collect()
    }

    /// Returns the number of draws of each law with draws.
    pub(super) fn law_counts(&self) -> Vec<f64> {
        let mut counts = vec![0.0; self.sampled];
        for (state, &count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            counts[self.law_of[state]] += count as f64;
        }
        counts
    }

    /// Refuses laws that the draws do not connect in both directions. The equations then have no solution (Vardi 1985).
    fn check_connected(&self) -> Result<()> {
        let m = self.sampled;
        let mut reach = vec![false; m * m];
        for law in 0..m {
            for (draw, density) in self.column(law).iter().enumerate() {
                reach[self.own(draw) * m + law] |= *density > f64::NEG_INFINITY;
            }
        }
        for via in 0..m {
            for from in (0..m)
                .filter(|from| reach[from * m + via])
                .collect::<Vec<_>>()
            {
                (0..m).for_each(|to| reach[from * m + to] |= reach[via * m + to]);
            }
        }
        let (inside, outside): (Vec<_>, Vec<_>) = match (0..m).find(|from| {
            let row = &reach[from * m..(from + 1) * m];
            row.contains(&false)
        }) {
            Some(from) => (0..m).partition(|to| reach[from * m + to]),
            None => return Ok(()),
        };
        let [inside, outside] = [inside, outside].map(|laws| self.states_of(&laws));
        let value =
            format!("no draw of states {inside:?} with a density above 0 in states {outside:?}");
        Err(Error::invalid(
            MATRIX,
            value,
            "states that overlap, in both directions",
        ))
    }
}

/// Refuses a number of rows other than the number of draws, and says so if the matrix may be transposed.
pub(super) fn check_rows(
    argument: &'static str,
    draws: usize,
    rows: usize,
    columns: usize,
) -> Result<()> {
    let hint = match draws == columns {
        true => ": the matrix is transposed",
        false => "",
    };
    let value = format!("{draws} draws{hint}");
    Error::check(
        draws == rows,
        argument,
        value,
        format!("{rows}, the rows of the log densities"),
    )
}

/// Refuses NaN and `+inf`, and a draw without density under its own state.
fn check_values(densities: &DMatrix<f64>, labels: &[usize]) -> Result<()> {
    for state in 0..densities.ncols() {
        for (draw, &value) in densities.column(state).iter().enumerate() {
            let own = labels[draw] == state;
            let holds = value < f64::INFINITY && !(own && value == f64::NEG_INFINITY);
            if !holds {
                let expected = match own {
                    true => "finite numbers for a draw under its own state",
                    false => "numbers below +inf",
                };
                let value = format!("{value} at draw {draw}, state {state}");
                return Err(Error::invalid(MATRIX, value, expected));
            }
        }
    }
    Ok(())
}

/// Returns the law of each state, the first state of each law, and the number of laws with draws.
fn laws(densities: &DMatrix<f64>, counts: &[usize]) -> (Vec<usize>, Vec<usize>, usize) {
    let mut law_of = vec![0; counts.len()];
    let mut firsts: Vec<usize> = Vec::new();
    let mut sampled = 0;
    for with_draws in [true, false] {
        for state in (0..counts.len()).filter(|state| (counts[*state] > 0) == with_draws) {
            let equal = |first: &usize| densities.column(*first) == densities.column(state);
            law_of[state] = firsts.iter().position(equal).unwrap_or_else(|| {
                firsts.push(state);
                firsts.len() - 1
            });
        }
        if with_draws {
            sampled = firsts.len();
        }
    }
    (law_of, firsts, sampled)
}
