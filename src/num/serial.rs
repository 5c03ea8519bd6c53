//! Logarithms of weights in formats without infinities, such as JSON: `-inf` is written as none.

/// A single logarithm.
pub(crate) mod log_value {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Some(*value)
            .filter(|&x| x > f64::NEG_INFINITY)
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NEG_INFINITY))
    }
}

/// A list of logarithms.
pub(crate) mod log_values {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        values: &[f64],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let finite = |&x: &f64| Some(x).filter(|&x| x > f64::NEG_INFINITY);
        serializer.collect_seq(values.iter().map(finite))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<f64>, D::Error> {
        let values = Vec::<Option<f64>>::deserialize(deserializer)?;
        Ok(values
            .into_iter()
            .map(|x| x.unwrap_or(f64::NEG_INFINITY))
            .collect())
    }
}
