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

    pub(super) fn ends(&self) -> (f64, f64) {
        self.ends
    }

    /// Returns the share of a sample in each bin. Values that are not finite are in no bin.
    pub(super) fn shares(&self, sample: &[f64]) -> Vec<f64> {
        let (low, high) = self.ends;
        let mut shares = vec![0.0; self.count];
        for value in sample.iter().filter(|value| value.is_finite()) {
            let bin = (value - low) / (high - low) * self.count as f64;
            shares[(bin as usize).min(self.count - 1)] += 1.0 / sample.len() as f64;
        }
        shares
    }
}

/// Largest number of bins in a histogram.
const MOST: f64 = 150.0;

/// Returns the number of bins by the rule of Rice, or by the rule of Freedman and Diaconis if a few values lie far out.
fn count_of(sample: &[f64], range: f64) -> usize {
    let mut sorted: Vec<f64> = sample.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let root = (sorted.len() as f64).cbrt();
    let quartile = |part: usize| sorted.get(part * sorted.len() / 4).copied();
    let middle = quartile(3).zip(quartile(1)).map(|(high, low)| high - low);
    let by_middle = middle
        .filter(|middle| *middle > 0.0)
        .map(|middle| range * root / (2.0 * middle));
    let count = by_middle.unwrap_or(0.0).max(2.0 * root);
    count.ceil().clamp(1.0, MOST) as usize
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
