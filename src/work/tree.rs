//! A fixed binary tree over blocks, so that sums of floats do not depend on which thread computed them.
//!
//! Node `(level, index)` covers the blocks `index 2^level .. (index + 1) 2^level` and merges its two children, left
//! then right. A range of blocks is a list of maximal nodes. The lists of neighbouring ranges join into the list of
//! their union, however the blocks were divided.

use std::ops::Range;

/// An accumulator that can be merged with the accumulator of the chains to its right.
pub trait Merge {
    /// Adds the content of `right` to this accumulator.
    fn merge(&mut self, right: Self);
}

/// A node of the tree with the merged value of its blocks.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Node<T> {
    level: u32,
    index: usize,
    pub(crate) value: T,
}

/// The maximal nodes of a range of blocks, from left to right.
pub(crate) type Forest<T> = Vec<Node<T>>;

impl<T> Node<T> {
    pub(crate) fn leaf(block: usize, value: T) -> Self {
        Self {
            level: 0,
            index: block,
            value,
        }
    }

    /// Creates the node that covers `blocks`; `None` if no node of the tree does.
    #[cfg(feature = "checkpoint")]
    pub(super) fn of(blocks: &Range<usize>, value: T) -> Option<Self> {
        let level = blocks.len().checked_ilog2()?;
        let index = blocks.start >> level;
        let node = Self {
            level,
            index,
            value,
        };
        (node.blocks() == *blocks).then_some(node)
    }

    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Node<U> {
        let (level, index, value) = (self.level, self.index, f(self.value));
        Node {
            level,
            index,
            value,
        }
    }

    /// Returns whether the node lies within the first `blocks` blocks.
    pub(crate) fn is_within(&self, blocks: usize) -> bool {
        // The level of a damaged file may be too large for a shift.
        self.level < usize::BITS && self.index < blocks >> self.level
    }

    pub(crate) fn blocks(&self) -> Range<usize> {
        self.index << self.level..(self.index + 1) << self.level
    }

    fn is_left_sibling_of(&self, right: &Self) -> bool {
        self.level == right.level && self.index.is_multiple_of(2) && self.index + 1 == right.index
    }
}

/// Joins siblings until no siblings are left. The nodes must be sorted from left to right.
pub(crate) fn coalesce<T: Merge>(nodes: Forest<T>) -> Forest<T> {
    let mut joined = Forest::new();
    for mut node in nodes {
        while let Some(mut left) = joined.pop_if(|left| left.is_left_sibling_of(&node)) {
            left.value.merge(node.value);
            left.level += 1;
            left.index /= 2;
            node = left;
        }
        joined.push(node);
    }
    joined
}

/// Merges all nodes from left to right; `None` if there are none.
pub(crate) fn fold<T: Merge>(nodes: Forest<T>) -> Option<T> {
    let values = nodes.into_iter().map(|node| node.value);
    values.reduce(|mut left, right| {
        left.merge(right);
        left
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records the order of merges, on which a sum of floats depends.
    #[derive(Debug, Clone, PartialEq)]
    struct Shape(String);

    impl Merge for Shape {
        fn merge(&mut self, right: Self) {
            self.0 = format!("({} {})", self.0, right.0);
        }
    }

    fn nodes(blocks: Range<usize>) -> Forest<Shape> {
        let leaf = |block: usize| Node::leaf(block, Shape(block.to_string()));
        coalesce(blocks.map(leaf).collect())
    }

    #[test]
    fn every_split_of_a_range_gives_the_same_tree() {
        for blocks in 1..20 {
            let whole = fold(nodes(0..blocks)).unwrap();
            for a in 0..=blocks {
                for b in a..=blocks {
                    let parts = [nodes(0..a), nodes(a..b), nodes(b..blocks)].concat();
                    assert_eq!(
                        fold(coalesce(parts)).unwrap(),
                        whole,
                        "{blocks} at {a}, {b}"
                    );
                }
            }
        }
    }

    #[cfg(feature = "checkpoint")]
    #[test]
    fn only_blocks_of_a_node_make_a_node() {
        for start in 0..20_usize {
            for end in start..20 {
                let length = end - start;
                let is_node = length.is_power_of_two() && start.is_multiple_of(length);
                let blocks = Node::of(&(start..end), ()).map(|node| node.blocks());
                assert_eq!(blocks, is_node.then_some(start..end));
            }
        }
    }

    #[test]
    fn siblings_are_merged_before_strangers() {
        assert_eq!(fold(nodes(0..5)).unwrap().0, "(((0 1) (2 3)) 4)");
    }
}
