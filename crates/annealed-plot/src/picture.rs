//! Pictures of runs: a headline, results that contradict it, and panels.

use std::path::Path;

use annealed::ais::Run;
use annealed::bidirectional::Bridge;
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::{Error, Result};

use super::frame::WIDTH;
use super::panels::{Named, panels, weights};
use super::reference::{GREY, RED};
use super::text::{counted, log_z_of, wrapped, write_text};
use super::{Chart, Drawing, bridge};

/// Returns the picture of named runs, as [`Plot`](crate::Plot) draws it. If the runs have different numbers of
/// stages, the horizontal axis shows `k / K` in place of k.
///
/// ```
/// # use annealed::prelude::*;
/// # let (base, target) = (Gaussian::standard(3)?, Gaussian::isotropic(DVector::repeat(3, 2.0), 0.5)?);
/// # let path = GeometricPath::new(base, &target);
/// # let kernel = RandomWalkMetropolis::new(0.5)?;
/// let ais = |schedule| Ais::new(&path, &kernel).schedule(schedule).chains(100);
/// let linear = ais(Schedule::linear(50)?).run()?;
/// let power = ais(Schedule::power(50, 2.0)?).run()?;
/// # let file = std::env::temp_dir().join("annealed-runs.svg");
/// annealed_plot::runs([("linear", &linear), ("power 2", &power)])
///     .exact(target.log_normalizer())
///     .save(&file)?;
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<(), annealed::Error>(())
/// ```
pub fn runs<'a, S: 'a, R: 'a>(
    runs: impl IntoIterator<Item = (&'a str, &'a Run<S, R>)>,
) -> Picture<'a, S, R> {
    Picture {
        runs: runs.into_iter().collect(),
        exact: None,
        both: None,
        warnings: Vec::new(),
        contradictions: Vec::new(),
        seed: None,
    }
}

/// A picture of one or more [`runs`], which can be saved as SVG.
///
/// The headline shows log Z with the error in units of the last digit, as 192.266(21). A bound or a reverse run that
/// contradicts it is drawn in red. The error of log Z along the path assumes independent chains. If a run is
/// [resampled](annealed::ais::Ais::resampling), log Z itself is drawn, less a straight line.
#[derive(Debug, Clone)]
#[must_use]
pub struct Picture<'a, S, R = ()> {
    runs: Vec<Named<'a, S, R>>,
    exact: Option<f64>,
    both: Option<Both>,
    warnings: Vec<Warning>,
    contradictions: Vec<String>,
    seed: Option<u64>,
}

/// The parts of a bridge that are drawn.
#[derive(Debug, Clone)]
struct Both {
    chart: Chart,
    result: String,
    warnings: Vec<Warning>,
}

impl<S, R> Picture<'_, S, R> {
    /// Adds the exact log Z.
    pub fn exact(mut self, log_z: f64) -> Self {
        self.exact = Some(log_z);
        self
    }

    /// Adds a run's reverse run: the [weights of both directions](bridge()) and Bennett's estimate.
    pub fn bridge(mut self, both: &Bridge) -> Self {
        let chains = counted(both.log_z_by_chain()[1].len(), "reverse chain");
        let value = log_z_of(both);
        self.both = Some(Both {
            chart: bridge(both),
            result: format!("with {chains}: log Z = {value} by Bennett's estimate"),
            warnings: both.warnings().to_vec(),
        });
        self
    }

    /// Shows this seed, from which the seeds of the runs follow.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds warnings that the runs do not contain, such as [warnings of a start](annealed::rbm::Start::warnings_of).
    pub fn warnings(mut self, warnings: &[Warning]) -> Self {
        self.warnings.extend_from_slice(warnings);
        self
    }

    /// Adds a red line below the headline, for example if two of the runs disagree.
    pub fn contradiction(mut self, text: impl Into<String>) -> Self {
        self.contradictions.push(text.into());
        self
    }

    /// Writes the picture to an SVG file.
    ///
    /// # Errors
    /// No run; [`Error::File`] if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        super::write(path.as_ref(), &self.drawing()?.document())
    }

    fn drawing(&self) -> Result<Drawing> {
        if self.runs.is_empty() {
            return Err(Error::invalid("runs", "none", "at least one"));
        }
        let mut sheet = Drawing::empty(WIDTH);
        sheet.add_row(&[self.headline()]);
        for row in self.rows() {
            let drawings = row.iter().map(Chart::drawing);
            sheet.add_row(&drawings.collect::<Result<Vec<_>>>()?);
        }
        Ok(sheet)
    }

    fn rows(&self) -> Vec<Vec<Chart>> {
        let mut weights = weights(&self.runs);
        if let Some(both) = &self.both {
            weights = both
                .chart
                .clone()
                .with_title("Log weights of both directions");
        }
        if let Some(exact) = self.exact {
            let name = format!("exact {exact:.3}");
            weights = weights.vertical(&name, exact);
        }
        for against in self.doubts().iter().filter_map(Contradiction::of) {
            weights = weights.vertical_in(RED, &against.name, against.log_z);
        }
        panels(&self.runs, weights)
    }

    /// Returns all warnings, the gravest first.
    fn doubts(&self) -> Vec<Warning> {
        let of_runs = self.runs.iter().flat_map(|(_, run)| run.warnings());
        let of_both = self.both.iter().flat_map(|both| &both.warnings);
        let mut doubts: Vec<Warning> = Vec::new();
        for doubt in of_runs.chain(of_both).chain(&self.warnings) {
            if !doubts.contains(doubt) {
                doubts.push(doubt.clone());
            }
        }
        doubts.sort_by_key(gravity);
        doubts
    }

    /// Draws the result, the settings of the runs, and the warnings.
    fn headline(&self) -> Drawing {
        let mut heading = Drawing::empty(WIDTH);
        let mut put = |size: f64, colour: &str, text: &str| {
            heading.height += 1.4 * size;
            let style = format!(" font-size=\"{size}\" fill=\"{colour}\"");
            let at = (14.0, heading.height + 4.0);
            write_text(&mut heading.svg, at, "start", &style, text);
        };
        put(18.0, "#000", &self.log_z_line());
        let doubts = self.doubts();
        for against in doubts.iter().filter_map(Contradiction::of) {
            put(15.0, RED, &against.text);
        }
        for text in &self.contradictions {
            let lines = wrapped(text, WIDTH * 0.92, 3);
            lines.iter().for_each(|line| put(12.0, RED, line));
        }
        for line in self.what_was_run() {
            put(12.0, GREY, &line);
        }
        if let Some(gravest) = doubts.first() {
            let others = match doubts.len() {
                1 => String::new(),
                count => format!("{count} warnings, the gravest: "),
            };
            // These letters are larger than labels, for which `wrapped` measures widths.
            for line in wrapped(&format!("{others}{gravest}"), WIDTH * 0.92, 3) {
                put(12.0, RED, &line);
            }
        }
        heading.height += 10.0;
        heading
    }

    fn log_z_line(&self) -> String {
        match self.runs.as_slice() {
            [(name, run)] => {
                let value = log_z_of(*run);
                let name = match name.is_empty() {
                    true => String::new(),
                    false => format!("{name}: "),
                };
                format!("{name}log Z = {value} nats")
            }
            runs => format!("log Z of {} runs, in nats", runs.len()),
        }
    }

    fn what_was_run(&self) -> Vec<String> {
        let over = |figure: &dyn Fn(&Run<S, R>) -> u64| {
            let figures = self.runs.iter().map(|(_, run)| figure(run));
            let (least, most) = figures.fold((u64::MAX, 0), |(least, most), figure| {
                (least.min(figure), most.max(figure))
            });
            match least == most {
                true => format!("{most}"),
                false => format!("{least} to {most}"),
            }
        };
        let mut run = format!(
            "{} chains × {} stages, seed {}",
            over(&|run| run.chains() as u64),
            over(&|run| run.schedule().stages() as u64),
            over(&|run| self.seed.unwrap_or_else(|| run.seed())),
        );
        if let Some(exact) = self.exact {
            run += &format!("; exact log Z = {exact:.4}");
            if let [(_, only)] = self.runs.as_slice() {
                run += &format!(", error {:+.4}", only.log_z() - exact);
            }
        }
        let joined = self.both.iter().map(|both| both.result.clone());
        std::iter::once(run).chain(joined).collect()
    }
}

/// A value of log Z that contradicts a run's value.
struct Contradiction {
    log_z: f64,
    name: String,
    text: String,
}

impl Contradiction {
    fn of(warning: &Warning) -> Option<Self> {
        let (log_z, name, text) = match *warning {
            Warning::BelowBound {
                bound, confidence, ..
            } => {
                let name = format!("at least {bound:.3}");
                let text = format!("too low: log Z is {name}, {}", sureness(confidence));
                (bound, name, text)
            }
            Warning::ForwardReverseGap { reverse, .. } => {
                let name = format!("reverse {reverse:.3}");
                let text = format!("contradicted by the reverse run: log Z = {reverse:.3}");
                (reverse, name, text)
            }
            _ => return None,
        };
        Some(Self { log_z, name, text })
    }
}

/// Returns the words for the confidence of a bound.
fn sureness(confidence: f64) -> String {
    match confidence < 1.0 {
        true => format!("with {}% confidence", 100.0 * confidence),
        false => "for certain".to_owned(),
    }
}

/// Returns the rank of a warning, 0 for the gravest: first contradictions, then warnings of wrong estimates, then of
/// wrong errors, then all others.
fn gravity(warning: &Warning) -> usize {
    match warning {
        Warning::BelowBound { .. } | Warning::FirstRunTooLow { .. } | Warning::BelowFits { .. } => {
            0
        }
        Warning::ForwardReverseGap { .. } => 1,
        Warning::BaseMissesTarget { .. } | Warning::MissingMass { .. } => 2,
        Warning::HeavyTail { .. }
        | Warning::HeavyFamilies { .. }
        | Warning::MergedFamilies { .. }
        | Warning::FlatFirstPass { .. }
        | Warning::RisingRounds { .. }
        | Warning::LowEffectiveSampleSize { .. }
        | Warning::DominantWeight { .. }
        | Warning::HigherPilot { .. }
        | Warning::WeakSearch { .. } => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{ais, both_directions, path};
    use annealed::ais::Ais;
    use annealed::kernel::CoordinateGibbs;
    use annealed::nalgebra::DVector;
    use annealed::path::GaussianPath;
    use annealed::population::Resampling;
    use annealed::schedule::Schedule;

    fn gibbs_run() -> Run<DVector<f64>> {
        let ends = path();
        let path = GaussianPath::new(ends.base().clone(), ends.target().clone()).unwrap();
        let ais = Ais::new(&path, CoordinateGibbs::systematic()).chains(200);
        let schedule = Schedule::linear(100).unwrap();
        ais.schedule(schedule).run().unwrap()
    }

    fn svg<S, R>(picture: &Picture<'_, S, R>) -> String {
        picture.drawing().unwrap().document()
    }

    fn texts(svg: &str) -> Vec<&str> {
        let texts = svg
            .split("</text>")
            .filter_map(|text| text.rsplit_once('>'));
        texts.map(|(_, text)| text).collect()
    }

    #[test]
    fn a_run_is_headed_by_its_result_and_what_was_run() {
        let run = gibbs_run();
        assert!(run.warnings().is_empty(), "{run}");
        let svg = svg(&runs([("", &run)]).exact(0.125));
        let texts = texts(&svg);
        let value = log_z_of(&run);
        assert_eq!(texts[0], format!("log Z = {value} nats"));
        let error = run.log_z() - 0.125;
        assert_eq!(
            texts[1],
            format!("200 chains × 100 stages, seed 0; exact log Z = 0.1250, error {error:+.4}")
        );
        let mean = format!("mean weight: {value}");
        assert!(texts.contains(&mean.as_str()));
        assert_eq!(
            texts.iter().filter(|text| **text == "exact 0.125").count(),
            1
        );
        // No correct result is red, and a Gibbs kernel has no acceptance.
        assert!(!svg.contains(RED) && !texts.contains(&"Acceptance"));
    }

    #[test]
    fn what_contradicts_a_run_is_red_in_the_headline_and_among_the_weights() {
        let run = gibbs_run();
        let too_low = Warning::BelowBound {
            bound: run.log_z() + 4.8,
            confidence: 1.0,
            upper: run.interval().1,
        };
        let few = Warning::FewChains { chains: 3 };
        let svg = svg(&runs([("", &run)]).warnings(&[few, too_low]));
        let texts = texts(&svg);
        let bound = format!("at least {:.3}", run.log_z() + 4.8);
        let told = format!("too low: log Z is {bound}, for certain");
        assert_eq!(texts[1], told);
        let gravest = format!(
            "2 warnings, the gravest: log Z {}",
            bound.replace("at", "is at")
        );
        assert!(texts[3].starts_with(&gravest), "{}", texts[3]);
        assert_eq!(texts.iter().filter(|text| **text == bound).count(), 1);
        let red_lines = format!("stroke=\"{RED}\"");
        assert_eq!(svg.matches(&red_lines).count(), 1);
    }

    #[test]
    fn runs_are_told_apart_by_colour_and_dashes_in_one_legend() {
        let path = path();
        let ais = || ais(&path, 20).chains(50).seed(3);
        let run = ais().run().unwrap();
        let resampled = ais().resampling(Resampling::when_ess_below(0.9).unwrap());
        let resampled = resampled.run().unwrap();
        let both = runs([("ais", &run), ("smc", &resampled)]);
        let svg = svg(&both);
        let texts = texts(&svg);
        assert_eq!(texts[0], "log Z of 2 runs, in nats");
        assert!(texts.contains(&"log Z along the path, less a straight line"));
        for name in ["ais: ", "smc: "] {
            assert_eq!(
                texts.iter().filter(|text| text.starts_with(name)).count(),
                1
            );
        }
        assert!(texts.contains(&"Acceptance"));
        // Four panels with lines, and the legend, use the second style.
        assert!(
            svg.matches("stroke=\"#0072b2\" stroke-width=\"1.6\" stroke-dasharray")
                .count()
                >= 5
        );
        assert_eq!(svg.matches("<polygon").count(), 2);
        let none: [(&str, &Run<()>); 0] = [];
        assert!(runs(none).drawing().is_err());
    }

    #[test]
    fn a_reverse_run_is_drawn_beside_the_forward_one() {
        let (run, bridge) = both_directions();
        let svg = svg(&runs([("", &run)]).bridge(&bridge));
        let texts = texts(&svg);
        let value = log_z_of(&bridge);
        assert!(
            texts[2].starts_with("with 150 reverse chains: log Z = "),
            "{}",
            texts[2]
        );
        for text in ["forward", "reverse", &format!("Bennett: {value}")] {
            assert!(texts.contains(&text), "{text} in {texts:?}");
        }
        assert!(!texts.contains(&"Log weights"));
    }
}
