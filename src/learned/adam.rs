//! Adam, an optimizer for stochastic gradients.

/// Decay of the running mean of the gradient.
const MEAN_DECAY: f64 = 0.9;
/// Decay of the running mean of the squared gradient.
const SQUARE_DECAY: f64 = 0.999;
/// Added to the denominator, to keep the division finite.
const EPSILON: f64 = 1e-8;

/// The Adam optimizer (Kingma and Ba 2015) for one flat vector of parameters. The constants are
/// those of the paper.
#[derive(Debug, Clone)]
pub(super) struct Adam {
    mean: Vec<f64>,
    square: Vec<f64>,
    step: i32,
}

impl Adam {
    pub(super) fn new(len: usize) -> Self {
        Self {
            mean: vec![0.0; len],
            square: vec![0.0; len],
            step: 0,
        }
    }

    /// One step up the gradient.
    pub(super) fn ascend(&mut self, parameters: &mut [f64], gradient: &[f64], rate: f64) {
        self.step = self.step.saturating_add(1);
        let rate = rate / (1.0 - MEAN_DECAY.powi(self.step));
        let square_scale = 1.0 / (1.0 - SQUARE_DECAY.powi(self.step));
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((parameter, slope), (mean, square)) in parameters.iter_mut().zip(gradient).zip(moments)
        {
            *mean += (1.0 - MEAN_DECAY) * (slope - *mean);
            *square += (1.0 - SQUARE_DECAY) * (slope * slope - *square);
            *parameter += rate * *mean / ((*square * square_scale).sqrt() + EPSILON);
        }
    }
}

/// Scales a gradient in several parts down to a norm of at most `bound`.
pub(super) fn clip(parts: &mut [Vec<f64>], bound: f64) {
    let squares = parts.iter().flatten().map(|x| x * x);
    let norm = squares.sum::<f64>().sqrt();
    if norm > bound {
        let scale = bound / norm;
        parts.iter_mut().flatten().for_each(|x| *x *= scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_step_is_the_rate_in_the_direction_of_the_gradient() {
        let mut parameters = [1.0, 1.0, 1.0];
        Adam::new(3).ascend(&mut parameters, &[1e-3, -50.0, 0.0], 0.1);
        for (found, expected) in parameters.iter().zip([1.1, 0.9, 1.0]) {
            assert!((found - expected).abs() < 1e-5, "{found}");
        }
    }

    #[test]
    fn finds_the_top_of_a_parabola() {
        let mut adam = Adam::new(1);
        let mut parameter = [0.0];
        for _ in 0..2_000 {
            let gradient = [3.0 - parameter[0]];
            adam.ascend(&mut parameter, &gradient, 0.01);
        }
        assert!((parameter[0] - 3.0).abs() < 1e-3, "{}", parameter[0]);
    }

    #[test]
    fn clipping_keeps_the_direction() {
        let mut parts = [vec![3.0], vec![4.0]];
        clip(&mut parts, 10.0);
        assert_eq!(parts, [[3.0], [4.0]]);
        clip(&mut parts, 1.0);
        assert!((parts[0][0] - 0.6).abs() < 1e-15 && (parts[1][0] - 0.8).abs() < 1e-15);
    }
}
