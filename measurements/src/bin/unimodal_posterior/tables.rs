//! Tables of biases: means over seeds, with standard errors.

use std::fmt::Write;

use crate::exact::Family;
use crate::model::Fold;
use crate::{Line, Method, NOISES, Outcome};

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
             | sigma | laws of z | bias of log sigma | bias of log s | log p(x) lost | log p(x) less bound | seeds |\n\
             |---|---|---|---|---|---|---|\n"
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
        let pair = |line: &&Line| {
            let same = |other: &&&Line| other.method == likelihood && other.seed == line.seed;
            Some((line.outcome?, lines.iter().find(same)?.outcome?))
        };
        let of_method = lines.iter().filter(|line| line.method == method);
        let pairs: Vec<(Outcome, Outcome)> = of_method.filter_map(pair).collect();
        let mean = |of: &dyn Fn(&Outcome, &Outcome) -> f64| {
            let values: Vec<f64> = pairs.iter().map(|(own, best)| of(own, best)).collect();
            Mean::of(&values)
        };
        let noise = lines[0].noise;
        let [deviation, scale] = [0, 1].map(|i| {
            mean(&|own, best| {
                // Maximum likelihood is compared with the truth, all others with maximum likelihood.
                let truth = [noise.ln(), 0.0][i];
                let reference = if method == likelihood {
                    truth
                } else {
                    best.theta[i]
                };
                own.theta[i] - reference
            })
        });
        let lost = mean(&|own, best| best.log_likelihood - own.log_likelihood);
        let gap = mean(&|own, _| own.log_likelihood - own.bound);
        let halved = pairs.iter().filter(|(own, _)| own.halvings > 0).count();
        let halved = match halved {
            0 => String::new(),
            some => format!(" ({some} at a lower rate)"),
        };
        let _ = writeln!(
            text,
            "| {noise} | {}{halved} | {} | {} | {} | {} | {} |",
            name(method),
            deviation.text(3),
            scale.text(3),
            lost.text(4),
            gap.text(3),
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
            ..
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
