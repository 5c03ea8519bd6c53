//! Logarithms of weights in formats without infinities, such as JSON: `-inf` is written as none. Binary formats hold
//! every number.

/// A single logarithm.
pub(crate) mod log_value {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return value.serialize(serializer);
        }
        Some(*value)
            .filter(|&x| x > f64::NEG_INFINITY)
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        if !deserializer.is_human_readable() {
            return f64::deserialize(deserializer);
        }
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NEG_INFINITY))
    }
}

/// A list of logarithms.
pub(crate) mod log_values {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        values: &[f64],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return values.serialize(serializer);
        }
        let finite = |&x: &f64| Some(x).filter(|&x| x > f64::NEG_INFINITY);
        serializer.collect_seq(values.iter().map(finite))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<f64>, D::Error> {
        if !deserializer.is_human_readable() {
            return Vec::deserialize(deserializer);
        }
        let values = Vec::<Option<f64>>::deserialize(deserializer)?;
        Ok(values
            .into_iter()
            .map(|x| x.unwrap_or(f64::NEG_INFINITY))
            .collect())
    }
}

#[cfg(all(test, feature = "checkpoint"))]
mod tests {
    use super::{log_value, log_values};
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Written {
        #[serde(with = "log_value")]
        one: f64,
        #[serde(with = "log_values")]
        more: Vec<f64>,
    }

    #[test]
    fn a_binary_format_keeps_every_number() {
        let values = [f64::NAN, f64::NEG_INFINITY, -0.0, 1.5];
        for one in values {
            let more = values.to_vec();
            let bytes = postcard::to_extend(&Written { one, more }, Vec::new()).unwrap();
            let read: Written = postcard::from_bytes(&bytes).unwrap();
            assert_eq!(read.one.to_bits(), one.to_bits());
            let more = read.more.iter().zip(values);
            assert!(more.clone().count() == 4);
            assert!(more.into_iter().all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
}
