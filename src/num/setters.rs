//! Methods that set one field of a builder.

/// Writes, for each field named with its type, the method of that name which sets it and returns the
/// builder. `field of part: Type` sets a field of the builder's field `part`.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident $(of $part:ident)?: $type:ty,)+) => {$(
        $(#[$doc])*
        pub fn $field(mut self, $field: $type) -> Self {
            self$(.$part)?.$field = $field;
            self
        }
    )+};
}
pub(crate) use setters;
