//! Priors of several parameters: in coordinates without bounds, or uniform on a box.

use std::ops::Range;

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};
use rand::{Rng, RngExt};

use crate::error::demand_dimension;
use crate::estimate::Quantities;
use crate::model::{
    Differentiable, JointPrior, NormalizedModel, Prior, Sampleable, TransformedPrior,
    UnnormalizedModel, accumulate_each,
};
use crate::num::with_buffer;
use crate::{Error, Result};

/// Priors of parameters, as a model over coordinates without bounds.
///
/// A coordinate is the parameter itself on the whole line, its log above 0, and a logit in an interval, so kernels
/// never leave the support. The density includes the Jacobian, and log Z is 0. [`likelihood`](Self::likelihood)
/// transforms a likelihood of the parameters, and [`parameters`](Self::parameters) takes samples back. Elements are
/// [`Prior`](crate::model::Prior)s of one parameter or [`JointPrior`]s of several. In a mixed list, `.into()` turns a
/// `Prior` into a `JointPrior`.
///
/// ```
/// use annealed::prelude::*;
///
/// // Counts of a Poisson law whose rate has the gamma prior.
/// let counts = [3.0, 5.0, 2.0, 4.0];
/// let priors = Priors::new([Prior::gamma(2.0, 1.0)?])?;
/// let likelihood = priors.likelihood(GradientModel::new(1, |x: &[f64], gradient: &mut [f64]| {
///     let (rate, sum) = (x[0], counts.iter().sum::<f64>());
///     gradient[0] = sum / rate - 4.0;
///     let log_factorials = (6.0f64 * 120.0 * 2.0 * 24.0).ln();
///     sum * rate.ln() - 4.0 * rate - log_factorials
/// })?);
/// let path = TemperedPath::new(&priors, likelihood);
/// let run = Ais::new(&path, Hmc::new(0.3, 3)?).schedule(Schedule::linear(50)?).run()?;
/// let (rate, _) = run.expectation(|u| priors.parameters(u)[0]);
/// println!("mean rate {rate:.2}, log evidence {run}");
/// # let exact = (1..=15).map(|k| f64::from(k).ln()).sum::<f64>() - 16.0 * 5f64.ln() - (34_560f64).ln();
/// # assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # assert!((rate - 3.2).abs() < 0.1);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Priors {
    priors: Vec<JointPrior>,
    /// Names of the parameters.
    names: Vec<String>,
    dimension: usize,
}

/// Refuses effects whose scale is a parameter with a prior of its own that allows negative values.
fn check_scales(priors: &[JointPrior]) -> Result<()> {
    let mut parameters = Vec::<bool>::new();
    for prior in priors {
        if let Some(place) = prior.scale() {
            let is_negative = parameters[place];
            let value = format!("parameter {place}, whose prior allows negative values");
            let expected = "a parameter above 0, such as one with Prior::half_normal";
            Error::check(!is_negative, "scale of effects", value, expected)?;
        }
        parameters.extend(vec![prior.allows_negative(); prior.law().parameters()]);
    }
    Ok(())
}

impl Priors {
    /// Creates a model from priors of the parameters, in their order. The parameters are named `x[0]`, `x[1]` and so
    /// on.
    ///
    /// # Errors
    /// No prior; a prior that needs more earlier parameters than there are.
    pub fn new(priors: impl IntoIterator<Item = impl Into<JointPrior>>) -> Result<Self> {
        let priors: Vec<JointPrior> = priors.into_iter().map(Into::into).collect();
        let count: usize = priors.iter().map(|prior| prior.law().parameters()).sum();
        Self::of(priors, (0..count).map(|i| format!("x[{i}]")).collect())
    }

    /// Creates a model from names and priors. The parameters of a [`JointPrior`] get its name with an index, such as
    /// `p[0]` and `p[1]`. A [summary](crate::estimate::WeightedSample::summary) shows the names in its rows.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn named(
        priors: impl IntoIterator<Item = (impl Into<String>, impl Into<JointPrior>)>,
    ) -> Result<Self> {
        let (mut joint, mut names) = (Vec::new(), Vec::new());
        for (name, prior) in priors {
            let (name, prior): (String, JointPrior) = (name.into(), prior.into());
            match prior.law().parameters() {
                1 => names.push(name),
                count => names.extend((0..count).map(|i| format!("{name}[{i}]"))),
            }
            joint.push(prior);
        }
        Self::of(joint, names)
    }

    fn of(priors: Vec<JointPrior>, names: Vec<String>) -> Result<Self> {
        Error::check_not_empty("priors", priors.len())?;
        let (mut dimension, mut parameters) = (0, 0);
        for law in priors.iter().map(JointPrior::law) {
            let expected = format!("at least the {} that a prior needs", law.earlier());
            let is_enough = law.earlier() <= parameters;
            Error::check(
                is_enough,
                "number of earlier parameters",
                parameters,
                expected,
            )?;
            dimension += law.coordinates();
            parameters += law.parameters();
        }
        check_scales(&priors)?;
        Error::check_dimension("names", names.len(), parameters)?;
        Ok(Self {
            priors,
            names,
            dimension,
        })
    }

    /// Returns the number of coordinates. The number of parameters may differ: one probability of a simplex follows
    /// from the others.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    pub(super) fn parameter_count(&self) -> usize {
        self.names.len()
    }

    /// Returns each prior with the indices of its coordinates and of its parameters.
    fn laws(&self) -> impl Iterator<Item = (&dyn TransformedPrior, Range<usize>, Range<usize>)> {
        self.priors.iter().scan((0, 0), |(u, x), prior| {
            let law = prior.law();
            let (coordinates, parameters) = (law.coordinates(), law.parameters());
            (*u, *x) = (*u + coordinates, *x + parameters);
            Some((law, *u - coordinates..*u, *x - parameters..*x))
        })
    }

    /// Returns the parameters of a state. They lie strictly inside their supports.
    ///
    /// # Panics
    /// If the state has another dimension.
    pub fn parameters(&self, state: &DVector<f64>) -> DVector<f64> {
        let mut parameters = DVector::zeros(self.names.len());
        self.write_parameters(state, &mut parameters);
        parameters
    }

    /// Returns the state of `parameters`, for example to start [`Gaussian::laplace`](crate::model::Gaussian::laplace)
    /// there.
    ///
    /// A sum or a length that must be 1 may differ from 1 by 1e-4, because files round. The state belongs to the numbers
    /// divided by it.
    ///
    /// # Errors
    /// Another number of parameters; parameters outside their support, perhaps because a file rounded them to its edge.
    /// The error names them.
    pub fn state(&self, parameters: &[f64]) -> Result<DVector<f64>> {
        Error::check_dimension("parameters", parameters.len(), self.names.len())?;
        let mut state = DVector::zeros(self.dimension());
        for (law, u, own) in self.laws() {
            let (earlier, u) = (&parameters[..own.start], &mut state.as_mut_slice()[u]);
            law.write_coordinates(&parameters[own.clone()], earlier, u);
            if u.iter().any(|u| !u.is_finite()) {
                let found = own.map(|i| format!("{} = {}", self.names[i], parameters[i]));
                let found = found.collect::<Vec<_>>().join(", ");
                let expected =
                    format!("{} (write more digits if they were rounded)", law.support());
                return Err(Error::invalid("parameter", found, expected));
            }
        }
        Ok(state)
    }

    pub(super) fn write_parameters(&self, state: &DVector<f64>, parameters: &mut DVector<f64>) {
        let state = self.checked(state);
        for (law, u, own) in self.laws() {
            let (earlier, own_on) = parameters.as_mut_slice().split_at_mut(own.start);
            law.write_parameters(&state[u], earlier, &mut own_on[..own.len()]);
        }
    }

    /// Turns `slopes`, the derivatives of a likelihood in the parameters, into derivatives in the coordinates, and adds
    /// these to `gradient`. It goes from the last prior to the first, since each may add to the slopes of earlier
    /// parameters.
    pub(super) fn pull_back(
        &self,
        state: &DVector<f64>,
        parameters: &DVector<f64>,
        slopes: &mut DVector<f64>,
        gradient: &mut DVector<f64>,
    ) {
        let (mut u, mut x) = (state.len(), parameters.len());
        for law in self.priors.iter().rev().map(JointPrior::law) {
            let ends = (u, x);
            (u, x) = (u - law.coordinates(), x - law.parameters());
            let (earlier_slopes, own) = slopes.as_mut_slice()[..ends.1].split_at_mut(x);
            law.pull_back(
                &state.as_slice()[u..ends.0],
                &parameters.as_slice()[..x],
                own,
                earlier_slopes,
                &mut gradient.as_mut_slice()[u..ends.0],
            );
        }
    }

    /// Returns the prior of each parameter if all priors are of a single parameter. A column of coordinates then gives a
    /// column of parameters.
    pub(super) fn singles(&self) -> Option<Vec<&Prior>> {
        self.priors.iter().map(JointPrior::single).collect()
    }

    fn checked<'s>(&self, state: &'s DVector<f64>) -> &'s [f64] {
        demand_dimension("a state", state.len(), self.dimension());
        state.as_slice()
    }
}

impl UnnormalizedModel for Priors {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        with_buffer(state.len(), |unused| {
            self.accumulate_gradient(state, 0.0, unused)
        })
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.dimension())
    }
}

impl NormalizedModel for Priors {
    fn log_normalizer(&self) -> f64 {
        0.0
    }

    fn has_certain_normalizer(&self) -> bool {
        true
    }
}

impl Sampleable for Priors {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let (mut rng, mut state) = (rng, DVector::zeros(self.dimension()));
        for (law, u, _) in self.laws() {
            law.sample(&mut rng, &mut state.as_mut_slice()[u]);
        }
        state
    }
}

impl Differentiable for Priors {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let state = self.checked(state);
        let terms = self.laws().map(|(law, u, _)| {
            let own = &mut gradient.as_mut_slice()[u.clone()];
            law.accumulate_gradient(&state[u], scale, own)
        });
        terms.sum()
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let Some(singles) = self.singles() else {
            return accumulate_each(self, states, scale, gradients, log_densities);
        };
        demand_dimension("a state", states.ncols(), self.dimension());
        log_densities.fill(0.0);
        let columns = states.column_iter().zip(gradients.column_iter_mut());
        for (prior, (u, mut gradient)) in singles.into_iter().zip(columns) {
            let gradient = gradient.as_mut_slice();
            prior.accumulate_column(u.as_slice(), scale, gradient, log_densities);
        }
    }
}

/// The parameters by their names. A value is NaN if the state has another dimension.
impl<'p> From<&'p Priors> for Quantities<'p, DVector<f64>> {
    fn from(priors: &'p Priors) -> Self {
        let named = priors.names.iter().enumerate();
        named.fold(Self::default(), |all, (i, name)| {
            all.with(name, move |state: &DVector<f64>| {
                match state.len() == priors.dimension() {
                    true => priors.parameters(state)[i],
                    false => f64::NAN,
                }
            })
        })
    }
}

crate::num::deserialize_checked! {
    Priors { priors: Vec<JointPrior>, names: Vec<String> } => Self::of(priors, names)
}
crate::num::serialize_as! { Priors as all { priors: &all.priors, names: &all.names } }

/// The uniform distribution on a box: `log f(x) = 0` inside, edges included, and `-inf` outside; `log Z = log volume`.
///
/// It suits kernels without gradients, such as [`Slice`](crate::kernel::Slice) or a random walk. Its gradient is 0, so
/// Langevin and Hamiltonian kernels leave the box: use [`Priors`](crate::model::Priors) with them.
///
/// ```
/// use annealed::prelude::*;
///
/// let base = UniformBox::new([(0.0, 2.0), (-1.0, 1.0)])?;
/// assert_eq!(base.log_normalizer(), 4f64.ln());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct UniformBox {
    sides: Vec<(f64, f64)>,
}

impl UniformBox {
    /// Creates a box from the lower and the upper end of each side.
    ///
    /// # Errors
    /// No side; ends that are not finite, or a lower end not below the upper end; a side whose length overflows.
    pub fn new(sides: impl IntoIterator<Item = (f64, f64)>) -> Result<Self> {
        let sides: Vec<(f64, f64)> = sides.into_iter().collect();
        Error::check_not_empty("sides", sides.len())?;
        for &(low, high) in &sides {
            let length = high - low;
            let found = format!("{low} to {high}");
            let expected = "finite ends, the lower one below the upper one";
            Error::check(length.is_finite() && low < high, "side", found, expected)?;
        }
        Ok(Self { sides })
    }

    fn contains(&self, state: &DVector<f64>) -> bool {
        demand_dimension("a state", state.len(), self.sides.len());
        let mut sides = self.sides.iter().zip(state.iter());
        sides.all(|(&(low, high), x)| (low..=high).contains(x))
    }
}

impl UnnormalizedModel for UniformBox {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        if self.contains(state) {
            0.0
        } else {
            f64::NEG_INFINITY
        }
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.sides.len())
    }
}

impl NormalizedModel for UniformBox {
    fn log_normalizer(&self) -> f64 {
        self.sides.iter().map(|(low, high)| (high - low).ln()).sum()
    }

    fn has_certain_normalizer(&self) -> bool {
        true
    }
}

impl Differentiable for UniformBox {
    fn accumulate_gradient(&self, state: &DVector<f64>, _: f64, _: &mut DVector<f64>) -> f64 {
        self.log_density(state)
    }
}

impl Sampleable for UniformBox {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let coordinates = self.sides.iter();
        let coordinates = coordinates.map(|&(low, high)| rng.random_range(low..high));
        DVector::from_iterator(self.sides.len(), coordinates)
    }
}

crate::num::deserialize_checked! { UniformBox as (sides: Vec<(f64, f64)>) => Self::new(sides) }
crate::num::serialize_as! { UniformBox as uniform (uniform.sides) }

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of six and of eight digits, and single precision: the state is that of the exact parameters.
    #[test]
    fn rounded_parameters_have_a_state() {
        let priors = Priors::named([
            ("p", JointPrior::dirichlet([2.0, 3.0, 4.0]).unwrap()),
            ("L", JointPrior::correlation(3, 2.0).unwrap()),
        ]);
        let priors = priors.unwrap();
        let exact = DVector::from_vec(vec![-2.3, -0.77, 0.4, -0.9, 1.3]);
        let parameters = priors.parameters(&exact);
        let digits = |x: f64, digits: usize| format!("{x:.*e}", digits - 1).parse::<f64>().unwrap();
        let single = parameters.map(|x| f64::from(x as f32));
        for rounded in [
            single,
            parameters.map(|x| digits(x, 6)),
            parameters.map(|x| digits(x, 8)),
        ] {
            let state = priors.state(rounded.as_slice()).unwrap();
            assert!((state - &exact).amax() < 1e-4);
        }
        let mut wrong = parameters.clone();
        wrong[1] += 0.01;
        let text = priors.state(wrong.as_slice()).unwrap_err().to_string();
        assert!(
            text.contains("p[1] = ") && text.contains("whose sum is 1"),
            "{text}"
        );
        wrong[1] = 0.0;
        wrong[2] = 1.0 - wrong[0];
        let text = priors.state(wrong.as_slice()).unwrap_err().to_string();
        assert!(
            text.contains("p[1] = 0, ") && text.contains("write more digits"),
            "{text}"
        );
    }
}
