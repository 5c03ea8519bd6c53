//! Deep Boltzmann machines, written as RBMs: the even layers are the visible units, the odd layers the hidden ones.

use nalgebra::{DMatrix, DVector};

use crate::num::{Moments, sigmoid, softplus};
use crate::rbm::base_rate::check_data;
use crate::rbm::enumerate::map_tasks;
use crate::rbm::mean_field::{BLOCK, MeanField};
use crate::rbm::model::check_finite;
use crate::rbm::{BaseRate, Rbm, Scalar};
use crate::{Error, Result};

/// A deep Boltzmann machine (Salakhutdinov and Hinton 2009) of layers `v = h_0, h_1, .., h_L`, whose units are 0 or 1.
///
/// `f(v, h_1, .., h_L) = exp(sum_l b_l.h_l + sum_l h_l^T W_l h_(l-1))`, with weights `W_l` (M_l x M_(l-1)) and biases
/// `b_l` (M_l).
///
/// Given the odd layers, the even layers are independent, and vice versa. The machine therefore
/// [is an RBM](Self::to_rbm) with visible units `v, h_2, ..`, hidden units `h_1, h_3, ..` and the same log Z. Every
/// estimator of an RBM's log Z applies to it. The likelihood of `v` alone has a
/// [lower bound](Self::log_likelihood_bound).
///
/// ```
/// use annealed::prelude::*;
/// use annealed::rbm::DeepBoltzmann;
/// use nalgebra::dmatrix;
///
/// // Three visible units, two units above them, one on top.
/// let weights = vec![dmatrix![1.0, -1.0, 0.5; -0.5, 1.0, 2.0], dmatrix![1.5, -0.5]];
/// let biases = vec![vec![0.1, -0.2, 0.3].into(), vec![0.2, -0.3].into(), vec![0.4].into()];
/// let deep = DeepBoltzmann::<f64>::new(weights, biases)?;
/// let rbm = deep.to_rbm()?; // 4 visible units and 2 hidden ones
/// let start = StartSearch::new(200).run(&rbm)?;
/// let path = RbmPath::new(start.base().clone(), rbm.clone())?;
/// let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(200)?).chains(256).run()?;
/// assert!((run.log_z() - rbm.exact_log_normalizer()?).abs() < 4.0 * run.standard_error());
/// let found = deep.log_likelihood_bound(&[vec![true, false, true]], run.log_z())?;
/// println!("log p(v) >= {:.3}", found.mean);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DeepBoltzmann<T: Scalar = f32> {
    weights: Vec<DMatrix<T>>,
    biases: Vec<DVector<T>>,
}

/// A lower bound on the mean log likelihood of data under a [`DeepBoltzmann`] machine, in nats per row.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LikelihoodBound {
    /// Mean of the bounds over the rows.
    pub mean: f64,
    /// The log Z used for `mean`. If it is too low, `mean` is too high by as much.
    pub log_z: f64,
    /// Standard error of `mean` over the rows; infinite for a single row. It leaves out the error of log Z.
    pub standard_error: f64,
    /// Number of rows.
    pub rows: usize,
}

/// Change of probabilities below which the mean-field iteration stops. The bound is valid for any probabilities.
const TOLERANCE: f64 = 1e-4;
const MAX_SWEEPS: usize = 1_000;

impl<T: Scalar> DeepBoltzmann<T> {
    /// Creates a machine from the weights `W_1, .., W_L` and the biases `b_0, .., b_L`, where `b_0` belongs to v.
    ///
    /// # Errors
    /// If there are no weights, a layer is empty, the sizes disagree, or a parameter is not finite.
    pub fn new(weights: Vec<DMatrix<T>>, biases: Vec<DVector<T>>) -> Result<Self> {
        Error::check_not_empty("weights of the layers", weights.len())?;
        Error::check_dimension("biases of the layers", biases.len(), weights.len() + 1)?;
        for bias in &biases {
            Error::check_not_empty("biases of a layer", bias.len())?;
            check_finite("biases of a layer", bias.as_slice())?;
        }
        for (weights, layers) in weights.iter().zip(biases.windows(2)) {
            Error::check_dimension("rows of weights", weights.nrows(), layers[1].len())?;
            Error::check_dimension("columns of weights", weights.ncols(), layers[0].len())?;
            check_finite("weights", weights.as_slice())?;
        }
        Ok(Self { weights, biases })
    }

    /// Returns the weights `W_1, .., W_L`.
    pub fn weights(&self) -> &[DMatrix<T>] {
        &self.weights
    }

    /// Returns the biases `b_0, .., b_L`.
    pub fn biases(&self) -> &[DVector<T>] {
        &self.biases
    }

    /// Returns the number of units of v.
    pub fn visible_units(&self) -> usize {
        self.biases[0].len()
    }

    /// Returns the RBM with visible units `v, h_2, h_4, ..` and hidden units `h_1, h_3, ..`, whose weights are the
    /// blocks `W_l` and zeros. It has the same log Z as the machine, and its states begin with v.
    ///
    /// # Errors
    /// If the RBM has too many weights for memory.
    pub fn to_rbm(&self) -> Result<Rbm<T>> {
        let places = self.places();
        let (visible, hidden) = (self.side(0), self.side(1));
        let entries = visible.len().saturating_mul(hidden.len());
        Error::check_count("weights of the RBM", entries, 1)?;
        let mut weights = DMatrix::zeros(hidden.len(), visible.len());
        for (l, block) in self.weights.iter().enumerate() {
            let (lower, upper) = (places[l], places[l + 1]);
            let mut put = |row, column, block: &DMatrix<T>| {
                weights
                    .view_mut((row, column), block.shape())
                    .copy_from(block);
            };
            match l % 2 {
                0 => put(upper, lower, block),
                _ => put(lower, upper, &block.transpose()),
            }
        }
        Rbm::new(weights, hidden, visible)
    }

    /// Returns the biases of all layers of one `parity` (0 for even, 1 for odd) in one vector.
    fn side(&self, parity: usize) -> DVector<T> {
        let biases = self.biases.iter().skip(parity).step_by(2);
        DVector::from_vec(biases.flat_map(|bias| bias.iter().copied()).collect())
    }

    /// Returns the index of each layer's first unit among the units of all layers of its parity.
    fn places(&self) -> Vec<usize> {
        let mut ends = [0; 2];
        let place = |(l, bias): (usize, &DVector<T>)| {
            let first = ends[l % 2];
            ends[l % 2] += bias.len();
            first
        };
        self.biases.iter().enumerate().map(place).collect()
    }

    /// Creates a base for the [RBM](Self::to_rbm) from data. Its rates are the base rates of v and, for the other even
    /// layers, which have no base rates, the mean over the rows of their [mean fields](Self::mean_fields).
    ///
    /// A rate is `(n + s) / (N + 2 s)`, where n is the sum of a unit's values or mean fields over the N rows, and s the
    /// `smoothing`. The base suits [`StartSearch::given`](crate::rbm::StartSearch::given).
    ///
    /// # Errors
    /// If `data` is empty, a row has another length than v, or `smoothing` is not finite and positive.
    pub fn base_from_data(&self, data: &[Vec<bool>], smoothing: f64) -> Result<BaseRate<T>> {
        Error::check_positive("smoothing", smoothing)?;
        let sums = self
            .blocks(data)?
            .into_iter()
            .map(|(means, _)| means.column_sum());
        let sum = sums.reduce(|a, b| a + b).expect("data have rows");
        let total = data.len() as f64 + 2.0 * smoothing;
        let rates = sum.map(|n| (n + smoothing) / total);
        BaseRate::from_rates(self.side(1).len(), &rates)
    }

    /// Computes the mean fields of the hidden layers given each row of `data`, as a matrix for each layer with a column
    /// for each row. The mean fields are probabilities that solve
    /// `mu_l = sigmoid(b_l + W_l mu_(l-1) + W_(l+1)^T mu_(l+1))` for l from 1 to L.
    ///
    /// # Errors
    /// If `data` is empty, or a row has another length than v.
    pub fn mean_fields(&self, data: &[Vec<bool>]) -> Result<Vec<DMatrix<f64>>> {
        let (mut even, mut odd) = (Vec::new(), Vec::new());
        let equations = MeanField::new(&self.to_rbm()?);
        for (means, _) in self.blocks(data)? {
            odd.extend(columns_of(&equations.hidden_logits(&means).map(sigmoid)));
            even.extend(columns_of(&means));
        }
        let sides = [even, odd].map(|columns| DMatrix::from_columns(&columns));
        let places = self.places();
        let layer = |l: usize| {
            sides[l % 2]
                .rows(places[l], self.biases[l].len())
                .into_owned()
        };
        Ok((1..self.biases.len()).map(layer).collect())
    }

    /// Computes a lower bound on the mean of `log p(v)` over `data`, given the machine's `log_z`, exact or from a run.
    /// It takes the units of the even layers above v as independent, with means `mu`, and sums the odd layers out:
    ///
    /// `log p(v) + log Z >= b_0.v + sum_even (b_l.mu_l + H(mu_l)) + sum_odd sum_j softplus(x_j)`,
    ///
    /// where `x = b_l + W_l mu_(l-1) + W_(l+1)^T mu_(l+1)` and H is the entropy. The bound holds for any `mu`; here
    /// they are [mean fields](Self::mean_fields). It is exact if these even layers have independent units given v.
    ///
    /// # Errors
    /// If `data` is empty, a row has another length than v, or `log_z` is not finite.
    pub fn log_likelihood_bound(&self, data: &[Vec<bool>], log_z: f64) -> Result<LikelihoodBound> {
        Error::check_number("log_z", log_z)?;
        let mut bounds = Moments::default();
        let blocks = self.blocks(data)?;
        let found = blocks.iter().flat_map(|(_, found)| found);
        found.for_each(|bound| bounds.add(bound - log_z));
        Ok(LikelihoodBound {
            mean: bounds.mean(),
            log_z,
            standard_error: bounds.standard_error(),
            rows: data.len(),
        })
    }

    /// Returns for each block of rows the means of the even layers, including v, and the bounds on `log p(v) + log Z`.
    fn blocks(&self, data: &[Vec<bool>]) -> Result<Vec<(DMatrix<f64>, Vec<f64>)>> {
        Error::check_dimension("row of data", check_data(data)?, self.visible_units())?;
        let equations = MeanField::new(&self.to_rbm()?);
        let blocks: Vec<_> = data.chunks(BLOCK).collect();
        Ok(map_tasks(blocks.len(), |block| {
            let means = self.solve(&equations, blocks[block]);
            let bounds = self.bounds(&equations, &means);
            (means, bounds)
        }))
    }

    /// Solves the mean-field equations given `rows`. Each half of a sweep, odd or even layers, raises the bounds.
    fn solve(&self, equations: &MeanField, rows: &[Vec<bool>]) -> DMatrix<f64> {
        let d = self.visible_units();
        let above = equations.visible_bias.len() - d;
        let mut means = DMatrix::from_element(d + above, rows.len(), 0.5);
        for (mut column, row) in means.column_iter_mut().zip(rows) {
            let units = column.iter_mut().zip(row);
            units.for_each(|(mean, &on)| *mean = f64::from(on));
        }
        for _ in 0..MAX_SWEEPS {
            let hidden = equations.hidden_logits(&means).map(sigmoid);
            let fields = equations.visible_fields(&hidden);
            let next = fields.rows(d, above).map(sigmoid);
            let change = (&next - means.rows(d, above)).amax();
            means.rows_mut(d, above).copy_from(&next);
            if above == 0 || change < TOLERANCE {
                break;
            }
        }
        means
    }

    fn bounds(&self, equations: &MeanField, means: &DMatrix<f64>) -> Vec<f64> {
        let logits = equations.hidden_logits(means);
        let bound = |(means, logits): (&[f64], &[f64])| {
            let linear = equations.visible_bias.iter().zip(means);
            let linear: f64 = linear.map(|(b, mean)| b * mean).sum();
            let entropies = means[self.visible_units()..].iter().map(entropy);
            linear + entropies.sum::<f64>() + logits.iter().map(|&x| softplus(x)).sum::<f64>()
        };
        let columns = means.column_iter().zip(logits.column_iter());
        let columns = columns.map(|(means, logits)| bound((means.as_slice(), logits.as_slice())));
        columns.collect()
    }
}

fn columns_of(matrix: &DMatrix<f64>) -> impl Iterator<Item = DVector<f64>> {
    matrix.column_iter().map(|column| column.into_owned())
}

/// Returns the entropy of a unit that is on with probability `p`, in nats.
fn entropy(p: &f64) -> f64 {
    let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    term(*p) + term(1.0 - p)
}
