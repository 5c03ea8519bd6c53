//! Macros for setters and for checked serialisation. Serialisation macros do nothing without the feature `serde`.

/// Implements `Deserialize` from a list of fields and an expression of type `Result<Self>`, mostly a constructor's
/// call. A `|` precedes each further bound of a type parameter. The first form reads a struct that is written as one
/// value, such as a list. The second form fills a struct that has exactly the listed fields, and calls its method
/// `checked`.
macro_rules! deserialize_checked {
    ($name:ident as ($value:ident: $type:ty) => $make:expr) => {
        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<Format>(format: Format) -> std::result::Result<Self, Format::Error>
            where
                Format: serde::Deserializer<'de>,
            {
                let $value = <$type as serde::Deserialize>::deserialize(format)?;
                let made: $crate::Result<Self> = $make;
                made.map_err(serde::de::Error::custom)
            }
        }
    };
    ($name:ident $(<$($parameter:ident $(: $bound:path)?),+>)? {
        $($field:ident: $type:ty),+ $(,)?
    } => self.checked()) => {
        $crate::num::deserialize_checked! {
            $name $(<$($parameter $(: $bound)?),+>)? { $($field: $type),+ } => $name { $($field),+ }.checked()
        }
    };
    (
        $name:ident $(<$($parameter:ident $(: $bound:path $(| $more:path)*)?),+>)? {
            $($(#[$attribute:meta])* $field:ident: $type:ty),+ $(,)?
        } => $make:expr
    ) => {
        #[cfg(feature = "serde")]
        impl<'de, $($($parameter: serde::Deserialize<'de> $(+ $bound $(+ $more)*)?),+)?>
            serde::Deserialize<'de> for $name $(<$($parameter),+>)?
        {
            fn deserialize<Format>(format: Format) -> std::result::Result<Self, Format::Error>
            where
                Format: serde::Deserializer<'de>,
            {
                let ($($field,)+) = {
                    #[derive(serde::Deserialize)]
                    struct $name $(<$($parameter $(: $bound $(+ $more)*)?),+>)? {
                        $($(#[$attribute])* $field: $type),+
                    }
                    let read = <$name $(<$($parameter),+>)?>::deserialize(format)?;
                    ($(read.$field,)+)
                };
                let made: $crate::Result<Self> = $make;
                made.map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use deserialize_checked;

/// Implements `Serialize`: writes one value, or a list of fields. The values may be computed from the struct.
macro_rules! serialize_as {
    ($name:ident as $this:ident ($value:expr)) => {
        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<Format>(&self, format: Format) -> std::result::Result<Format::Ok, Format::Error>
            where
                Format: serde::Serializer,
            {
                let $this = self;
                serde::Serialize::serialize(&$value, format)
            }
        }
    };
    (
        $name:ident $(<$($parameter:ident: $bound:path),+>)? as $this:ident {
            $($field:ident: $value:expr),+ $(,)?
        }
    ) => {
        #[cfg(feature = "serde")]
        impl $(<$($parameter: $bound + serde::Serialize),+>)? serde::Serialize
            for $name $(<$($parameter),+>)?
        {
            fn serialize<Format>(&self, format: Format) -> std::result::Result<Format::Ok, Format::Error>
            where
                Format: serde::Serializer,
            {
                use serde::ser::SerializeStruct;
                let $this = self;
                let fields = [$(stringify!($field)),+].len();
                let mut state = format.serialize_struct(stringify!($name), fields)?;
                $(state.serialize_field(stringify!($field), &$value)?;)+
                state.end()
            }
        }
    };
}
pub(crate) use serialize_as;

/// Defines a builder's setter for each field and its type. `field of part: Type` sets a field of `part`, and
/// `field in Some: Type` sets an optional field.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident $(of $part:ident)? $(in $some:ident)?: $type:ty,)+) => {$(
        $(#[$doc])*
        pub fn $field(mut self, $field: $type) -> Self {
            self$(.$part)?.$field = $($some)?($field);
            self
        }
    )+};
}
pub(crate) use setters;

/// Implements `Debug` for the listed fields. Fields that are functions or long are not listed.
macro_rules! debug_by_fields {
    ($name:ident for [$($parameters:tt)*] $type:ty { $($field:ident),+ }) => {
        impl<$($parameters)*> std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut written = f.debug_struct(stringify!($name));
                $(written.field(stringify!($field), &self.$field);)+
                written.finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use debug_by_fields;

/// Implements `Copy` for a type of references or functions, whatever its parameters are. `derive` would bound them.
macro_rules! copy {
    (for [$($parameters:tt)*] $type:ty) => {
        impl<$($parameters)*> Clone for $type {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($parameters)*> Copy for $type {}
    };
}
pub(crate) use copy;

/// Serialisation of log weights and of matrices. Human-readable formats, such as JSON, write `-inf` as none.
#[cfg(feature = "serde")]
pub(crate) mod serial {
    use nalgebra::DMatrix;
    use serde::de::{Deserialize, Deserializer, Error};

    /// A matrix whose shape was checked when it was read. nalgebra does not check the product of rows and columns for
    /// overflow, so a release build would accept the shape `2^32 x 2^32` with no entries.
    pub(crate) struct Matrix(pub(crate) DMatrix<f64>);

    impl<'de> Deserialize<'de> for Matrix {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            matrix(deserializer).map(Self)
        }
    }

    pub(crate) fn matrix<'de, D: Deserializer<'de>>(format: D) -> Result<DMatrix<f64>, D::Error> {
        let (entries, rows, columns): (Vec<f64>, usize, usize) = Deserialize::deserialize(format)?;
        match rows.checked_mul(columns) {
            Some(count) if count == entries.len() => Ok(DMatrix::from_vec(rows, columns, entries)),
            _ => Err(Error::custom(format!(
                "{} entries of a matrix, expected {rows} x {columns}",
                entries.len()
            ))),
        }
    }

    pub(crate) mod log_value {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        pub(crate) fn serialize<S: Serializer>(
            value: &f64,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            if !serializer.is_human_readable() {
                return value.serialize(serializer);
            }
            let finite = Some(*value).filter(|&x| x > f64::NEG_INFINITY);
            finite.serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<f64, D::Error> {
            if !deserializer.is_human_readable() {
                return f64::deserialize(deserializer);
            }
            Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NEG_INFINITY))
        }
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(transparent)]
    struct LogValue(#[serde(with = "log_value")] f64);

    pub(crate) mod log_values {
        use super::LogValue;
        use serde::{Deserialize, Deserializer, Serializer};

        pub(crate) fn serialize<S: Serializer>(
            values: &[f64],
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(values.iter().map(|x| LogValue(*x)))
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Vec<f64>, D::Error> {
            let values = Vec::<LogValue>::deserialize(deserializer)?;
            Ok(values.into_iter().map(|x| x.0).collect())
        }
    }
}

#[cfg(all(test, feature = "checkpoint"))]
mod tests {
    use super::serial::{log_value, log_values};
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
