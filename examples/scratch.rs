//! Scratch.
use annealed::adaptive::*;
use annealed::model::*;
use annealed::prelude::*;
use std::f64::consts::TAU;
type V = DVector<f64>;

fn iso(d: usize, m: f64, s: f64) -> Gaussian {
    Gaussian::isotropic(V::from_element(d, m), s).unwrap()
}

fn measure<T>(
    name: &str,
    base: Gaussian,
    target: T,
    exact: f64,
    stages: usize,
    seeds: std::ops::Range<u64>,
    gradient: bool,
) where
    T: UnnormalizedModel<State = V> + Differentiable + Sync + Send,
{
    let path = GeometricPath::new(base, target);
    let walk = RandomWalkMetropolis::new(0.3).unwrap();
    let pass = AdaptiveSmc::new(&path, walk.clone())
        .chains(500)
        .seed(99)
        .first_pass()
        .unwrap();
    let schedule = pass.barrier.schedule(stages).unwrap();
    let mut counts = [0; 6];
    let (mut right, mut told, mut fixed) = (0, 0, 0);
    let (mut secs1, mut secs2) = (0.0, 0.0);
    let mut offs = vec![];
    let n = seeds.end - seeds.start;
    for seed in seeds {
        let first = Ais::new(&path, &pass.kernel)
            .schedule(schedule.clone())
            .chains(500)
            .seed(seed)
            .threads(1)
            .run()
            .unwrap();
        secs1 += first.seconds();
        let c = Challenge::new(&path, walk.clone(), &first)
            .seed(seed)
            .threads(1);
        let c = if gradient { c.with_gradient() } else { c };
        let c = c.run().unwrap();
        secs2 += c.seconds();
        let ok = |l: f64| (l - exact).abs() < 0.05;
        let w = !first.warnings().is_empty();
        let (i, t) = match c.judgement() {
            Judgement::Confirmed { .. } => (0, false),
            Judgement::Contradicted { .. } => (1, true),
            Judgement::Improved { .. } => (2, true),
            _ => (3, true),
        };
        counts[i] += 1;
        if w {
            counts[4] += 1
        }
        let off1 = first.log_z() - exact;
        if ok(first.log_z()) {
            right += 1
        }
        if ok(first.log_z()) || t || w {
            told += 1
        }
        if (c.log_z() - exact).abs() < 0.1f64.max(4.0 * c.standard_error()) {
            fixed += 1
        }
        let s = c.second();
        offs.push((
            off1,
            s.log_z() - exact,
            s.standard_error(),
            s.effective_sample_size() / s.chains() as f64,
            c.modes(),
            s.schedule().stages(),
            s.chains(),
            c.evaluations() as f64 / first.evaluations() as f64,
        ));
    }
    for o in offs.iter().take(4) {
        println!(
            "  first {:.2} second {:.2} +- {:.2} ess {:.2} modes {} stages {} chains {} cost {:.2}",
            o.0, o.1, o.2, o.3, o.4, o.5, o.6, o.7
        );
    }
    let mean = |f: &dyn Fn(usize) -> f64| (0..offs.len()).map(f).sum::<f64>() / n as f64;
    println!(
        "{name} g={gradient}: n {n} right(.05) {right} right-or-told {told} final right {fixed} confirmed {} contradicted {} improved {} undecided {} first warned {}; mean off first {:.3} second {:.3} rms second {:.3} ; s {:.2} {:.2}",
        counts[0],
        counts[1],
        counts[2],
        counts[3],
        counts[4],
        mean(&|i| offs[i].0),
        mean(&|i| offs[i].1),
        mean(&|i| offs[i].1.powi(2)).sqrt(),
        secs1 / n as f64,
        secs2 / n as f64
    );
}

fn funnel() -> impl UnnormalizedModel<State = V> + Differentiable + Sync + Send {
    GradientModel::new(10, |x: &[f64], g: &mut [f64]| {
        let v = x[0];
        let r: f64 = x[1..].iter().map(|x| x * x).sum();
        let e = (-v).exp();
        g[0] = -v / 9.0 - 4.5 + 0.5 * r * e;
        for i in 1..10 {
            g[i] = -x[i] * e;
        }
        -0.5 * (v * v / 9.0 + 9.0 * v + r * e)
    })
    .unwrap()
}

use annealed::estimate::log_sum_exp;
use annealed::kernel::{Metropolis, Repeat, SymmetricProposal};
use annealed::rand::{Rng, RngExt};

#[derive(Clone)]
struct FlipOne;
impl SymmetricProposal<Vec<bool>> for FlipOne {
    fn propose<R: Rng + ?Sized>(&self, _b: f64, s: &Vec<bool>, p: &mut Vec<bool>, rng: &mut R) {
        p.clone_from(s);
        let i = rng.random_range(0..s.len());
        p[i] = !p[i];
    }
}
#[derive(Clone, Debug, Default)]
struct Colours(Vec<u8>);
#[derive(Clone)]
struct Recolour(u8);
impl SymmetricProposal<Colours> for Recolour {
    fn propose<R: Rng + ?Sized>(&self, _b: f64, s: &Colours, p: &mut Colours, rng: &mut R) {
        p.0.clone_from(&s.0);
        let i = rng.random_range(0..s.0.len());
        p.0[i] = rng.random_range(0..self.0);
    }
}
#[derive(Clone, Debug)]
struct Sites(Vec<Vec<f64>>);
impl UnnormalizedModel for Sites {
    type State = Colours;
    fn log_density(&self, s: &Colours) -> f64 {
        s.0.iter()
            .zip(&self.0)
            .map(|(c, p)| p[*c as usize].ln())
            .sum()
    }
}
impl NormalizedModel for Sites {
    fn log_normalizer(&self) -> f64 {
        0.0
    }
}
impl Sampleable for Sites {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Colours {
        Colours(
            self.0
                .iter()
                .map(|p| {
                    let mut u: f64 = rng.random();
                    for (c, p) in p.iter().enumerate() {
                        if u < *p {
                            return c as u8;
                        }
                        u -= p;
                    }
                    0
                })
                .collect(),
        )
    }
}
fn q_of(_: &[Colours]) -> usize {
    *QS.get().unwrap()
}
static QS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
impl Rivals for Colours {
    type Base = Sites;
    fn propose(
        trails: &Trails<Self>,
        target: &Target<'_, Self>,
    ) -> annealed::Result<Proposals<Sites>> {
        let ends = trails.ends();
        let n = ends[0].0.len();
        let q = q_of(ends);
        let mut order: Vec<usize> = (0..ends.len()).collect();
        let l: Vec<f64> = ends.iter().map(|e| target.log_density(e)).collect();
        order.sort_by(|&a, &b| l[b].total_cmp(&l[a]));
        let mut modes: Vec<Vec<usize>> = vec![];
        for i in order {
            let near = |m: &Vec<usize>| {
                ends[m[0]]
                    .0
                    .iter()
                    .zip(&ends[i].0)
                    .filter(|(a, b)| a != b)
                    .count() as f64
                    <= 0.3 * n as f64
            };
            match modes.iter().position(near) {
                Some(m) => modes[m].push(i),
                None if modes.len() < 16 => modes.push(vec![i]),
                None => (),
            }
        }
        let mut bases = vec![];
        for m in &modes {
            for (r, (_, s)) in trails.rungs().enumerate() {
                if [0, 2, 4, 8, 16].contains(&r) {
                    let mut p = vec![vec![1.0 / q as f64; q]; n];
                    for &i in m {
                        for (p, c) in p.iter_mut().zip(&s[i].0) {
                            p[*c as usize] += 1.0;
                        }
                    }
                    for p in &mut p {
                        let t: f64 = p.iter().sum();
                        p.iter_mut().for_each(|x| *x /= t);
                    }
                    bases.push(Sites(p));
                }
            }
        }
        Ok(Proposals {
            modes: modes.len(),
            bases,
        })
    }
    fn refit(base: &Sites, states: &[Self], weights: &[f64]) -> Option<Sites> {
        let mut p = base.0.clone();
        for (s, w) in states.iter().zip(weights) {
            for (p, c) in p.iter_mut().zip(&s.0) {
                p[*c as usize] += w;
            }
        }
        for p in &mut p {
            let t: f64 = p.iter().sum();
            p.iter_mut().for_each(|x| *x /= t);
        }
        Some(Sites(p))
    }
}

fn discrete<S: Rivals, B, T, K>(name: &str, base: B, target: T, kernel: K, exact: f64, n: u64)
where
    B: Sampleable<State = S> + NormalizedModel + Sync + Send + 'static,
    T: UnnormalizedModel<State = S> + Sync + Send + 'static,
    K: for<'a> TransitionKernel<<GeometricPath<B, T> as AnnealingPath>::At<'a>>
        + for<'a> TransitionKernel<RivalAt<'a, GeometricPath<B, T>, S::Base>>
        + Clone
        + Sync
        + Send
        + 'static,
    S: std::fmt::Debug,
{
    let path = GeometricPath::new(base, target);
    let (mut wrong, mut warned, mut told, mut fixed) = (0, 0, 0, 0);
    let mut c4 = [0; 4];
    let mut show = String::new();
    for seed in 1..=n {
        let first = Ais::new(&path, &kernel)
            .schedule(Schedule::linear(200).unwrap())
            .chains(300)
            .seed(seed)
            .threads(1)
            .run()
            .unwrap();
        let c = Challenge::fixed(&path, kernel.clone(), &first)
            .seed(seed)
            .threads(1)
            .run()
            .unwrap();
        let is_right = |l: f64, e: f64| (l - exact).abs() < 0.1f64.max(4.0 * e);
        let r1 = is_right(first.log_z(), first.standard_error());
        if !r1 {
            wrong += 1
        }
        if !first.warnings().is_empty() {
            warned += 1
        }
        let i = match c.judgement() {
            Judgement::Confirmed { .. } => 0,
            Judgement::Contradicted { .. } => 1,
            Judgement::Improved { .. } => 2,
            _ => 3,
        };
        c4[i] += 1;
        if r1 || i > 0 || !first.warnings().is_empty() {
            told += 1
        }
        if is_right(c.log_z(), c.standard_error()) {
            fixed += 1
        }
        if seed == 1 {
            show = format!(
                "first off {:.2} second off {:.3} +- {:.3} modes {}",
                first.log_z() - exact,
                c.second().log_z() - exact,
                c.second().standard_error(),
                c.modes()
            );
        }
    }
    println!(
        "{name}: n {n} first wrong {wrong} warned {warned} right-or-told {told} final right {fixed} conf/contra/impr/undec {c4:?}; {show}"
    );
}

fn log_factorial(n: usize) -> f64 {
    (1..=n).map(|i| (i as f64).ln()).sum()
}
fn potts_exact(n: usize, q: usize, k: f64) -> f64 {
    let one: Vec<f64> = (0..=n)
        .map(|m| k * (m * m) as f64 / (2.0 * n as f64) - log_factorial(m))
        .collect();
    let mut all = one.clone();
    for _ in 1..q {
        all = (0..=n)
            .map(|m| log_sum_exp((0..=m).map(|i| all[i] + one[m - i])))
            .collect();
    }
    all[n] + log_factorial(n)
}

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = a[2].parse().unwrap();
    let g = a.get(3).is_some();
    let ex = 5.0 * TAU.ln() + 3f64.ln();
    let all = a[1] == "all";
    if a[1] == "funnel" || all {
        measure(
            "funnel from 3",
            iso(10, 0.0, 3.0),
            funnel(),
            ex,
            800,
            1..n + 1,
            g,
        );
        measure(
            "funnel from 1",
            iso(10, 0.0, 1.0),
            funnel(),
            ex,
            800,
            1..n + 1,
            g,
        );
    }
    if a[1] == "spike" || all {
        let t =
            GaussianMixture::new([(0.1, iso(10, 0.0, 1.0)), (0.9, iso(10, 0.0, 0.025))]).unwrap();
        measure("spike", iso(10, 0.0, 2.0), t, 0.0, 400, 1..n + 1, g);
    }
    if a[1] == "widths" || all {
        let t =
            GaussianMixture::new([(0.5, iso(10, -2.0, 0.2)), (0.5, iso(10, 2.0, 1.0))]).unwrap();
        measure("two widths", iso(10, 0.0, 3.0), t, 0.0, 400, 1..n + 1, g);
    }
    if a[1] == "level" || all {
        measure(
            "gauss",
            iso(10, 0.0, 1.0),
            iso(10, 0.5, 0.5),
            iso(10, 0.5, 0.5).log_normalizer(),
            200,
            1..n + 1,
            g,
        );
        let t = StudentT::new(iso(5, 1.0, 0.5), 3.0).unwrap();
        let z = t.log_normalizer();
        measure("student", iso(5, 0.0, 2.0), t, z, 200, 1..n + 1, g);
        let t = GaussianMixture::new([(0.5, iso(5, -1.5, 0.5)), (0.5, iso(5, 1.5, 0.5))]).unwrap();
        measure("two equal", iso(5, 0.0, 2.0), t, 0.0, 200, 1..n + 1, g);
        let t = GradientModel::new(8, |x: &[f64], g: &mut [f64]| {
            let mut l = 0.0;
            for k in 0..4 {
                let (a, b) = (x[2 * k], x[2 * k + 1]);
                let u = b - 0.5 * a * a;
                l += -0.5 * a * a / 4.0 - 0.5 * u * u / 0.25;
                g[2 * k] = -a / 4.0 + u * a / 0.25;
                g[2 * k + 1] = -u / 0.25;
            }
            l
        })
        .unwrap();
        measure(
            "banana",
            iso(8, 0.0, 3.0),
            t,
            4.0 * (TAU * 2.0 * 0.5).ln(),
            400,
            1..n + 1,
            g,
        );
    }
    if a[1] == "pspin" || all {
        for p in [3, 5] {
            for spins in [60usize, 200] {
                for j in [0.8, 1.0, 1.5] {
                    let of = move |ones: usize| {
                        let m = 2.0 * ones as f64 / spins as f64 - 1.0;
                        j * spins as f64 * m.powi(p)
                    };
                    let st = |k: usize| {
                        log_factorial(spins) - log_factorial(k) - log_factorial(spins - k)
                    };
                    let exact = log_sum_exp((0..=spins).map(|k| st(k) + of(k)));
                    let t = FunctionModel::new(move |x: &Vec<bool>| {
                        of(x.iter().filter(|b| **b).count())
                    });
                    discrete(
                        &format!("p-spin p={p} n={spins} j={j}"),
                        Bernoulli::new(V::zeros(spins)).unwrap(),
                        t,
                        Repeat::new(Metropolis(FlipOne), spins / 4).unwrap(),
                        exact,
                        n,
                    );
                }
            }
        }
    }
    if a[1] == "potts" {
        let q: usize = a[4].parse().unwrap();
        QS.set(q).unwrap();
        let kc = 2.0 * (q as f64 - 1.0) * (q as f64 - 1.0).ln() / (q as f64 - 2.0);
        for sites in [60usize, 150] {
            for r in [0.97, 1.03, 1.1, 1.2] {
                let k = kc * r;
                let exact = potts_exact(sites, q, k);
                let t = FunctionModel::new(move |x: &Colours| {
                    let mut c = vec![0.0f64; q];
                    for i in &x.0 {
                        c[*i as usize] += 1.0;
                    }
                    k / (2.0 * sites as f64) * c.iter().map(|c| c * c).sum::<f64>()
                });
                discrete(
                    &format!("potts q={q} n={sites} K/Kc={r}"),
                    Sites(vec![vec![1.0 / q as f64; q]; sites]),
                    t,
                    Repeat::new(Metropolis(Recolour(q as u8)), sites / 4).unwrap(),
                    exact,
                    n,
                );
            }
        }
    }
}
