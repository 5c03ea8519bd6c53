//! Latin squares: n rows that are permutations of n symbols, with no symbol twice in a column.

use annealed::chain::Decisions;
use annealed::kernel::Invariant;
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

/// Rows that are permutations of 0 to n - 1, with what a swap must know.
#[derive(Debug, Clone)]
pub struct Rows {
    order: usize,
    /// Row after row.
    cells: Vec<u8>,
    /// The column of each symbol in each row, row after row.
    places: Vec<u8>,
    /// How often each symbol stands in each column, column after column.
    counts: Vec<u8>,
    /// Number of pairs of equal symbols in a column.
    violations: i32,
}

impl Rows {
    fn new(order: usize, cells: Vec<u8>) -> Self {
        let mut counts = vec![0; order * order];
        let mut places = vec![0; order * order];
        let mut violations = 0;
        for (cell, &symbol) in cells.iter().enumerate() {
            let count = &mut counts[cell % order * order + usize::from(symbol)];
            violations += i32::from(*count);
            *count += 1;
            places[cell / order * order + usize::from(symbol)] = (cell % order) as u8;
        }
        Self {
            order,
            cells,
            places,
            counts,
            violations,
        }
    }

    /// What the exchange of two cells of a row adds to the violations. Their symbols differ.
    fn cost(&self, row: usize, columns: (usize, usize)) -> i32 {
        let (n, (a, b)) = (self.order, columns);
        let (x, y) = (self.symbol(row, a), self.symbol(row, b));
        let count = |column: usize, symbol: usize| i32::from(self.counts[column * n + symbol]);
        count(a, y) + count(b, x) + 2 - count(a, x) - count(b, y)
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
        for (column, from, to) in [(a, x, y), (b, y, x)] {
            self.counts[column * n + from] -= 1;
            self.counts[column * n + to] += 1;
        }
        self.put(row, a, y);
        self.put(row, b, x);
        self.violations += cost;
    }

    /// Exchanges two rows in the columns that must go along with this one for both to stay permutations.
    /// Columns keep their symbols, so that the violations stay the same. A second time undoes it.
    fn switch_rows(&mut self, rows: (usize, usize), first: usize) {
        let mut column = first;
        loop {
            let (x, y) = (self.symbol(rows.0, column), self.symbol(rows.1, column));
            let next = self.place(rows.0, y);
            self.put(rows.0, column, y);
            self.put(rows.1, column, x);
            column = next;
            if column == first {
                return;
            }
        }
    }

    /// Exchanges two symbols in this row and in all rows that share a column of either with one that is
    /// exchanged. Each column has then exchanged both or none, so that the violations stay the same. A
    /// second time undoes it.
    fn switch_symbols(&mut self, symbols: (usize, usize), first: usize) {
        let columns_of = |rows: &Self, row: usize| {
            1_u32 << rows.place(row, symbols.0) | 1 << rows.place(row, symbols.1)
        };
        let mut columns = columns_of(self, first);
        let mut left = (1_u32 << self.order) - 1;
        loop {
            let before = left;
            for row in 0..self.order {
                if left >> row & 1 == 1 && columns_of(self, row) & columns != 0 {
                    columns |= columns_of(self, row);
                    left &= !(1 << row);
                    let places = (self.place(row, symbols.0), self.place(row, symbols.1));
                    self.exchange(row, places, 0);
                }
            }
            if left == before {
                return;
            }
        }
    }
}

/// Independent rows, all permutations alike.
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

/// Rows whose violations cost more and more: `f = exp(-penalty(beta) violations)`. The penalty is
/// `hardest * beta`, and infinite at beta = 1, where Z is the number of Latin squares.
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
    type At<'a> = LatinAt;

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

/// `-penalty * violations`, where none cost nothing.
fn log_weight(penalty: f64, violations: i32) -> f64 {
    match violations {
        0 => 0.0,
        _ => -penalty * f64::from(violations),
    }
}

/// So many proposals a step. Half of them exchange two cells of a row, by Metropolis. The others exchange
/// parts of two rows, or two symbols in some rows, at no change of violations.
#[derive(Debug, Clone, Copy)]
pub struct Exchanges(pub usize);

impl TransitionKernel<LatinAt> for Exchanges {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, LatinAt>,
        _chain: usize,
        rows: &mut Rows,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let n = rows.order as u32;
        let mut decisions = Decisions::default();
        for _ in 0..self.0 {
            let one = rng.random_range(0..n) as usize;
            let a = rng.random_range(0..n);
            let b = (a + rng.random_range(1..n)) % n;
            let pair = (a as usize, b as usize);
            match rng.random_range(0..4) {
                0 => rows.switch_rows(pair, one),
                1 => rows.switch_symbols(pair, one),
                _ => {
                    let cost = rows.cost(one, pair);
                    let acceptance = log_weight(stage.model.penalty, cost.max(0)).exp();
                    if rng.random::<f64>() < acceptance {
                        rows.exchange(one, pair, cost);
                    }
                    decisions.proposals += 1;
                    decisions.accepted += acceptance;
                    continue;
                }
            }
            decisions.undecided += 1;
        }
        Ok(Step {
            decisions,
            ..Step::invariant()
        })
    }

    fn evaluations(&self) -> usize {
        self.0
    }
}

impl Invariant<LatinAt> for Exchanges {}
