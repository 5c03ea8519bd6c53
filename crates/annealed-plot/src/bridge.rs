//! The chart of a forward run joined with a reverse run.

use annealed::bidirectional::Bridge;
use annealed::estimate::LogZ;

use super::Chart;
use super::histogram::Bins;
use super::text::{counted, log_z_of};

/// Returns a chart of the log weights in both directions, with Bennett's estimate.
///
/// Each chain is drawn at its own value of log Z: `log Z_0 + log w` if forward, `log Z_0 - log w` if reverse. With
/// exact samples the two densities cross at log Z (Crooks 1999): `p_reverse(x) =
/// p_forward(x) exp(x - log Z)`. If the overlap is below .03, the crossing is a guess. Free energies have the opposite
/// sign: the work on a forward chain, in units of kT, is `-log w`.
///
/// ```
/// # use annealed::prelude::*;
/// # let target = Gaussian::isotropic(DVector::repeat(2, 2.0), 0.5)?;
/// # let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// # let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5)?).chains(100);
/// # let samples = TargetSamples::draw(&target, 100, 1);
/// let bridge = Bridge::new(&ais.run()?, &ais.reverse(&samples)?)?;
/// # let file = std::env::temp_dir().join("annealed-bridge.svg");
/// annealed_plot::bridge(&bridge).vertical("exact", target.log_normalizer()).save(&file)?;
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<(), annealed::Error>(())
/// ```
pub fn bridge(bridge: &Bridge) -> Chart {
    let bins = Bins::of(bridge.log_z_by_chain());
    let value = log_z_of(bridge);
    let warnings = match bridge.warnings().len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "warning")),
    };
    let overlap = bridge.estimate().overlap();
    let title = format!("log Z = {value} from both directions, overlap {overlap:.2}{warnings}");
    let mut chart = Chart::new(&title, "log Z by one chain", "share of chains");
    for (name, sample) in ["forward", "reverse"]
        .into_iter()
        .zip(bridge.log_z_by_chain())
    {
        chart = chart.histogram(name, bins.ends(), &bins.shares(sample));
    }
    chart.estimate(&format!("Bennett: {value}"), bridge.log_z())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::both_directions;

    #[test]
    fn both_directions_meet_at_the_estimate() {
        let (_, bridge) = both_directions();
        let [up, down] = bridge.log_z_by_chain();
        assert_eq!((up.len(), down.len()), (200, 150));
        // On the axis of log Z the two means are the bounds, on either side of the estimate.
        let mean = |sample: &[f64]| sample.iter().sum::<f64>() / sample.len() as f64;
        assert!((mean(up) - bridge.lower_bound()).abs() < 1e-9);
        assert!((mean(down) - bridge.upper_bound().unwrap()).abs() < 1e-9);
        let svg = super::bridge(&bridge).to_svg().unwrap();
        let value = log_z_of(&bridge);
        for text in [
            format!("log Z = {value} from both directions, overlap 0."),
            format!(">Bennett: {value}<"),
            ">forward<".into(),
            ">reverse<".into(),
        ] {
            assert!(svg.contains(&text), "{text}: {svg}");
        }
        assert_eq!(svg.matches("<polygon").count(), 2);
    }
}
