//! Trial: rows of the likelihood for an error, by rounds from a fitted base and from the path's own.
use annealed::model::UniformBox;
use annealed::prelude::*;
use std::f64::consts::{PI, TAU};
use std::sync::atomic::{AtomicU64, Ordering};

type V = DVector<f64>;
type Like = Box<dyn Fn(&V) -> f64 + Send + Sync>;
type Base = Box<dyn Fn() -> Prior_ + Send + Sync>;
enum Prior_ {
    Normal(usize),
    Box_(usize, f64, f64),
}

fn log_sum(a: f64, b: f64) -> f64 {
    let m = a.max(b);
    m + ((a - m).exp() + (b - m).exp()).ln()
}

fn grid(n: usize, lo: f64, hi: f64, f: impl Fn(f64, f64) -> f64) -> f64 {
    let h = (hi - lo) / n as f64;
    let mut terms = Vec::new();
    for i in 0..n {
        for j in 0..n {
            terms.push(f(lo + (i as f64 + 0.5) * h, lo + (j as f64 + 0.5) * h));
        }
    }
    let m = terms.iter().cloned().fold(f64::MIN, f64::max);
    m + terms.iter().map(|t| (t - m).exp()).sum::<f64>().ln() + 2.0 * h.ln() - 2.0 * (hi - lo).ln()
}

fn gauss(x: &[f64], m: f64, s: f64) -> f64 {
    x.iter()
        .map(|x| -0.5 * ((x - m) / s).powi(2) - (s * TAU.sqrt()).ln())
        .sum()
}

/// `w N(m1, s1) + (1 - w) N(m2, s2)` within the prior N(0, I * 4)... as likelihood times prior of log Z about 0.
fn mixture(d: usize, w: f64, s1: f64, s2: f64) -> (f64, Prior_, Like) {
    // Box [-10, 10]^d: log Z = -d ln 20 (modes inside).
    (
        -(d as f64) * 20f64.ln(),
        Prior_::Box_(d, -10.0, 10.0),
        Box::new(move |x: &V| {
            log_sum(
                w.ln() + gauss(x.as_slice(), -3.0, s1),
                (1.0 - w).ln() + gauss(x.as_slice(), 3.0, s2),
            )
        }),
    )
}

fn problems() -> Vec<(&'static str, (f64, Prior_, Like))> {
    let mut all: Vec<(&'static str, (f64, Prior_, Like))> = Vec::new();
    all.push((
        "normal 1-d",
        (
            gauss(&[1.3], 0.0, (1.0f64 + 0.04).sqrt()),
            Prior_::Normal(1),
            Box::new(|x: &V| gauss(&[x[0]], 1.3, 0.2)),
        ),
    ));
    // Beetles: logistic, priors N(0,1) after scaling: intercept 5 z0, slope 40 z1, dose centred.
    let dose = [
        1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839,
    ];
    let n = [59.0, 60.0, 62.0, 56.0, 63.0, 59.0, 62.0, 60.0];
    let y = [6.0, 13.0, 18.0, 28.0, 52.0, 53.0, 61.0, 60.0];
    let beetles = move |a: f64, b: f64| -> f64 {
        (0..8)
            .map(|i| {
                let eta = 5.0 * a + 40.0 * b * (dose[i] - 1.793);
                y[i] * -((-eta).exp().ln_1p()) + (n[i] - y[i]) * -(eta.exp().ln_1p())
            })
            .sum()
    };
    let exact = {
        // quadrature
        let k = 1200;
        let (lo, hi) = (-1.0, 3.0);
        let h = (hi - lo) / k as f64;
        let mut m = Vec::new();
        for i in 0..k {
            for j in 0..k {
                let (a, b) = (lo + (i as f64 + 0.5) * h, lo + (j as f64 + 0.5) * h);
                m.push(beetles(a, b) - 0.5 * (a * a + b * b) - TAU.ln() + 2.0 * h.ln());
            }
        }
        let top = m.iter().cloned().fold(f64::MIN, f64::max);
        top + m.iter().map(|t| (t - top).exp()).sum::<f64>().ln()
    };
    all.push((
        "beetles 2-d",
        (
            exact,
            Prior_::Normal(2),
            Box::new(move |x: &V| beetles(x[0], x[1])),
        ),
    ));
    let cov = DMatrix::from_fn(5, 5, |i, j| 0.25 * 0.95f64.powi(i.abs_diff(j) as i32));
    let g = Gaussian::new(DVector::from_element(5, 1.0), cov).unwrap();
    let z = g.log_normalizer();
    all.push((
        "Gaussian in a box 5-d",
        (
            -5.0 * 20f64.ln(),
            Prior_::Box_(5, -10.0, 10.0),
            Box::new(move |x: &V| g.log_density(x) - z),
        ),
    ));
    // Eight schools: z = (mu/5 ... non-centred): mu = 5 z0, tau = exp(z1), theta = mu + tau * e.
    let (ys, ss) = (
        [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0],
        [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0],
    );
    let exact = {
        let k = 800;
        let mut m = Vec::new();
        let (lo, hi) = (-6.0, 6.0);
        let h = (hi - lo) / k as f64;
        for i in 0..k {
            for j in 0..k {
                let (a, b) = (lo + (i as f64 + 0.5) * h, lo + (j as f64 + 0.5) * h);
                let (mu, tau) = (5.0 * a, (1.0 + b).exp());
                let l: f64 = (0..8)
                    .map(|i| gauss(&[ys[i]], mu, (ss[i] * ss[i] + tau * tau).sqrt()))
                    .sum();
                m.push(l - 0.5 * (a * a + b * b) - TAU.ln() + 2.0 * h.ln());
            }
        }
        let top = m.iter().cloned().fold(f64::MIN, f64::max);
        top + m.iter().map(|t: &f64| (t - top).exp()).sum::<f64>().ln()
    };
    all.push((
        "eight schools 10-d",
        (
            exact,
            Prior_::Normal(10),
            Box::new(move |x: &V| {
                let (mu, tau) = (5.0 * x[0], (1.0 + x[1]).exp());
                (0..8)
                    .map(|i| gauss(&[ys[i]], mu + tau * x[i + 2], ss[i]))
                    .sum()
            }),
        ),
    ));
    all.push((
        "Gaussian 20-d in a cube",
        (
            -20.0 * 2f64.ln(),
            Prior_::Box_(20, -1.0, 1.0),
            Box::new(|x: &V| gauss(x.as_slice(), 0.2, 0.1)),
        ),
    ));
    // Regression 10-d.
    let mut s = 7u64;
    let mut u = move || {
        s = s
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((s >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let mut nrm = move || (-2.0 * u().ln()).sqrt() * (TAU * u()).cos();
    let x = DMatrix::from_fn(100, 10, |_, _| nrm());
    let w = DVector::from_fn(10, |_, _| nrm());
    let yy = &x * &w + DVector::from_fn(100, |_, _| 0.5 * nrm());
    let c = &x * x.transpose() + DMatrix::identity(100, 100) * 0.25;
    let gd = Gaussian::new(DVector::zeros(100), c).unwrap();
    let exact = gd.log_density(&yy) - gd.log_normalizer();
    all.push((
        "regression 10-d",
        (
            exact,
            Prior_::Normal(10),
            Box::new(move |b: &V| {
                let r = &yy - &x * b;
                -0.5 * r.norm_squared() / 0.25 - 100.0 * (0.5 * TAU.sqrt()).ln()
            }),
        ),
    ));
    let shell = |x: f64, y: f64| {
        let c = |cx: f64| {
            let r = ((x - cx).powi(2) + y * y).sqrt();
            -0.5 * ((r - 2.0) / 0.1).powi(2) - (0.1 * TAU.sqrt()).ln()
        };
        log_sum(c(-3.5), c(3.5))
    };
    all.push((
        "shells 2-d",
        (
            grid(3000, -6.0, 6.0, shell),
            Prior_::Box_(2, -6.0, 6.0),
            Box::new(move |x: &V| shell(x[0], x[1])),
        ),
    ));
    let rosen = |x: &V| {
        -(0..3)
            .map(|i| 100.0 * (x[i + 1] - x[i] * x[i]).powi(2) + (1.0 - x[i]).powi(2))
            .sum::<f64>()
    };
    all.push((
        "Rosenbrock 4-d",
        (f64::NAN, Prior_::Box_(4, -5.0, 5.0), Box::new(rosen)),
    ));
    let egg = |x: f64, y: f64| (2.0 + (x / 2.0).cos() * (y / 2.0).cos()).powi(5);
    all.push((
        "eggbox 2-d",
        (
            grid(4000, 0.0, 10.0 * PI, egg),
            Prior_::Box_(2, 0.0, 10.0 * PI),
            Box::new(move |x: &V| egg(x[0], x[1])),
        ),
    ));
    for d in [2, 5, 10] {
        for (n, w) in [(".95", 0.95), (".9", 0.9), (".8", 0.8)] {
            let name: &'static str = Box::leak(format!("mixture {n} {d}-d").into_boxed_str());
            all.push((name, mixture(d, w, 1.0, 1.0)));
        }
    }
    all.push(("widths .3 and 1, 3-d", mixture(3, 0.5, 1.0, 0.3)));
    all.push(("widths .25 and 1, 5-d", mixture(5, 0.5, 1.0, 0.25)));
    all.push(("Student t 2, 5-d", {
        let d = 5.0;
        let c = |d: f64| {
            // density of t_2 in 5-d within N(0, 10^2 I)? use a box
            d
        };
        let _ = c(d);
        (
            f64::NAN,
            Prior_::Box_(5, -50.0, 50.0),
            Box::new(|x: &V| -3.5 * (x.norm_squared() / 2.0).ln_1p()),
        )
    }));
    all
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (only, seeds, error, fitted) = (
        args[1].clone(),
        args[2].parse::<u64>().unwrap(),
        args[3].parse::<f64>().unwrap(),
        args[4] == "fitted",
    );
    for (name, (exact, prior, like)) in problems() {
        if !name.contains(only.as_str()) {
            continue;
        }
        let rows = AtomicU64::new(0);
        let counted = |x: &V| {
            rows.fetch_add(1, Ordering::Relaxed);
            like(x)
        };
        let (mut all, mut silent, mut warned, mut square, mut used, mut why) =
            (Vec::new(), 0, 0, 0.0, 0, Vec::new());
        let mut exact_or = exact;
        for seed in 0..seeds {
            rows.store(0, Ordering::Relaxed);
            let chains = std::env::var("CHAINS").map_or(128, |x| x.parse().unwrap());
            let kernel = RandomWalkMetropolis::new(0.5).unwrap();
            let go =
                |run: annealed::Result<annealed::adaptive::RoundsRun<V, RandomWalkMetropolis>>| run;
            let run = match prior {
                Prior_::Normal(d) => {
                    let path = TemperedPath::new(
                        Gaussian::standard(d).unwrap(),
                        FunctionModel::new(&counted),
                    );
                    let r = Rounds::new(&path, kernel)
                        .chains(chains)
                        .until_error(error)
                        .seed(seed);
                    if fitted {
                        go(r.fitted().run())
                    } else {
                        go(r.run())
                    }
                }
                Prior_::Box_(d, lo, hi) => {
                    let path = TemperedPath::new(
                        UniformBox::new(vec![(lo, hi); d]).unwrap(),
                        FunctionModel::new(&counted),
                    );
                    let r = Rounds::new(&path, kernel)
                        .chains(chains)
                        .until_error(error)
                        .seed(seed);
                    if fitted {
                        go(r.fitted().run())
                    } else {
                        go(r.run())
                    }
                }
            };
            match run {
                Ok(run) => {
                    if exact_or.is_nan() {
                        exact_or = run.log_z();
                    }
                    all.push(rows.load(Ordering::Relaxed));
                    let off = run.log_z() - exact_or;
                    square += off * off;
                    let wrong = off.abs() > 0.1f64.max(4.0 * run.standard_error());
                    let w = !run.warnings().is_empty();
                    silent += usize::from(wrong && !w);
                    warned += usize::from(w);
                    used += usize::from(run.fitted().is_some());
                    if let Some(n) = run.not_fitted() {
                        why.push(format!("{n:?}").split(' ').next().unwrap().to_owned());
                    }
                }
                Err(e) => {
                    why.push(e.to_string());
                }
            }
        }
        all.sort();
        println!(
            "{name:24} rows {:>8} (max {:>8}) rms {:.3} silent {silent} warned {warned} fitted {used} of {seeds} {why:?}",
            all.get(all.len() / 2).unwrap_or(&0),
            all.last().unwrap_or(&0),
            (square / all.len().max(1) as f64).sqrt()
        );
    }
}
