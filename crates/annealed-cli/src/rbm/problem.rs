//! The RBM to score, and the path to it.

use annealed::rbm::{
    BaseRate, DeepBoltzmann, ExactMatching, LikelihoodBound, LogLikelihood, MAX_ENUMERATED_UNITS,
    MomentChains, PersistentMatching, Rbm, RbmPath,
};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use annealed_files::{DeepLayout, RbmFile, RbmLayout, read_deep};
use serde_json::{Value, json};

use super::options::{Base, Matching, Options, PathKind, Reverse};
use super::source::Source;

/// An RBM with its data and what is known about it.
pub struct Problem {
    pub rbm: Rbm,
    /// The deep machine from which the RBM was made, if there is one.
    pub deep: Option<DeepBoltzmann>,
    /// The base rates, if they are known.
    pub base_rates: Option<BaseRate>,
    pub log_z_exact: Option<f64>,
    pub held_out: Vec<Vec<bool>>,
    /// Text that lists the files and how they were read.
    pub note: String,
    /// Lines of advice for data that are less likely under the RBM than under base rates.
    pub advice: Vec<String>,
    /// Names of the files of the RBM and of data.
    pub files: Value,
}

/// Creates the path from a base to the RBM.
pub fn anneal_along(options: &Options, base: BaseRate, problem: &Problem) -> Result<RbmPath> {
    let rbm = problem.rbm.clone();
    if options.path == PathKind::Geometric {
        return RbmPath::new(base, rbm);
    }
    let knots = Schedule::linear(10)?;
    let smaller = rbm.hidden_units().min(rbm.visible_units());
    let default = match smaller {
        0..=20 => Matching::Exact,
        _ => Matching::Chains,
    };
    match options.matching.unwrap_or(default) {
        Matching::Exact => {
            let moments = rbm.exact_moments()?;
            RbmPath::moment_spline(base, rbm, &moments, knots, &ExactMatching::default())
        }
        Matching::Chains => {
            let chains = MomentChains::full().chains(200).sweeps(1_000).burn_in(300);
            let moments = chains.seed(options.seed).moments(&rbm)?;
            let matching = PersistentMatching::full().updates(5_000).seed(options.seed);
            RbmPath::moment_spline(base, rbm, &moments, knots, &matching)
        }
    }
}

impl Problem {
    /// Reads the RBM and the data that the options name.
    pub fn read(options: &Options) -> Result<Self> {
        let path = &options.weights;
        let (file, deep) = machine(options)?;
        let hidden = file.rbm.hidden_units();
        let visible = deep
            .as_ref()
            .map_or(file.rbm.visible_units(), DeepBoltzmann::visible_units);
        let units = deep.as_ref().map_or_else(
            || format!("{visible} visible and {hidden} hidden units"),
            |deep| format!("layers of {} units", layers(deep)),
        );
        let mut note = format!(
            "{}: {units}{}\n",
            path.display(),
            square(options, &file, &deep)
        );
        let mut rows = |source: &Source| -> Result<Vec<Vec<bool>>> {
            let (rows, read) = source.read(options.data_layout(), (visible, hidden))?;
            note += &read;
            Ok(rows)
        };
        let base_rates = match (&options.base_data, &deep) {
            (Some(source), Some(deep)) => Some(deep.base_from_data(&rows(source)?, 1.0)?),
            (Some(source), None) => Some(BaseRate::from_data(hidden, &rows(source)?, 1.0)?),
            (None, _) => file.base,
        };
        let held_out = options.data.as_ref().map_or(Ok(Vec::new()), &mut rows)?;
        check_sources(options, base_rates.is_some(), &held_out)?;
        let log_z_exact = match options.exact {
            true => enumerate(&file.rbm)?,
            false => file.log_z_exact,
        };
        let few = hidden.min(file.rbm.visible_units());
        if log_z_exact.is_none() && few <= MAX_ENUMERATED_UNITS {
            note +=
                &format!("{few} units in the smaller layer: --exact gives log Z without error\n");
        }
        Ok(Self {
            files: files(options),
            advice: advice(options, hidden == visible, base_rates.is_some()),
            rbm: file.rbm,
            deep,
            base_rates,
            log_z_exact,
            held_out,
            note,
        })
    }

    /// Returns the base without a search: the base rates, or fair coins for --base uniform.
    pub fn simple_base(&self, base: Base) -> Result<BaseRate> {
        match (&self.base_rates, base) {
            (Some(rates), Base::DataRate) => Ok(rates.clone()),
            _ => BaseRate::uniform(self.rbm.hidden_units(), self.rbm.visible_units()),
        }
    }

    /// Returns the base rates with which the scores are compared. If none are known, they come from the scored rows.
    fn baseline(&self) -> Result<BaseRate> {
        let of_rows = || BaseRate::from_data(self.rbm.hidden_units(), &self.held_out, 1.0);
        self.base_rates.clone().map_or_else(of_rows, Ok)
    }

    /// Returns the name of the model with which the scores are compared.
    pub fn baseline_name(&self) -> &'static str {
        match self.base_rates {
            Some(_) => "the base-rate model",
            None => "base rates of these rows",
        }
    }

    /// Bounds the likelihood of the held-out data under the deep machine, if both data and a deep machine are given.
    pub fn likelihood_bound(&self, log_z: f64) -> Result<Option<LikelihoodBound>> {
        let deep = self.deep.as_ref().filter(|_| !self.held_out.is_empty());
        deep.map(|deep| deep.log_likelihood_bound(&self.held_out, log_z))
            .transpose()
    }

    /// Scores the held-out data under the RBM. Returns `None` without data or for a deep machine.
    pub fn log_likelihood(&self, log_z: f64) -> Result<Option<LogLikelihood>> {
        match self.held_out.as_slice() {
            _ if self.deep.is_some() => Ok(None),
            [] => Ok(None),
            rows => (self.rbm)
                .log_likelihood(rows, log_z, &self.baseline()?)
                .map(Some),
        }
    }
}

/// Returns lines of advice for data that are less likely under an RBM than under base rates.
fn advice(options: &Options, is_square: bool, has_rates: bool) -> Vec<String> {
    let mut advice = Vec::new();
    if !has_rates {
        let own = "without --base-data the base rates are fitted to the scored rows themselves, a generous baseline: a correct \
                   machine that is hardly better than base rates may score lower; give the training data by --base-data";
        advice.push(own.to_owned());
    }
    if is_square {
        let turned = match options.square_transposed {
            Some(true) => "--square-transposed=false",
            _ => "--square-transposed",
        };
        let exchanged = match options.names.as_slice() {
            [w, a, b] => [w, b, a].map(String::as_str),
            _ => ["W", "b", "a"],
        };
        let names = exchanged.join(",");
        advice.push(format!(
            "the shape of square weights does not show which way round they are: try {turned}, exchanged biases (--names \
             {names}), or both"
        ));
    }
    let spins = "a machine of units -1 and 1 has to be converted first (annealed manual, \"Spins of -1 and 1\")";
    advice.push(spins.to_owned());
    advice
}

fn files(options: &Options) -> Value {
    let source = |source: &Option<Source>| source.as_ref().map(Source::to_string);
    json!({
        "rbm": options.weights.display().to_string(),
        "base_data": source(&options.base_data),
        "data": source(&options.data),
    })
}

/// Refuses options whose data are missing.
fn check_sources(options: &Options, has_rates: bool, held_out: &[Vec<bool>]) -> Result<()> {
    if options.base == Base::DataRate && !has_rates {
        let reason = "has no base rates to start from; expected --base-data with a file of training data, the key \
                      b_base (D), or --base auto";
        return Err(Error::file(&options.weights, reason));
    }
    let lacks_data = options.data.is_none() && options.base_data.is_none();
    if let Some(threshold) = options.threshold.filter(|_| lacks_data) {
        let expected = "data to which it applies, by --data or --base-data";
        return Err(Error::invalid("--threshold", threshold, expected));
    }
    if options.raise.is_some() && held_out.is_empty() {
        return Err(Error::invalid("--raise", "no rows", "data by --data"));
    }
    match &options.reverse {
        Some(Reverse::File(file)) if !file.exists() => {
            let expected = "no such file: --reverse takes exact, resampled or a file";
            Err(Error::file(file, expected))
        }
        _ => Ok(()),
    }
}

/// Reads the machine as an RBM, and with --layers also as a deep one.
fn machine(options: &Options) -> Result<(RbmFile, Option<DeepBoltzmann>)> {
    let path = &options.weights;
    if options.layers.is_empty() {
        return Ok((RbmFile::read_as(path, &layout(options)?)?, None));
    }
    let mut layout = DeepLayout::new(&options.layers);
    if !options.biases.is_empty() {
        layout = layout.biases(&options.biases);
    }
    let orientations = [
        DeepLayout::square_untransposed,
        DeepLayout::square_transposed,
    ];
    let layout = oriented(layout, options, orientations);
    let deep = read_deep(path, &layout)?;
    let file = RbmFile {
        rbm: deep.to_rbm()?,
        base: None,
        log_z_exact: None,
        chains: None,
    };
    Ok((file, Some(deep)))
}

/// Returns a note on how square weights were read, because their shape does not show it. Other weights need no note.
fn square(options: &Options, file: &RbmFile, deep: &Option<DeepBoltzmann>) -> String {
    let is_square = match deep {
        Some(deep) => {
            let mut pairs = deep.biases().windows(2);
            pairs.any(|pair| pair[0].len() == pair[1].len())
        }
        None => file.rbm.hidden_units() == file.rbm.visible_units(),
    };
    let way = match (options.square_transposed, deep) {
        (Some(true), _) => "visible by hidden",
        (None, Some(_)) => "the other layers show",
        _ => "hidden by visible",
    };
    match is_square {
        true => format!("; square weights were read as {way} (see --square-transposed)"),
        false => String::new(),
    }
}

/// Returns the sizes of all layers, as in 784-500-1000.
fn layers(deep: &DeepBoltzmann) -> String {
    let sizes: Vec<String> = deep
        .biases()
        .iter()
        .map(|bias| bias.len().to_string())
        .collect();
    sizes.join("-")
}

/// Returns the names of the parameters in the file.
fn layout(options: &Options) -> Result<RbmLayout> {
    let orientations = [RbmLayout::square_untransposed, RbmLayout::square_transposed];
    let layout = oriented(RbmLayout::default(), options, orientations);
    match options.names.as_slice() {
        [] => Ok(layout),
        [w, a, b] => Ok(layout.weights(w).hidden_bias(a).visible_bias(b)),
        names => {
            let expected = "three names, of the weights, hidden and visible biases; write zeros into the file for biases that \
                            the model lacks, as b=numpy.zeros(visible units)";
            Err(Error::invalid("--names", names.join(","), expected))
        }
    }
}

/// Returns the layout with the orientation from --square-transposed, if it is given.
fn oriented<L>(layout: L, options: &Options, [straight, transposed]: [fn(L) -> L; 2]) -> L {
    match options.square_transposed {
        Some(true) => transposed(layout),
        Some(false) => straight(layout),
        None => layout,
    }
}

/// Returns the exact log Z, or `None` if no layer is small enough.
fn enumerate(rbm: &Rbm) -> Result<Option<f64>> {
    let smaller = rbm.hidden_units().min(rbm.visible_units());
    if smaller > MAX_ENUMERATED_UNITS {
        eprintln!(
            "--exact is ignored: {smaller} units in the smaller layer are too many to enumerate"
        );
        return Ok(None);
    }
    rbm.exact_log_normalizer().map(Some)
}
