//! The run from an RBM back to its base, joined with the forward run.

use std::path::PathBuf;

use annealed::ais::{Ais, Run};
use annealed::bidirectional::{Bridge, ReverseRun, TargetSamples};
use annealed::rbm::{BlockGibbs, Rbm, RbmPath};
use annealed::{Error, Result};
use numpy::{PyArray1, PyReadonlyArray2, ToPyArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::convert::bits;
use crate::errors::{OrRaise, exception};
use crate::kept::{Kept, Reduced, reduce, restore};
use crate::log_z::{Figures, LogZ};

/// Number of moves at the target after the forward chains' states are resampled, same as in the program.
const MOVES: usize = 100;

/// The source of the samples for a reverse run.
pub enum Samples {
    /// Exact samples of a small machine.
    Exact,
    /// The forward chains' states.
    Resampled,
    /// States of other chains.
    Given(Vec<Vec<bool>>),
}

impl<'py> FromPyObject<'_, 'py> for Samples {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(rows) = object.extract::<PyReadonlyArray2<'py, bool>>() {
            return Ok(Self::Given(bits(&rows)));
        }
        match object.extract::<String>()?.as_str() {
            "exact" => Ok(Self::Exact),
            "resampled" => Ok(Self::Resampled),
            other => {
                let expected = "exact, resampled or rows of 0 and 1";
                Err(exception(Error::invalid("samples", other, expected)))
            }
        }
    }
}

/// The result of a forward and a reverse run: its figures and the bridge that joins the runs.
pub struct BothWays {
    figures: Both,
    bridge: Bridge,
}

/// The figures of a forward and a reverse run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Both {
    figures: Figures,
    exact: bool,
    overlap: f64,
    gap: f64,
    forward: Vec<f64>,
    reverse: Vec<f64>,
}

impl Samples {
    /// Runs backward from the samples.
    pub fn run(
        self,
        ais: &Ais<'_, &RbmPath, BlockGibbs>,
        rbm: &Rbm,
        forward: &Run<Vec<bool>>,
    ) -> Result<BothWays> {
        let chains = forward.chains();
        let samples = match self {
            Self::Exact => TargetSamples::exact(rbm.exact_samples(chains, forward.seed())?),
            Self::Resampled => ais.resampled(forward, MOVES)?,
            Self::Given(mut states) => {
                states.truncate(chains);
                TargetSamples::approximate(states)
            }
        };
        BothWays::new(
            forward,
            &ais.reverse(&samples)?,
            ("annealed.rbm", samples.is_exact()),
        )
    }
}

impl BothWays {
    /// Joins a forward and a reverse run of `call`.
    pub fn new<S>(
        forward: &Run<S>,
        reverse: &ReverseRun<S>,
        (call, exact): (&str, bool),
    ) -> Result<Self> {
        let bridge = Bridge::new(forward, reverse)?;
        let figures = Both {
            figures: Figures::of(&bridge).by(call, forward.seed()),
            exact,
            overlap: bridge.estimate().overlap(),
            gap: bridge.gap(),
            forward: forward.log_weights().to_vec(),
            reverse: reverse.backward().log_weights().to_vec(),
        };
        Ok(Self { figures, bridge })
    }
}

/// Log Z from both directions of one path, joined by Bennett's acceptance ratio.
#[pyclass(extends = LogZ, frozen, module = "annealed")]
pub struct BothDirections {
    both: Both,
    bridge: Option<Bridge>,
}

impl BothDirections {
    /// Creates the object of Python.
    pub fn object(py: Python<'_>, found: BothWays) -> PyResult<Bound<'_, PyAny>> {
        Self::of(py, found.figures, Some(found.bridge))
    }

    fn of(py: Python<'_>, both: Both, bridge: Option<Bridge>) -> PyResult<Bound<'_, PyAny>> {
        let figures = both.figures.clone();
        let base = PyClassInitializer::from(LogZ { figures });
        Ok(Bound::new(py, base.add_subclass(Self { both, bridge }))?.into_any())
    }
}

impl Kept for Both {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        BothDirections::of(py, self, None)
    }
}

#[pymethods]
impl BothDirections {
    /// Whether the reverse chains began at exact samples. Other samples can only show that the stages are too few; they
    /// miss what the forward chains missed.
    #[getter]
    fn is_exact(&self) -> bool {
        self.both.exact
    }

    /// Share of the chains' trajectories that both directions have in common: 1 if the directions take the same
    /// trajectories; below .03 they share hardly any.
    #[getter]
    fn overlap(&self) -> f64 {
        self.both.overlap
    }

    /// Log Z from the reverse chains alone minus log Z from the forward chains alone.
    #[getter]
    fn gap(&self) -> f64 {
        self.both.gap
    }

    /// Log weights of the forward chains, (chains,).
    #[getter]
    fn forward_log_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.both.forward.to_pyarray(py)
    }

    /// Log weights of the reverse chains, (chains,).
    #[getter]
    fn reverse_log_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.both.reverse.to_pyarray(py)
    }

    /// Draws the log weights of both directions, which cross at log Z, as an SVG file.
    ///
    /// Raises OSError if the file cannot be written, and ValueError after pickling, because a pickle contains only the
    /// figures.
    fn plot(&self, path: PathBuf) -> PyResult<()> {
        match &self.bridge {
            Some(bridge) => annealed_plot::bridge(bridge).save(path).or_raise(),
            None => Err(PyValueError::new_err(
                "a pickle holds no picture: plot before it is pickled",
            )),
        }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce::<Self>(py, &self.both)
    }

    #[staticmethod]
    fn _restore<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        restore::<Both>(py, bytes)
    }
}
