//! Reads the comments of CSV files by CmdStan and RStan, which state how many rows are warm-up and how many are draws.

/// The comment that follows the rows of the warm-up.
pub(super) const ADAPTED: &str = "Adaptation terminated";

/// Numbers of rows that a run of CmdStan writes, by the comments of its file.
pub(super) struct CmdStanRows {
    pub(super) warm_up: usize,
    draws: usize,
}

impl CmdStanRows {
    /// Reads the comments before the header. Returns `None` if another program wrote the file.
    pub(super) fn of(comments: &[&str], names: &[String]) -> Result<Option<Self>, String> {
        let is_header =
            matches!(names, [first, second, ..] if first == "lp__" && second == "accept_stat__");
        let settings = |name: &str| setting(comments, name);
        match settings("method") {
            Some("sample") => {}
            Some(other) => return Err(format!("method {other} of CmdStan, expected sample")),
            None if is_header || settings("num_samples").is_some() => {}
            None => return Ok(None),
        }
        if settings("algorithm") == Some("fixed_param") {
            return Err("algorithm fixed_param of CmdStan, expected draws of the posterior".into());
        }
        let (warm_up, draws) = match settings("iter") {
            // RStan counts the warm-up among its iterations.
            Some(_) if settings("num_warmup").is_none() => {
                let (all, warm_up) = (number(comments, "iter")?, number(comments, "warmup")?);
                (warm_up, all.saturating_sub(warm_up))
            }
            _ => (
                number(comments, "num_warmup")?,
                number(comments, "num_samples")?,
            ),
        };
        let thin = number(comments, "thin")?.max(1);
        let saved = match settings("save_warmup") {
            Some("1" | "true") => true,
            Some("0" | "false") => false,
            _ => return Err(missing("save_warmup")),
        };
        // CmdStan writes the first row of each phase, and every `thin`-th row after it.
        Ok(Some(Self {
            warm_up: if saved { warm_up.div_ceil(thin) } else { 0 },
            draws: draws.div_ceil(thin),
        }))
    }

    /// Refuses a file with `rows` rows in total and `adapted` rows of adaptation if its comments state other numbers.
    pub(super) fn check(&self, rows: usize, adapted: Option<usize>) -> Result<(), String> {
        let Self { warm_up, draws } = self;
        if let Some(before) = adapted.filter(|before| before != warm_up) {
            return Err(format!(
                "{before} rows before `{ADAPTED}`, expected a warm-up of {warm_up} by num_warmup, save_warmup and thin"
            ));
        }
        match warm_up.checked_add(*draws) {
            Some(all) if all == rows => Ok(()),
            _ => Err(format!(
                "{rows} rows, expected {warm_up} of warm-up and {draws} draws by num_warmup, save_warmup, num_samples and \
                 thin: the run was not finished, or rows were taken away"
            )),
        }
    }
}

/// Returns the first word of the value of the setting `name`, which is `1` for `#     thin = 1 (Default)`.
fn setting<'t>(comments: &[&'t str], name: &str) -> Option<&'t str> {
    let settings = comments.iter().filter_map(|line| line.split_once('='));
    let mut values = settings.filter(|(key, _)| key.trim_start_matches('#').trim() == name);
    values.next()?.1.split_whitespace().next()
}

fn number(comments: &[&str], name: &str) -> Result<usize, String> {
    let value = setting(comments, name).ok_or_else(|| missing(name))?;
    let wrong = |_| format!("comment {name} = {value}, expected a whole number");
    value.parse().map_err(wrong)
}

fn missing(name: &str) -> String {
    format!("a file of CmdStan without the comment {name}, so that its warm-up is unknown")
}
