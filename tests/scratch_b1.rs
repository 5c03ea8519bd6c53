use annealed::prelude::*;
use annealed::rbm::*;
use std::time::Instant;
fn main_() {
    for f in std::env::var("MACHINES").unwrap().split(',') {
        let file = RbmFile::<f32>::read(f).unwrap();
        let rbm = file.rbm;
        let b = Instant::now();
        let exact = if rbm.hidden_units() <= 20 { rbm.exact_log_normalizer().unwrap() } else { f64::NAN };
        println!("{f} {}x{} exact {exact} ({:.1} s)", rbm.hidden_units(), rbm.visible_units(), b.elapsed().as_secs_f64());
        for starts in [64, 1000] {
            if starts > 64 && rbm.hidden_units() > 20 { continue }
            let b = Instant::now();
            let l = rbm.lower_bound(&[], starts, 0).unwrap();
            println!("  {starts} coins: value {:.3} mode {:.3} conf {:.3} modes {} {:.2} s", l.value, l.modes[0].bound, l.configurations, l.modes.len(), b.elapsed().as_secs_f64());
        }
        let mut all = vec![];
        for base in [file.base.clone(), Some(BaseRate::uniform(rbm.hidden_units(), rbm.visible_units()).unwrap())] {
            let Some(base) = base else { println!("  no base"); continue };
            let path = RbmPath::new(base, rbm.clone()).unwrap();
            let k = if rbm.hidden_units() <= 20 {1000} else {100};
            let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(k).unwrap()).chains(256).run().unwrap();
            let b = Instant::now();
            let l = rbm.lower_bound(run.states(), 0, 0).unwrap();
            println!("  run {run} {:.2} s, certified {:.3}", run.seconds(), run.certified_lower_bound(0.95).unwrap().unwrap());
            println!("  256 states: value {:.3} mode {:.3} conf {:.3} modes {} {:.2} s", l.value, l.modes[0].bound, l.configurations, l.modes.len(), b.elapsed().as_secs_f64());
            all.extend_from_slice(run.states());
        }
        let l = rbm.lower_bound(&all, 64, 0).unwrap();
        println!("  all: value {:.3} mode {:.3} conf {:.3} modes {}", l.value, l.modes[0].bound, l.configurations, l.modes.len());
    }
}
#[test] fn measure() { main_() }
