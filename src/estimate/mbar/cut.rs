//! Cuts between groups of states, and Bennett's estimates across them.

use nalgebra::DMatrix;

use super::data::Data;
use crate::estimate::advice::LITTLE;
use crate::estimate::bennett::FEW_ACCEPTANCES;
use crate::estimate::{BennettEstimate, Warning, log_sum_exp};
use crate::{Error, Result};

/// Overlap of two groups below which the equations do not resolve their difference; Bennett's equation in log space
/// then gives it.
const UNRESOLVED: f64 = 1e-6;
/// Accuracy of Bennett's estimates: of starts of the equations, and across cuts, where errors are far larger.
const ACCURACY: f64 = 1e-9;

/// Difference of the shares of two states' weights beyond a gap, below which the gap does not concern their difference.
const ALIKE: f64 = 0.03;

/// Likeness or overlap of two states above which they count as equal.
pub(super) const EQUAL: f64 = 1.0 - 1e-9;

/// A division of the states with draws into two groups, at an edge of the tree of the largest overlaps.
#[derive(Debug, Clone)]
pub(super) struct Cut {
    groups: [Vec<usize>; 2],
    /// Overlap of the two states of the edge, or of the groups if it is larger, at equal weights.
    overlap: f64,
    /// Bennett's estimate of log Z of the second group less log Z of the first, beyond the solution. If the two states of
    /// the edge overlap well, it is from their draws alone.
    pub(super) bennett: BennettEstimate,
}

impl Cut {
    /// Returns whether the groups hardly overlap. Few draws of equal densities are no gap.
    pub(super) fn is_gap(&self) -> bool {
        self.meets_little() && self.overlap < EQUAL
    }

    fn meets_little(&self) -> bool {
        self.overlap < LITTLE || self.bennett.effective_sample_size() < FEW_ACCEPTANCES
    }

    pub(super) fn warning(&self) -> Warning {
        Warning::LittleOverlap {
            overlap: self.overlap,
            ess: self.bennett.effective_sample_size(),
            groups: Some(self.groups.clone()),
        }
    }

    /// Returns 1 if log Z of the first state less log Z of the second one grows with the gap, -1 if it falls, 0 if both
    /// lie alike. `overlap` has the shares of the weight of each state (row) in each state with draws (column). A state
    /// without draws may lie on both sides.
    pub(super) fn sign(&self, states: [usize; 2], overlap: &DMatrix<f64>) -> f64 {
        let [first, second] = &self.groups;
        let part_in_second = |state| match (first.contains(&state), second.contains(&state)) {
            (true, _) => 0.0,
            (_, true) => 1.0,
            _ => second.iter().map(|own| overlap[(state, *own)]).sum(),
        };
        let [one, other] = states.map(part_in_second);
        let apart: f64 = one - other;
        if apart.abs() < ALIKE {
            0.0
        } else {
            apart.signum()
        }
    }
}

/// Returns how alike two states are: `sum_n w_n p_k p_l` over the root of the two sums of squares. It is 1 for equal
/// states.
pub(super) fn likeness(products: &DMatrix<f64>, one: usize, other: usize) -> f64 {
    products[(one, other)] / (products[(one, one)] * products[(other, other)]).sqrt()
}

/// Returns the cuts, and moves `log_z` by Bennett's estimate across those that the equations do not resolve. `times`
/// are the autocorrelation times of the states.
pub(super) fn cuts(
    data: &Data,
    products: &DMatrix<f64>,
    times: &[f64],
    log_z: &mut [f64],
) -> Result<Vec<Cut>> {
    let edges = spanning_tree(&data.drawn, |one, other| likeness(products, one, other));
    let mut cuts = Vec::new();
    for (at, &(from, to)) in edges.iter().enumerate() {
        let groups = split(&data.drawn, &edges, at);
        let whole = |log_z: &[f64]| between(data, [&groups[0], &groups[1]], times, log_z);
        let refusal = |_| {
            let value = format!("none of states {:?} and {:?}", groups[0], groups[1]);
            let expected = "densities above 0 in both directions";
            Error::invalid("draws that connect states", value, expected)
        };
        // It fails if the draws of one state have no density under the other.
        let pair = between(data, [&[from], &[to]], times, log_z);
        let bennett = pair.or_else(|_| whole(log_z)).map_err(refusal)?;
        let mut cut = Cut {
            groups: groups.clone(),
            overlap: bennett.overlap(),
            bennett,
        };
        if cut.meets_little() {
            cut.bennett = whole(log_z)?;
            cut.overlap = cut.overlap.max(cut.bennett.overlap());
        }
        if cut.overlap < UNRESOLVED {
            let shift = cut.bennett.value();
            groups[1].iter().for_each(|state| log_z[*state] += shift);
            cut.bennett = cut.bennett.shifted(-shift);
        }
        cuts.push(cut);
    }
    Ok(cuts)
}

/// Returns a first estimate of log Z of each state with draws, by Bennett's estimates along a tree of close states.
pub(super) fn first_estimate(data: &Data) -> Vec<f64> {
    let states = data.counts.len();
    // The distance of two states is the sum of their relative entropies. A density of 0 counts as far.
    let mut works = DMatrix::<f64>::zeros(states, states);
    for (draw, &own) in data.labels.iter().enumerate() {
        for &to in &data.drawn {
            let work: f64 = data.column(own)[draw] - data.column(to)[draw];
            works[(own, to)] += work.min(1e9) / data.counts[own] as f64;
        }
    }
    let (mut log_z, ones) = (vec![0.0; states], vec![1.0; states]);
    for (from, to) in spanning_tree(&data.drawn, |i, j| -works[(i, j)] - works[(j, i)]) {
        let found = between(data, [&[from], &[to]], &ones, &log_z);
        let middle = log_z[from] + 0.5 * (works[(to, from)] - works[(from, to)]);
        log_z[to] = found.map_or(middle, |found| found.value());
    }
    log_z
}

/// Returns the edges of the tree with the largest weights that spans all nodes, from the first one on. Each edge joins a
/// node of the tree to a new one (Prim 1957).
fn spanning_tree(nodes: &[usize], weight: impl Fn(usize, usize) -> f64) -> Vec<(usize, usize)> {
    let (mut inside, mut edges) = (vec![nodes[0]], Vec::new());
    let weight = |edge: &(usize, usize)| weight(edge.0, edge.1);
    for _ in 1..nodes.len() {
        let outside = nodes.iter().filter(|node| !inside.contains(node));
        let pairs = outside.flat_map(|to| inside.iter().map(move |from| (*from, *to)));
        edges.extend(pairs.max_by(|one, other| weight(one).total_cmp(&weight(other))));
        inside.extend(edges.last().map(|(_, to)| *to));
    }
    edges
}

/// Returns the nodes on both sides of an edge of a tree.
fn split(nodes: &[usize], edges: &[(usize, usize)], at: usize) -> [Vec<usize>; 2] {
    let mut second = vec![edges[at].1];
    // Each edge joins a new node to an older one.
    for (from, to) in &edges[at + 1..] {
        second.extend(second.contains(from).then_some(*to));
    }
    let (second, first) = nodes.iter().partition(|node| second.contains(node));
    [first, second]
}

/// Returns Bennett's estimate between the mixtures of the draws of two groups.
fn between(data: &Data, sides: [&[usize]; 2], times: &[f64], c: &[f64]) -> Result<BennettEstimate> {
    let density = |group: &[usize], draw: usize| {
        let count = |state: &usize| data.counts[*state] as f64;
        let term = |state: &usize| count(state).ln() - c[*state] + data.column(*state)[draw];
        log_sum_exp(group.iter().map(term)) - group.iter().map(count).sum::<f64>().ln()
    };
    let mut ratios = [Vec::new(), Vec::new()];
    for (draw, state) in data.labels.iter().enumerate() {
        if let Some(side) = sides.iter().position(|group| group.contains(state)) {
            ratios[side].push(density(sides[1 - side], draw) - density(sides[side], draw));
        }
    }
    let time = |group: &[usize]| group.iter().map(|state| times[*state]).fold(1.0, f64::max);
    let found = BennettEstimate::to_accuracy(&ratios[0], &ratios[1], ACCURACY)?;
    Ok(found.counted(sides.map(time)))
}
