//! Axes: their ranges and ticks.

use annealed::{Error, Result};

/// The largest value on an axis. Differences between larger values may overflow.
const FARTHEST: f64 = 1e300;
/// The shortest span, divided by the larger of its ends. On a shorter span rounding moves the ticks.
const SHORTEST: f64 = 1e-9;
/// The shortest absolute span. A shorter span counts as empty.
const LEAST: f64 = 1e-290;
/// The smallest value on a logarithmic axis.
const SMALLEST: f64 = 1e-280;

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) logarithmic: bool,
    pub(super) range: Option<(f64, f64)>,
}

impl Axis {
    pub(super) fn new(label: &str) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    /// Returns true if a value has a place on the axis or beyond its ends.
    pub(super) fn has(&self, value: f64) -> bool {
        value.abs() <= FARTHEST && (!self.logarithmic || value >= SMALLEST)
    }

    /// Returns the scale that shows `values`.
    ///
    /// # Errors
    /// A given range that is empty or not on the axis; without a given range, no value on the axis.
    pub(super) fn scale(&self, values: impl Iterator<Item = f64>) -> Result<Scale> {
        let logarithmic = self.logarithmic;
        let coordinate = |value: f64| coordinate(value, logarithmic);
        let (low, high) = match self.range {
            Some((low, high)) => {
                let found = format!("{low:?} to {high:?}");
                let right = self.has(low) && self.has(high);
                let (low, high) = (coordinate(low), coordinate(high));
                let wide = high - low > (SHORTEST * low.abs().max(high.abs())).max(LEAST);
                let expected = "a range on the axis, its lower end first";
                if !(right && wide) {
                    return Err(Error::invalid("range", found, expected));
                }
                (low, high)
            }
            None => {
                let drawable = values.filter(|&value| self.has(value));
                let (low, high) = spanned(drawable.map(coordinate)).ok_or_else(|| {
                    Error::invalid("lines", "nothing to draw", "a point on both axes")
                })?;
                // At least one decade, so that noise does not fill a logarithmic axis.
                let short = match logarithmic {
                    true => (1.0 - (high - low)).max(0.0),
                    false => 0.0,
                };
                (low - 0.5 * short, high + 0.5 * short)
            }
        };
        Ok(Scale {
            low,
            high,
            logarithmic,
        })
    }
}

fn coordinate(value: f64, logarithmic: bool) -> f64 {
    match logarithmic {
        true => value.log10(),
        false => value,
    }
}

/// Returns the smallest and the largest value with a margin. The two differ even if all values agree.
fn spanned(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    if low > high {
        return None;
    }
    let largest = low.abs().max(high.abs());
    let margin = match high - low > (SHORTEST * largest).max(LEAST) {
        true => 0.03 * (high - low),
        false => 0.5 * largest.max(1.0),
    };
    Some((low - margin, high + margin))
}

/// The visible interval of an axis, in coordinates (values or their logarithms to base 10).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// Returns the place of a value: 0 at the lower end, 1 at the upper end. It is clamped, for SVG viewers.
    pub(super) fn at(&self, value: f64) -> f64 {
        let coordinate = coordinate(value, self.logarithmic);
        ((coordinate - self.low) / (self.high - self.low)).clamp(-1e3, 1e3)
    }

    pub(super) fn ticks(&self, about: f64) -> Ticks {
        match self.logarithmic {
            true => self.logarithmic_ticks(about),
            false => Ticks::even(self.low, self.high, about),
        }
    }

    fn logarithmic_ticks(&self, about: f64) -> Ticks {
        let (first, last) = (self.low.ceil(), self.high.floor());
        let within = |digits: &[u8], stride: f64| -> Vec<(u8, i32)> {
            let decades = (0..).map(|i| first - 1.0 + stride * f64::from(i));
            let decades = decades.take_while(|&decade| decade <= last);
            decades
                .flat_map(|decade| digits.iter().map(move |&digit| (digit, decade as i32)))
                .filter(|&(digit, decade)| {
                    let place = f64::from(decade) + f64::from(digit).log10();
                    (self.low..=self.high).contains(&place)
                })
                .collect()
        };
        let stride = ((last - first + 1.0) / about).ceil().max(1.0);
        let all = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let minor = match stride {
            1.0 => within(&all, 1.0),
            _ => Vec::new(),
        };
        let candidates = [
            within(&[1], stride),
            within(&[1], 1.0),
            within(&[1, 2, 5], 1.0),
            within(&all, 1.0),
        ];
        let Some(chosen) = candidates.into_iter().find(|ticks| ticks.len() >= 3) else {
            return Ticks::even(10_f64.powf(self.low), 10_f64.powf(self.high), about);
        };
        let plain = chosen.iter().all(|&(_, decade)| (-3..=5).contains(&decade));
        let labelled = chosen
            .into_iter()
            .map(|tick| (value(tick), label(tick, plain)));
        Ticks {
            labelled: labelled.collect(),
            minor: minor.into_iter().map(value).collect(),
            factor: None,
        }
    }
}

fn value((digit, decade): (u8, i32)) -> f64 {
    f64::from(digit) * 10_f64.powi(decade)
}

/// Writes `digit` times 10 to the power `decade`, as a plain number or with a power of ten.
fn label((digit, decade): (u8, i32), plain: bool) -> String {
    match (plain, digit) {
        (true, _) => {
            let decimals = decade.min(0).unsigned_abs() as usize;
            format!("{:.decimals$}", value((digit, decade)))
        }
        (false, 1) => power_of_ten(decade),
        (false, _) => format!("{digit}·{}", power_of_ten(decade)),
    }
}

/// The ticks of an axis, all with the same kind of label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ticks {
    pub(super) labelled: Vec<(f64, String)>,
    /// Values of the small ticks between labels.
    pub(super) minor: Vec<f64>,
    /// The power of ten by which all labels are multiplied, written at the end of the axis.
    pub(super) factor: Option<String>,
}

impl Ticks {
    /// Creates ticks at even distances of 1, 2 or 5 times a power of ten.
    fn even(low: f64, high: f64, about: f64) -> Self {
        let raw = (high - low) / about;
        let exponent = raw.log10().floor() as i32;
        let (digit, exponent) = match raw / 10_f64.powi(exponent) {
            ratio if ratio <= 1.0 => (1.0, exponent),
            ratio if ratio <= 2.0 => (2.0, exponent),
            ratio if ratio <= 5.0 => (5.0, exponent),
            _ => (1.0, exponent + 1),
        };
        let step = digit * 10_f64.powi(exponent);
        let largest = low.abs().max(high.abs()).log10().floor() as i32;
        let unit = match largest {
            -3..=5 => 0,
            _ => largest,
        };
        let decimals = (unit - exponent).max(0) as usize;
        // The tolerance keeps a tick at an end on the axis if rounding moved that end.
        let (first, last) = ((low / step - 1e-6).ceil(), (high / step + 1e-6).floor());
        let ticks = (0..).map(|i| first + f64::from(i));
        let labelled = ticks.take_while(|&tick| tick <= last).map(|tick| {
            // Adding 0 removes the sign of -0.
            let value = tick * step + 0.0;
            let label = format!("{:.decimals$}", value / 10_f64.powi(unit));
            (value, label.replace('-', "−"))
        });
        Self {
            labelled: labelled.collect(),
            minor: Vec::new(),
            factor: (unit != 0).then(|| format!("× {}", power_of_ten(unit))),
        }
    }
}

fn power_of_ten(exponent: i32) -> String {
    let raised = exponent.to_string();
    let raised = raised.chars().map(|character| match character {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32(0x2070 + u32::from(digit) - u32::from('0')).unwrap_or(digit),
    });
    format!("10{}", raised.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(low: f64, high: f64, logarithmic: bool) -> Axis {
        Axis {
            logarithmic,
            range: Some((low, high)),
            ..Axis::default()
        }
    }

    fn labels(low: f64, high: f64, logarithmic: bool, about: f64) -> (Vec<String>, Option<String>) {
        let axis = axis(low, high, logarithmic);
        let ticks = axis.scale(std::iter::empty()).unwrap().ticks(about);
        let labels = ticks.labelled.into_iter().map(|(_, label)| label);
        (labels.collect(), ticks.factor)
    }

    #[test]
    fn labels_of_one_axis_are_written_in_one_way() {
        let cases = [
            (0.0, 0.024, false, "0.000 0.005 0.010 0.015 0.020", ""),
            (-1.0, 1.0, false, "−1.0 −0.5 0.0 0.5 1.0", ""),
            (0.0, 2.5e6, false, "0.0 0.5 1.0 1.5 2.0 2.5", "× 10⁶"),
            (0.0, 3e-12, false, "0.0 0.5 1.0 1.5 2.0 2.5 3.0", "× 10⁻¹²"),
            (10.0, 1e5, true, "10 100 1000 10000 100000", ""),
            (0.01, 10.0, true, "0.01 0.1 1 10", ""),
            (1e3, 1e6, true, "10³ 10⁴ 10⁵ 10⁶", ""),
            (8.0, 60.0, true, "10 20 50", ""),
            (100.0, 104.0, true, "100 101 102 103 104", ""),
        ];
        for (low, high, logarithmic, expected, factor) in cases {
            let (found, times) = labels(low, high, logarithmic, 6.0);
            assert_eq!(found.join(" "), expected, "{low} to {high}");
            assert_eq!(times.unwrap_or_default(), factor);
        }
    }

    #[test]
    fn a_low_chart_has_a_label_a_decade_and_no_more() {
        let (found, _) = labels(5e-6, 1.2e-2, true, 3.9);
        assert_eq!(found.join(" "), "10⁻⁵ 10⁻⁴ 10⁻³ 10⁻²");
    }

    #[test]
    fn ticks_lie_on_the_axis_and_are_few_on_any() {
        for magnitude in [1e-280, 1e-20, 1.0, 1e20, 1e280] {
            for part in [-1.0, 0.0, 0.9, 1.0 - 1e-8] {
                let (few, _) = labels(part * magnitude, magnitude, false, 6.0);
                assert!((2..=13).contains(&few.len()), "{few:?}");
            }
            for ratio in [1.001, 1.5, 3.0, 30.0, 1e3, 1e10, 1e18] {
                let (few, _) = labels(magnitude, ratio * magnitude, true, 6.0);
                assert!((2..=13).contains(&few.len()), "{ratio}: {few:?}");
            }
        }
    }

    #[test]
    fn ranges_that_span_nothing_are_refused() {
        let refused = |low, high, logarithmic| {
            let axis = axis(low, high, logarithmic);
            axis.scale(std::iter::empty()).is_err()
        };
        assert!(refused(1.0, 1.0, false) && refused(2.0, 1.0, false));
        assert!(refused(0.0, f64::INFINITY, false) && refused(f64::NAN, 1.0, false));
        assert!(refused(0.0, 1.0, true) && !refused(1e-9, 1.0, true));
        assert!(refused(1.0, 1.0 + 1e-12, false));
    }
}
