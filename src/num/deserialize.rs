//! Macros that serialise a struct by a list of fields, and check the fields when they are read.
//!
//! Without the feature `serde` they expand to nothing.

/// Implements `Deserialize` by a list of fields and an expression of type `Result<Self>` that makes
/// the struct from them: mostly a call of its constructor.
///
/// A parameter's further bounds follow the first after a `|`. The second form is for structs that are written as one value, such as a list.
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

/// Implements `Serialize` by a list of fields and their values, which the struct need not hold, or
/// by one value.
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
