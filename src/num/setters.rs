//! Methods that set one field of a builder.

/// Writes, for each field named with its type, the method of that name which sets it and returns the
/// builder.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)+) => {$(
        $(#[$doc])*
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )+};
}
pub(crate) use setters;
