//! Overlap of states, and the cuts between groups of states that hardly overlap.

use super::data::Data;
use super::mixture::Mixture;
use super::solve::{Weights, spanning_tree};
use crate::Result;
use crate::estimate::bennett::{FEW, LITTLE, Side};
use crate::estimate::{BennettEstimate, Warning, log_sum_exp};

/// Overlap of two groups below which the equations do not resolve their difference; Bennett's equation in log space
/// then gives it.
const UNRESOLVED: f64 = 1e-6;

/// Two laws that are neighbours in the tree of the largest overlaps.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    /// Laws on the side of the first one, and all others.
    pub(super) groups: [Vec<usize>; 2],
    /// Overlap of the two laws at equal weights, 0 to 1.
    pub(super) overlap: f64,
    /// Effective number of the acceptances in Bennett's ratio of the two laws, in the worse direction.
    pub(super) ess: f64,
    /// Degrees of freedom of the difference of the two laws.
    pub(super) freedom: f64,
}

/// Two groups that hardly overlap.
#[derive(Debug, Clone)]
pub(super) struct Gap {
    pub(super) groups: [Vec<usize>; 2],
    /// Overlap of the groups, or of their closest laws if that is larger.
    pub(super) overlap: f64,
    /// Bennett's estimate of log Z of the second group less log Z of the first, beyond the solution.
    pub(super) bennett: BennettEstimate,
}

impl Gap {
    pub(super) fn warning(&self, data: &Data) -> Warning {
        Warning::LittleOverlap {
            overlap: self.overlap,
            ess: self.bennett.effective_sample_size(),
            groups: Some(self.groups.each_ref().map(|laws| data.states_of(laws))),
        }
    }
}

/// Sums over the draws of each law, for its pair with each other law.
#[derive(Debug, Clone)]
pub(super) struct Pairs {
    laws: usize,
    counts: Vec<f64>,
    /// For law k, law l and three figures: sum of `f_l / (f_k + f_l)` at normalised densities, sum of Bennett's
    /// acceptances `p_l / (p_k + p_l)`, and sum of their squares.
    sums: Vec<f64>,
}

impl Pairs {
    pub(super) fn of(data: &Data, weights: &Weights, log_z: &[f64]) -> Self {
        let (m, log_shares) = (data.sampled, weights.log_shares(log_z));
        let mixture = Mixture {
            data,
            log_shares: &log_shares,
        };
        let shares = &weights.of_law;
        let sums = mixture.sum(3 * m * m, &|chunk, sums| {
            for (at, draw) in chunk.draws.clone().enumerate() {
                let own = data.own(draw);
                let mine = chunk.of_law(own)[at];
                for other in 0..m {
                    let theirs = chunk.of_law(other)[at];
                    let equal = part(theirs * shares[own], mine * shares[other]);
                    let accepted = part(theirs, mine);
                    let slots = sums[3 * (own * m + other)..].iter_mut();
                    let found = [equal, accepted, accepted * accepted];
                    slots.zip(found).for_each(|(sum, found)| *sum += found);
                }
            }
        });
        let (laws, counts) = (m, data.law_counts());
        Self { laws, counts, sums }
    }

    fn figures(&self, law: usize, other: usize) -> [f64; 3] {
        let at = 3 * (law * self.laws + other);
        [0, 1, 2].map(|figure| self.sums[at + figure])
    }

    /// Returns the overlap `int 2 f g / (f + g)` of the normalised densities f and g of two laws.
    fn overlap(&self, law: usize, other: usize) -> f64 {
        let half = |of, with| self.figures(of, with)[0] / self.counts[of];
        (half(law, other) + half(other, law)).min(1.0)
    }

    /// Returns the other law whose acceptance varies most at the draws of `law`.
    pub(super) fn most_varied(&self, law: usize) -> usize {
        let variance = |other: &usize| {
            let [_, sum, squares] = self.figures(law, *other);
            squares - sum * sum / self.counts[law]
        };
        let others = (0..self.laws).filter(|other| *other != law);
        let found = others.max_by(|one, other| variance(one).total_cmp(&variance(other)));
        found.unwrap_or(law)
    }

    /// Returns the tree of the largest overlaps. `times` are the numbers of draws of each law worth an independent one.
    pub(super) fn tree(&self, times: &[f64]) -> Vec<Edge> {
        let edges = spanning_tree(self.laws, |law, other| self.overlap(law, other));
        let edge = |at: usize| {
            let (from, to) = edges[at];
            let sides = [(from, to), (to, from)].map(|(of, with)| {
                let [_, sum, squares] = self.figures(of, with);
                let ess = if squares > 0.0 {
                    sum * sum / squares
                } else {
                    0.0
                };
                let mut side = Side::new(self.counts[of], ess);
                side.count_as(times[of]);
                (side, ess / times[of])
            });
            let [(one, ess), (other, its)] = sides;
            let freedom = Side::degrees_of_freedom(&one, &other);
            Edge {
                groups: split(self.laws, &edges, at),
                overlap: self.overlap(from, to),
                ess: ess.min(its),
                // Without acceptances their relative variance is not a number.
                freedom: if freedom.is_nan() { 1.0 } else { freedom },
            }
        };
        (0..edges.len()).map(edge).collect()
    }
}

/// Returns `x / (x + y)`, and 0 if both are 0.
fn part(x: f64, y: f64) -> f64 {
    if x > 0.0 { x / (x + y) } else { 0.0 }
}

/// Returns the nodes on both sides of an edge of a tree.
fn split(nodes: usize, edges: &[(usize, usize)], at: usize) -> [Vec<usize>; 2] {
    let mut second = vec![false; nodes];
    second[edges[at].1] = true;
    // Each edge joins a new node to an older one.
    for (from, to) in &edges[at + 1..] {
        second[*to] = second[*from];
    }
    let (second, first) = (0..nodes).partition(|node| second[*node]);
    [first, second]
}

/// Returns the gaps among the edges of the tree, and moves `log_z` by Bennett's estimate across those that the
/// equations do not resolve.
pub(super) fn gaps(data: &Data, tree: &mut [Edge], log_z: &mut [f64]) -> Result<Vec<Gap>> {
    let mut gaps = Vec::new();
    let is_weak = |edge: &&mut Edge| edge.overlap < LITTLE || edge.ess < FEW;
    for edge in tree.iter_mut().filter(is_weak) {
        let mut bennett = between(data, &edge.groups, log_z)?;
        let overlap = bennett.overlap().max(edge.overlap);
        edge.freedom = bennett.degrees_of_freedom();
        if overlap < UNRESOLVED {
            let shift = bennett.value();
            edge.groups[1].iter().for_each(|&law| log_z[law] += shift);
            bennett = bennett.shifted(-shift);
        }
        if overlap < LITTLE || bennett.effective_sample_size() < FEW {
            gaps.push(Gap {
                groups: edge.groups.clone(),
                overlap,
                bennett,
            });
        }
    }
    Ok(gaps)
}

/// Returns Bennett's estimate between the mixtures of the draws of two groups.
fn between(data: &Data, groups: &[Vec<usize>; 2], log_z: &[f64]) -> Result<BennettEstimate> {
    let counts = data.law_counts();
    let total = |group: &Vec<usize>| group.iter().map(|law| counts[*law]).sum::<f64>();
    let totals = groups.each_ref().map(total);
    let density = |side: usize, draw: usize| {
        let law =
            |&law: &usize| (counts[law] / totals[side]).ln() - log_z[law] + data.column(law)[draw];
        log_sum_exp(groups[side].iter().map(law))
    };
    let mut ratios = [Vec::new(), Vec::new()];
    for draw in 0..data.draws() {
        let side = usize::from(groups[1].contains(&data.own(draw)));
        ratios[side].push(density(1 - side, draw) - density(side, draw));
    }
    BennettEstimate::of_independent(&ratios[0], &ratios[1])
}
