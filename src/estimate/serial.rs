//! Deserialisation that refuses figures no weights could give.

use crate::estimate::Estimate;
use crate::{Error, Result};

/// The fields of an [`Estimate`] as read.
#[derive(serde::Deserialize)]
pub(super) struct Unchecked {
    chains: usize,
    dead: usize,
    value: f64,
    relative_variance: f64,
    skewness: f64,
    pareto_shape: Option<f64>,
    mean_of_alive: f64,
    variance_of_alive: f64,
    largest_share: f64,
}

impl TryFrom<Unchecked> for Estimate {
    type Error = Error;

    fn try_from(raw: Unchecked) -> Result<Self> {
        if raw.dead >= raw.chains {
            let expected = format!("fewer than the {} chains", raw.chains);
            return Err(Error::invalid("dead", raw.dead, expected));
        }
        let figures = [
            raw.value,
            raw.skewness,
            raw.mean_of_alive,
            raw.largest_share,
        ];
        Error::check_finite("estimate", figures.into_iter().chain(raw.pareto_shape))?;
        for (name, value, most) in [
            (
                "relative_variance",
                raw.relative_variance,
                (raw.chains - 1) as f64,
            ),
            ("variance_of_alive", raw.variance_of_alive, f64::MAX),
            ("largest_share", raw.largest_share, 1.0),
        ] {
            if !(0.0..=most).contains(&value) {
                return Err(Error::invalid(name, value, format!("0 to {most}")));
            }
        }
        Ok(Self {
            chains: raw.chains,
            dead: raw.dead,
            value: raw.value,
            relative_variance: raw.relative_variance,
            skewness: raw.skewness,
            pareto_shape: raw.pareto_shape,
            mean_of_alive: raw.mean_of_alive,
            variance_of_alive: raw.variance_of_alive,
            largest_share: raw.largest_share,
        })
    }
}
