use annealed::adaptive::Rounds;
use annealed::prelude::*;
fn main() {
    let at = |d: usize, s: f64, x: f64| Gaussian::isotropic(DVector::from_element(d, x), s).unwrap();
    for (w, chains, error, d, s) in [(0.2, 8, 0.2, 1, 0.3), (0.2, 10, 0.2, 1, 0.3), (0.2, 14, 0.2, 1, 0.3), (0.5, 8, 0.2, 1, 0.5)] {
        let target = GaussianMixture::new([(w, at(d, s, -2.0)), (1.0 - w, at(d, s, 2.0))]).unwrap();
        let path = GeometricPath::new(Gaussian::isotropic(DVector::from_element(d, 0.0), 1.5).unwrap(), target.clone());
        let (mut n, mut z, mut zz, mut of, mut rows, mut worst) = (0, 0.0, 0.0, [(0, 0.0); 2], 0, 0.0f64);
        for seed in 0..400 {
            let run = Rounds::new(&path, RandomWalkMetropolis::new(0.5).unwrap()).chains(chains).until_error(error).rounds(2).moves(1).seed(seed).fitted().run().unwrap();
            let r = run.log_z().exp();
            n += 1; z += r; zz += r * r; rows += run.evaluations(); worst = worst.max(r);
            let k = usize::from(run.fitted().is_some());
            of[k].0 += 1; of[k].1 += r;
        }
        let m = z / n as f64;
        println!("{w} {chains} {error}: {m:.4} +- {:.4}; unfitted {} {:.3} fitted {} {:.3}; rows {} max {worst:.2}", ((zz / n as f64 - m * m) / n as f64).sqrt(), of[0].0, of[0].1 / of[0].0 as f64, of[1].0, of[1].1 / of[1].0 as f64, rows / n);
    }
}
