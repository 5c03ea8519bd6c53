//! Tables of biases: means over seeds, with standard errors.

use std::fmt::Write;

use crate::exact::Family;
use crate::model::Fold;
use crate::{Line, Method, NOISES};

/// Returns a table for each model, with a row for each noise and method.
pub fn markdown(lines: &[Line]) -> String {
    let mut text = String::new();
    for fold in [Fold::Square, Fold::Absolute] {
        let of_fold: Vec<&Line> = lines.iter().filter(|line| line.fold == fold).collect();
        if of_fold.is_empty() {
            continue;
        }
        let name = match fold {
            Fold::Square => "z^2",
            Fold::Absolute => "|z|",
        };
        let _ = write!(
            text,
            "\nx = s {name} + sigma e\n\n\
             | sigma | laws of z | bias of log sigma | bias of log s | log p(x) lost | gap | seeds | seconds |\n\
             |---|---|---|---|---|---|---|---|\n"
        );
        for noise in NOISES {
            let of_noise = of_fold.iter().filter(|line| line.noise == noise);
            rows(&of_noise.copied().collect::<Vec<_>>(), &mut text);
        }
    }
    text
}

/// Writes rows for the lines of one model and noise, against maximum likelihood on the same data.
fn rows(lines: &[&Line], text: &mut String) {
    let likelihood = Method::Exact {
        family: Family::Posterior,
    };
    let mut methods: Vec<Method> = Vec::new();
    for line in lines {
        if !methods.contains(&line.method) {
            methods.push(line.method);
        }
    }
    for method in methods {
        let pairs: Vec<(&Line, &Line)> = lines
            .iter()
            .filter(|line| line.method == method)
            .filter_map(|line| {
                let best = lines
                    .iter()
                    .find(|other| other.method == likelihood && other.seed == line.seed)?;
                Some((*line, *best))
            })
            .collect();
        let mean = |of: &dyn Fn(&Line, &Line) -> f64| {
            let values: Vec<f64> = pairs.iter().map(|(line, best)| of(line, best)).collect();
            Mean::of(&values)
        };
        let [deviation, scale] = if method == likelihood {
            // Against the truth: the scatter of the estimator itself.
            [
                mean(&|line, _| line.theta[0] - line.noise.ln()),
                mean(&|line, _| line.theta[1]),
            ]
        } else {
            [0, 1].map(|i| mean(&|line, best| line.theta[i] - best.theta[i]))
        };
        let lost = mean(&|line, best| best.log_likelihood - line.log_likelihood);
        let gap = mean(&|line, _| line.log_likelihood - line.bound);
        let noise = lines[0].noise;
        let seconds = pairs.iter().map(|(line, _)| line.seconds).sum::<f64>();
        let _ = writeln!(
            text,
            "| {noise} | {} | {} | {} | {} | {:.3} | {} | {seconds:.0} |",
            name(method),
            deviation.text(3),
            scale.text(3),
            lost.text(4),
            gap.value,
            pairs.len(),
        );
    }
}

fn name(method: Method) -> String {
    match method {
        Method::Exact {
            family: Family::Posterior,
        } => "exact (less the truth)".into(),
        Method::Exact {
            family: Family::Gaussian,
        } => "Gaussian".into(),
        Method::Exact {
            family: Family::Mixture,
        } => "two Gaussians".into(),
        Method::Learned {
            annealed,
            transitions,
            iterations,
        } => {
            let objective = if annealed { "AVO" } else { "ELBO" };
            format!("{objective}, T = {transitions}, {iterations} updates")
        }
    }
}

struct Mean {
    value: f64,
    standard_error: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|x| (x - value).powi(2)).sum::<f64>();
        Self {
            value,
            standard_error: (squares / (count - 1.0) / count).sqrt(),
        }
    }

    fn text(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$})", self.value, self.standard_error)
    }
}
