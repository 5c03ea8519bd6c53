use annealed::ais::Ais;
use annealed::kernel::BlockGibbs;
use annealed::model::RbmFile;
use annealed::path::{Engine, RbmPath};
use annealed::schedule::Schedule;
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    s.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1e-9
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let block: usize = args.get(2).map_or(128, |s| s.parse().unwrap());
    let only = args.get(3).cloned();
    for name in ["rbm_mnist_500.npz", "rbm20_pcd.npz"] {
        if !name.contains(&args[1]) {
            continue;
        }
        let file = RbmFile::<f32>::read(format!("/work/shared/data/rbm/{name}")).unwrap();
        let base = file.base.clone().unwrap();
        for engine in Engine::ALL {
            if !engine.is_available() || only.as_ref().is_some_and(|o| *o != engine.to_string()) {
                continue;
            }
            let path = RbmPath::new(base.clone(), file.rbm.clone())
                .unwrap()
                .with_engine(engine)
                .unwrap();
            let steps = 500;
            let chains = block * 1024usize.div_ceil(block).min(1024 / block.min(1024)).max(1);
            let run = Ais::new(&path, BlockGibbs)
                .schedule(Schedule::linear(steps).unwrap())
                .chains(chains)
                .block_size(block)
                .recorded_stages(10);
            let mut r = vec![];
            let mut z = 0.0;
            for _ in 0..3 {
                let c = cpu();
                let run = run.run_range(0..chains).unwrap();
                r.push((chains * steps) as f64 / (cpu() - c));
                z = annealed::ais::PartialRun::merge([run]).unwrap().log_z();
            }
            r.sort_by(f64::total_cmp);
            println!(
                "{name} {engine} block {block}: {:.1}k/s  log z {z:.3}",
                r[1] / 1e3
            );
        }
    }
}
