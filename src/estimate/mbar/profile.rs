//! The free energy along a coordinate, as a histogram.

use super::{Difference, Mbar, few_weighted};
use crate::{Error, Result};

impl Mbar {
    /// Returns the free-energy profile of a coordinate at a state with these log densities, as a histogram: for each bin
    /// between neighbouring `edges`, the log probability of the bin less that of the most probable bin. The free energy
    /// of a bin over kT is minus this [value](crate::estimate::LogZ::log_z). It is 0 with an error of 0 in the lowest
    /// bin, and infinite (`None`) in a bin without draws. If bins have unequal widths, add the log of the width to it.
    ///
    /// `values` are the coordinate of each draw. A bin holds its lower edge, and the last one holds its upper edge, too.
    /// Draws outside of all bins count in none.
    ///
    /// The bins are states, so that errors allow for the dependence of draws and for the errors of log Z, which shift
    /// umbrella windows against each other. A bin whose draws are worth fewer than 25, or whose weights
    /// have a heavy tail, warns ([`FewWeightedDraws`](crate::estimate::Warning::FewWeightedDraws)).
    ///
    /// ```
    /// use annealed::estimate::{Dependence, LogZ, Mbar};
    /// use nalgebra::DMatrix;
    ///
    /// // Draws of two harmonic springs, and the profile of their coordinate x at the first one.
    /// let x = Vec::from_iter((0..400).map(|n| (f64::from(n % 200) / 50.0 - 2.0) / [1.0, 2.0][n as usize / 200]));
    /// let u_kn = DMatrix::from_fn(2, 400, |k, n| [0.5, 2.0][k] * x[n] * x[n]);
    /// let found = Mbar::from_reduced_potentials(&u_kn, &[200, 200], Dependence::Independent)?;
    /// let at_first = Vec::from_iter(x.iter().map(|x| -0.5 * x * x));
    /// for bin in found.profile(&at_first, &x, &[-1.0, -0.5, 0.0, 0.5, 1.0])?.into_iter().flatten() {
    ///     println!("F = {:.2} +- {:.2}", -bin.log_z(), bin.standard_error());
    /// }
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`weights_at`](Self::weights_at); another number of values than of draws, or a NaN; edges that do not
    /// rise, or with no draw of a density above 0 between them.
    #[doc(alias("PMF", "potential of mean force", "umbrella sampling", "FES"))]
    pub fn profile(
        &self,
        log_densities: &[f64],
        values: &[f64],
        edges: &[f64],
    ) -> Result<Vec<Option<Difference>>> {
        self.check_further(log_densities)?;
        Error::check_dimension("values", values.len(), log_densities.len())?;
        Error::check_finite("values", values.iter().copied())?;
        let rise = edges.len() > 1 && edges.is_sorted_by(|low, up| low < up);
        Error::check(rise, "edges", format!("{edges:?}"), "two or more that rise")?;
        let last = edges.len() - 1;
        // Bins count from 1. Draws outside of all bins are in the first column.
        let mut columns = vec![vec![f64::NEG_INFINITY; values.len()]; edges.len()];
        for (draw, x) in values.iter().enumerate() {
            let bin = match *x <= edges[last] {
                true => edges[..last].partition_point(|edge| edge <= x),
                false => 0,
            };
            columns[bin][draw] = log_densities[draw];
        }
        let columns = columns.into_iter().skip(1).enumerate();
        let has_draws = |(_, column): &(_, Vec<f64>)| column.iter().any(|x| x.is_finite());
        let (filled, columns): (Vec<_>, Vec<_>) = columns.filter(has_draws).unzip();
        let expected = "a draw of a density above 0 between them";
        Error::check(!filled.is_empty(), "edges", "none", expected)?;
        let all = self.solution.estimates(&columns)?;
        let places = self.solution.data.counts.len()..all.log_z.len();
        let probable = |one: &usize, other: &usize| all.log_z[*one].total_cmp(&all.log_z[*other]);
        let lowest = places.clone().max_by(probable).unwrap_or(places.start);
        let mut bins = vec![None; last];
        for ((bin, column), place) in filled.into_iter().zip(&columns).zip(places) {
            let mut found = self.between(&all, place, lowest);
            let log_weights = self.solution.log_weights(column);
            found
                .warnings
                .extend(few_weighted(all.effective[place], &log_weights));
            bins[bin] = Some(found);
        }
        Ok(bins)
    }
}
