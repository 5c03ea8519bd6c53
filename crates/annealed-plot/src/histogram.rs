//! Histograms: bins that several samples share, and their outline.

/// Bins of equal width that cover all samples.
pub(super) struct Bins {
    ends: (f64, f64),
    count: usize,
}

impl Bins {
    /// Chooses bins for the finite values of `samples`.
    pub(super) fn of(samples: &[Vec<f64>]) -> Self {
        let values = samples.iter().flatten().filter(|value| value.is_finite());
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| {
            (low.min(value), high.max(value))
        });
        let fewest = samples.iter().map(|sample| count_of(sample, high - low));
        let count = fewest.max().unwrap_or(1);
        // Equal values would otherwise have bins of width 0.
        let least = 1e-9 * low.abs().max(1.0);
        let ends = (low, high.max(low + least));
        Self { ends, count }
    }

    /// Chooses bins as [`of`](Self::of), but not for a long tail of low values. A value is in the tail if it lies below the
    /// lower quartile of every sample by more than eight interquartile ranges.
    pub(super) fn without_tail(samples: &[Vec<f64>]) -> Self {
        let far = |sample: &Vec<f64>| {
            let (lower, upper) = quartiles(&ascending(sample))?;
            (upper > lower).then_some(lower - FAR * (upper - lower))
        };
        let least = samples
            .iter()
            .map(|sample| far(sample).unwrap_or(f64::NEG_INFINITY));
        let least = least.fold(f64::INFINITY, f64::min);
        let near = |sample: &Vec<f64>| sample.iter().copied().filter(|x| *x >= least).collect();
        Self::of(&Vec::from_iter(samples.iter().map(near)))
    }

    /// Returns the number of finite values below all bins.
    pub(super) fn below(&self, samples: &[Vec<f64>]) -> usize {
        let is_below = |value: &&f64| value.is_finite() && **value < self.ends.0;
        samples.iter().flatten().filter(is_below).count()
    }

    pub(super) fn ends(&self) -> (f64, f64) {
        self.ends
    }

    /// Returns the share of a sample in each bin. Values below all bins, and values that are not finite, are in no bin.
    pub(super) fn shares(&self, sample: &[f64]) -> Vec<f64> {
        let (low, high) = self.ends;
        let mut shares = vec![0.0; self.count];
        for value in sample.iter().filter(|x| x.is_finite() && **x >= low) {
            let bin = (value - low) / (high - low) * self.count as f64;
            shares[(bin as usize).min(self.count - 1)] += 1.0 / sample.len() as f64;
        }
        shares
    }
}

/// Distance of a tail from the lower quartile, in interquartile ranges.
const FAR: f64 = 8.0;
/// Largest number of bins in a histogram.
const MOST: f64 = 150.0;

/// Returns the number of bins by the rule of Rice, or by the rule of Freedman and Diaconis if a few values lie far out.
fn count_of(sample: &[f64], range: f64) -> usize {
    let sorted = ascending(sample);
    let root = (sorted.len() as f64).cbrt();
    let middle = quartiles(&sorted).map(|(low, high)| high - low);
    let by_middle = middle
        .filter(|middle| *middle > 0.0)
        .map(|middle| range * root / (2.0 * middle));
    let count = by_middle.unwrap_or(0.0).max(2.0 * root);
    count.ceil().clamp(1.0, MOST) as usize
}

/// Returns the finite values of a sample in ascending order.
fn ascending(sample: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = sample.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the lower and the upper quartile of ascending values.
fn quartiles(sorted: &[f64]) -> Option<(f64, f64)> {
    let quartile = |part: usize| sorted.get(part * sorted.len() / 4).copied();
    quartile(1).zip(quartile(3))
}

/// Returns the outline of a histogram, starting and ending at height 0.
pub(super) fn outline((low, high): (f64, f64), heights: &[f64]) -> Vec<(f64, f64)> {
    let width = (high - low) / heights.len() as f64;
    let edge = |bin: usize| low + width * bin as f64;
    let tops = heights.iter().enumerate();
    let tops = tops.flat_map(|(bin, &height)| [(edge(bin), height), (edge(bin + 1), height)]);
    let ends = |bin| std::iter::once((edge(bin), 0.0));
    ends(0).chain(tops).chain(ends(heights.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outline_of_a_histogram_is_closed() {
        let outline = outline((-1.0, 0.0), &[0.25, 0.75]);
        let left = [(-1.0, 0.0), (-1.0, 0.25), (-0.5, 0.25)];
        let right = [(-0.5, 0.75), (0.0, 0.75), (0.0, 0.0)];
        assert_eq!(outline, [left, right].concat());
    }

    #[test]
    fn a_tail_far_below_has_no_bins() {
        let bulk = (0..400).map(|i| f64::from(i % 20) / 20.0);
        let sample = Vec::from_iter(bulk.chain([-15.0, -3.0, 30.0, f64::NEG_INFINITY]));
        let samples = [sample];
        let bins = Bins::without_tail(&samples);
        assert_eq!((bins.ends(), bins.below(&samples)), ((-3.0, 30.0), 1));
        let all = Bins::of(&samples);
        assert_eq!((all.ends().0, all.below(&samples)), (-15.0, 0));
        assert!((bins.shares(&samples[0]).iter().sum::<f64>() - 402.0 / 404.0).abs() < 1e-12);
    }

    #[test]
    fn samples_share_their_bins() {
        let samples = [vec![0.0, 1.0, f64::NEG_INFINITY, 4.0], vec![8.0; 8]];
        let bins = Bins::of(&samples);
        assert_eq!((bins.ends(), bins.count), ((0.0, 8.0), 4));
        assert_eq!(bins.shares(&samples[0]), [0.5, 0.0, 0.25, 0.0]);
        assert_eq!(bins.shares(&samples[1]), [0.0, 0.0, 0.0, 1.0]);
        // A value far out does not push all others into one bin.
        let far: Vec<f64> = (0..64).map(|i| f64::from(i % 8)).chain([100.0]).collect();
        let bins = Bins::of(std::slice::from_ref(&far));
        let full = bins
            .shares(&far)
            .iter()
            .filter(|share| **share > 0.0)
            .count();
        assert!((4..=10).contains(&full), "{full} of {}", bins.count);
        // Equal values share one bin. A sample without finite values fills none.
        let bins = Bins::of(&[vec![3.0; 5]]);
        assert_eq!(bins.shares(&[3.0; 5]).iter().sum::<f64>(), 1.0);
        let none = Bins::of(&[vec![f64::NAN]]);
        assert_eq!(none.shares(&[f64::NAN]), [0.0]);
    }
}
