//! Latin squares: n rows that are permutations of n symbols, with no symbol twice in a column.

use annealed::kernel::{Decisions, Invariant};
use annealed::kernel::{NonFinite, Stage, Step};
use annealed::path::Intermediate;
use annealed::prelude::*;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

/// The logarithm of the number of Latin squares, by order (McKay and Wanless 2005).
#[rustfmt::skip]
pub const LOG_COUNTS: [(usize, f64); 8] = [
    (4, 6.356_107_660_695_9), (5, 11.990_897_263_865_1), (6, 20.516_058_624_930_6),
    (7, 31.749_723_599_030_7), (8, 46.135_822_694_149_1), (9, 63.879_035_779_160_4),
    (10, 85.193_890_662_613_8), (11, 110.271_726_852_299_2),
];

/// Rows that are permutations of 0 to n - 1, with the counts that an exchange needs.
#[derive(Debug, Clone)]
pub struct Rows {
    order: usize,
    /// Symbols, row after row.
    cells: Vec<u8>,
    /// The column of each symbol in each row, row after row.
    places: Vec<u8>,
    /// Number of times that each symbol is in each column, column after column.
    counts: Vec<u8>,
    /// Number of pairs of equal symbols in a column.
    violations: i32,
    /// A bit for each cell whose symbol is in its column more than once.
    conflicts: u128,
}

impl Rows {
    fn new(order: usize, cells: Vec<u8>) -> Self {
        let mut counts = vec![0; order * order];
        let mut places = vec![0; order * order];
        assert!(order * order <= 128, "at most order 11");
        let mut violations = 0;
        for (cell, &symbol) in cells.iter().enumerate() {
            let count = &mut counts[cell % order * order + usize::from(symbol)];
            violations += i32::from(*count);
            *count += 1;
            places[cell / order * order + usize::from(symbol)] = (cell % order) as u8;
        }
        let repeated = |cell: &usize| counts[cell % order * order + usize::from(cells[*cell])] > 1;
        let conflicts = (0..order * order).filter(repeated);
        Self {
            order,
            conflicts: conflicts.fold(0, |bits, cell| bits | 1 << cell),
            cells,
            places,
            counts,
            violations,
        }
    }

    /// Returns the number of times that `symbol` is in `column`.
    fn count(&self, column: usize, symbol: usize) -> i32 {
        i32::from(self.counts[column * self.order + symbol])
    }

    /// Returns the change of the violations if two cells of a row with different symbols are exchanged.
    fn cost(&self, row: usize, columns: (usize, usize)) -> i32 {
        let (a, b) = columns;
        let (x, y) = (self.symbol(row, a), self.symbol(row, b));
        self.count(a, y) + self.count(b, x) + 2 - self.count(a, x) - self.count(b, y)
    }

    fn symbol(&self, row: usize, column: usize) -> usize {
        usize::from(self.cells[row * self.order + column])
    }

    fn place(&self, row: usize, symbol: usize) -> usize {
        usize::from(self.places[row * self.order + symbol])
    }

    fn put(&mut self, row: usize, column: usize, symbol: usize) {
        self.cells[row * self.order + column] = symbol as u8;
        self.places[row * self.order + symbol] = column as u8;
    }

    fn exchange(&mut self, row: usize, columns: (usize, usize), cost: i32) {
        let (n, (a, b)) = (self.order, columns);
        let (x, y) = (self.symbol(row, a), self.symbol(row, b));
        self.put(row, a, y);
        self.put(row, b, x);
        for (column, from, to) in [(a, x, y), (b, y, x)] {
            self.counts[column * n + from] -= 1;
            self.counts[column * n + to] += 1;
            let moved = 1 << (row * n + column);
            match self.count(column, to) {
                1 => self.conflicts &= !moved,
                2 => self.conflicts |= self.cells_of(column, to),
                _ => self.conflicts |= moved,
            }
            if self.count(column, from) == 1 {
                self.conflicts &= !self.cells_of(column, from);
            }
        }
        self.violations += cost;
    }

    /// Returns a bit for each cell of `column` that contains `symbol`.
    fn cells_of(&self, column: usize, symbol: usize) -> u128 {
        let rows = (0..self.order).filter(|&row| self.place(row, symbol) == column);
        rows.fold(0, |bits, row| bits | 1 << (row * self.order + column))
    }

    fn in_conflict(&self) -> u32 {
        self.conflicts.count_ones()
    }

    /// Returns the change of the number of conflicts by an exchange, and whether its two cells then conflict.
    fn conflicts_after(&self, row: usize, (a, b): (usize, usize)) -> (i32, [bool; 2]) {
        let (x, y) = (self.symbol(row, a), self.symbol(row, b));
        let gained = |column, symbol| [0, 2, 1][self.count(column, symbol).min(2) as usize];
        let lost = |column, symbol| [0, 0, 2, 1][self.count(column, symbol).min(3) as usize];
        let change = gained(a, y) + gained(b, x) - lost(a, x) - lost(b, y);
        (change, [self.count(a, y) > 0, self.count(b, x) > 0])
    }
}

/// Independent rows, uniform over permutations.
#[derive(Debug, Clone, Copy)]
pub struct Permutations(pub usize);

impl UnnormalizedModel for Permutations {
    type State = Rows;

    fn log_density(&self, _: &Rows) -> f64 {
        0.0
    }
}

impl NormalizedModel for Permutations {
    fn log_normalizer(&self) -> f64 {
        let log_factorial: f64 = (1..=self.0).map(|k| (k as f64).ln()).sum();
        self.0 as f64 * log_factorial
    }
}

impl Sampleable for Permutations {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Rows {
        let n = self.0;
        let mut cells = Vec::with_capacity(n * n);
        for row in 0..n {
            cells.extend(0..n as u8);
            cells[row * n..].shuffle(rng);
        }
        Rows::new(n, cells)
    }
}

/// A path with a rising cost of violations: `f = exp(-penalty(beta) violations)`. The penalty is `hardest * beta`,
/// and infinite at beta = 1, where Z is the number of Latin squares.
#[derive(Debug, Clone, Copy)]
pub struct LatinPath {
    base: Permutations,
    hardest: f64,
}

impl LatinPath {
    pub fn new(order: usize, hardest: f64) -> Self {
        Self {
            base: Permutations(order),
            hardest,
        }
    }
}

impl AnnealingPath for LatinPath {
    type State = Rows;
    type Base = Permutations;
    type At = LatinAt;

    fn base(&self) -> &Permutations {
        &self.base
    }

    fn at(&self, beta: f64) -> LatinAt {
        let penalty = match beta < 1.0 {
            true => self.hardest * beta,
            false => f64::INFINITY,
        };
        LatinAt { beta, penalty }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct LatinAt {
    beta: f64,
    penalty: f64,
}

impl UnnormalizedModel for LatinAt {
    type State = Rows;

    fn log_density(&self, rows: &Rows) -> f64 {
        log_weight(self.penalty, rows.violations)
    }
}

impl Intermediate for LatinAt {
    fn beta(&self) -> f64 {
        self.beta
    }

    fn log_ratio(&self, previous: &Self, rows: &Rows) -> f64 {
        match self.beta == previous.beta {
            true => 0.0,
            false => log_weight(self.penalty - previous.penalty, rows.violations),
        }
    }
}

/// Returns `-penalty * violations`, and 0 without violations at any penalty.
fn log_weight(penalty: f64, violations: i32) -> f64 {
    match violations {
        0 => 0.0,
        _ => -penalty * f64::from(violations),
    }
}

/// A kernel of `proposals` exchanges of two cells of a row, by Metropolis-Hastings. In a share `targeted` of the
/// proposals the first cell is in conflict; other proposals mostly make a hard model worse.
#[derive(Debug, Clone, Copy)]
pub struct Exchanges {
    pub proposals: usize,
    pub targeted: f64,
}

impl Exchanges {
    /// Proposes to exchange two cells of a row, and returns the probability of acceptance.
    fn exchange<R: Rng + ?Sized>(&self, penalty: f64, rows: &mut Rows, rng: &mut R) -> f64 {
        let n = rows.order;
        let conflicts = rows.in_conflict();
        let first = match conflicts > 0 && rng.random::<f64>() < self.targeted {
            true => nth_bit(rows.conflicts, rng.random_range(0..conflicts)),
            false => rng.random_range(0..n * n),
        };
        let (row, a) = (first / n, first % n);
        let b = (a + rng.random_range(1..n)) % n;
        let cost = rows.cost(row, (a, b));
        let (change, after) = rows.conflicts_after(row, (a, b));
        let before = [a, b].map(|column| rows.conflicts >> (row * n + column) & 1 == 1);
        let back = self.chance(n, conflicts.wrapping_add_signed(change), after);
        let ratio = back / self.chance(n, conflicts, before);
        let acceptance = (ratio * log_weight(penalty, cost).exp()).min(1.0);
        if rng.random::<f64>() < acceptance {
            rows.exchange(row, (a, b), cost);
        }
        acceptance
    }

    /// Returns the probability, up to a constant, that one of two cells is proposed first, given the number of
    /// conflicts and whether each of the two is in conflict.
    fn chance(&self, order: usize, conflicts: u32, of_two: [bool; 2]) -> f64 {
        let any = 2.0 / (order * order) as f64;
        let of_two = of_two.into_iter().filter(|&conflict| conflict).count();
        match conflicts {
            0 => any,
            _ => (1.0 - self.targeted) * any + self.targeted * of_two as f64 / f64::from(conflicts),
        }
    }
}

/// Returns the place of the `n`-th set bit, counted from 0.
fn nth_bit(mut bits: u128, n: u32) -> usize {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros() as usize
}

impl TransitionKernel<LatinAt> for Exchanges {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, LatinAt>,
        rows: &mut Rows,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let penalty = stage.model.penalty;
        let accepted = (0..self.proposals).map(|_| self.exchange(penalty, rows, rng));
        let decisions = Decisions {
            proposals: self.proposals as u64,
            accepted: accepted.sum(),
            undecided: 0,
        };
        Ok(Step {
            decisions,
            ..Step::invariant()
        })
    }

    fn evaluations(&self, _dimension: usize) -> usize {
        self.proposals
    }
}

impl Invariant<LatinAt> for Exchanges {}
