//! Effects of a hierarchy, whose location and scale are earlier parameters.

use std::iter::repeat_n;

use rand::Rng;

use crate::model::Prior;
use crate::model::transformed_prior::{TransformedPrior, accumulate_each, times};
use crate::{Error, Result};

/// Effects of a hierarchy with location m and scale s. Their coordinates z are independent, with distribution `prior`.
/// An effect is the parameter whose coordinate under `prior` is `m + s z`. The scale s is a power of an earlier parameter.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub(super) struct Effects {
    prior: Prior,
    count: usize,
    location: Option<usize>,
    scale: Option<usize>,
    power: f64,
}

impl Effects {
    pub(super) fn new(
        prior: Prior,
        count: usize,
        location: Option<usize>,
        scale: Option<usize>,
        power: f64,
    ) -> Result<Self> {
        Error::check_count("count", count, 1)?;
        let is_power = power.is_finite() && power != 0.0;
        Error::check(is_power, "power", power, "a finite number other than 0")?;
        Error::check_count("location", location.unwrap_or(0), 0)?;
        Error::check_count("scale", scale.unwrap_or(0), 0)?;
        Ok(Self {
            prior,
            count,
            location,
            scale,
            power,
        })
    }

    pub(super) fn scale(&self) -> Option<usize> {
        self.scale
    }

    /// Returns the location m and the scale s of the effects, given all `earlier` parameters.
    fn line(&self, earlier: &[f64]) -> (f64, f64) {
        let location = self.location.map_or(0.0, |i| earlier[i]);
        let scale = self.scale.map_or(1.0, |i| match self.power {
            1.0 => earlier[i],
            power => earlier[i].powf(power),
        });
        (location, scale)
    }
}

impl TransformedPrior for Effects {
    fn coordinates(&self) -> usize {
        self.count
    }

    fn earlier(&self) -> usize {
        let after = |index: Option<usize>| index.map_or(0, |i| i + 1);
        after(self.location).max(after(self.scale))
    }

    fn accumulate_gradient(&self, u: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
        accumulate_each(repeat_n(&self.prior, self.count), u, scale, gradient)
    }

    fn sample(&self, rng: &mut dyn Rng, u: &mut [f64]) {
        u.iter_mut().for_each(|u| *u = self.prior.sample(rng));
    }

    fn write_parameters(&self, u: &[f64], earlier: &[f64], x: &mut [f64]) {
        let (m, s) = self.line(earlier);
        for (x, z) in x.iter_mut().zip(u) {
            *x = self.prior.parameter(m + s * z).0;
        }
    }

    fn pull_back(
        &self,
        u: &[f64],
        earlier: &[f64],
        by_x: &mut [f64],
        by_earlier: &mut [f64],
        by_u: &mut [f64],
    ) {
        let (m, s) = self.line(earlier);
        let (mut by_m, mut by_s) = (0.0, 0.0);
        for ((total, slope), z) in by_u.iter_mut().zip(by_x).zip(u) {
            let slope = times(*slope, self.prior.parameter(m + s * z).1);
            *total += slope * s;
            by_m += slope;
            by_s += slope * z;
        }
        if let Some(i) = self.location {
            by_earlier[i] += by_m;
        }
        if let Some(i) = self.scale {
            let rate = match self.power {
                1.0 => 1.0,
                power => power * s / earlier[i],
            };
            by_earlier[i] += times(by_s, rate);
        }
    }

    fn write_coordinates(&self, x: &[f64], earlier: &[f64], u: &mut [f64]) {
        let (m, s) = self.line(earlier);
        for (u, x) in u.iter_mut().zip(x) {
            *u = (self.prior.coordinate(*x) - m) / s;
        }
    }

    fn support(&self) -> String {
        format!("each {}, and a scale that is not 0", self.prior.support())
    }
}

crate::num::deserialize_checked! {
    Effects { prior: Prior, count: usize, location: Option<usize>, scale: Option<usize>, power: f64 } =>
        Self::new(prior, count, location, scale, power)
}
