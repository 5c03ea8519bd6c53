//! Named functions of a state.

use std::collections::BTreeSet;
use std::fmt;

use nalgebra::DVector;

use crate::{Error, Result};

/// Named functions of a state, such as parameters and quantities derived from them. They are the rows of a
/// [`Summary`](super::Summary) or the columns of a file.
///
/// ```
/// use annealed::estimate::Quantities;
/// use annealed::prelude::*;
///
/// let priors = Priors::named([("rate", Prior::gamma(2.0, 1.0)?)])?;
/// let doubling = |u: &DVector<f64>| 2f64.ln() / priors.parameters(u)[0];
/// let quantities = Quantities::from(&priors).with("doubling time", doubling);
/// let coordinates = Quantities::coordinates(["intercept", "slope"]);
/// # drop((quantities, coordinates));
/// # Ok::<(), annealed::Error>(())
/// ```
pub struct Quantities<'q, S>(Vec<(String, Box<Function<'q, S>>)>);

pub(super) type Function<'q, S> = dyn Fn(&S) -> f64 + 'q;

impl<'q, S> Quantities<'q, S> {
    /// Adds a function of the state.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, f: impl Fn(&S) -> f64 + 'q) -> Self {
        self.0.push((name.into(), Box::new(f)));
        self
    }

    /// Returns names and functions. Refuses an empty list and two functions of one name.
    pub(super) fn checked(&self) -> Result<impl Iterator<Item = (&str, &Function<'q, S>)>> {
        Error::check_not_empty("quantities", self.0.len())?;
        let mut names = BTreeSet::new();
        if let Some((name, _)) = self.0.iter().find(|(name, _)| !names.insert(name)) {
            let found = format!("two of the name {name}");
            return Err(Error::invalid("quantities", found, "different names"));
        }
        Ok(self.0.iter().map(|(name, f)| (name.as_str(), &**f)))
    }
}

impl Quantities<'_, DVector<f64>> {
    /// Creates the coordinates of a vector, with their names. A value is NaN if the vector has fewer coordinates.
    pub fn coordinates(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let named = names.into_iter().enumerate();
        named.fold(Self::default(), |all, (i, name)| {
            all.with(name, move |x: &DVector<f64>| {
                x.get(i).copied().unwrap_or(f64::NAN)
            })
        })
    }
}

/// Creates an empty list.
impl<S> Default for Quantities<'_, S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S> fmt::Debug for Quantities<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ() {
        let text =
            |quantities: Quantities<f64>| quantities.checked().map(drop).unwrap_err().to_string();
        let twice = Quantities::default()
            .with("a", |x: &f64| *x)
            .with("a", |_| 0.0);
        assert!(text(twice).contains("two of the name a"));
        assert!(text(Quantities::default()).contains("quantities: got none"));
    }

    #[test]
    fn coordinates_are_those_of_the_vector() {
        let quantities = Quantities::coordinates(["a", "b"]);
        let values = |x: DVector<f64>| Vec::from_iter(quantities.0.iter().map(|(_, f)| f(&x)));
        assert_eq!(values(DVector::from_vec(vec![1.0, 2.0, 3.0])), [1.0, 2.0]);
        assert!(values(DVector::zeros(1))[1].is_nan());
    }
}
