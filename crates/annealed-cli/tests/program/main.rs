//! The program `annealed`, run as its users run it.

mod comparison;
mod inputs;
#[cfg(target_os = "linux")]
mod interruption;
mod misread;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use annealed::ais::RunPart;
use annealed::prelude::*;
use serde_json::Value;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
const RUST: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../annealed-files/tests/data/rust/"
);
const DATA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../annealed-files/tests/data/python/"
);

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("annealed-program-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_annealed"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Returns what a call prints, which has to end well.
fn printed(arguments: &[&str]) -> String {
    let output = program(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--json"]].concat())).unwrap()
}

/// Returns what a call that has to fail says of it.
fn refused(arguments: &[&str]) -> String {
    let output = program(arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
    assert!(
        output.stdout.is_empty() && !errors.contains("panicked"),
        "{errors}"
    );
    errors
}

/// A run on an RBM of PyTorch with its data, of 300 chains in three blocks.
fn scoring(more: &[&str]) -> Vec<String> {
    let data = format!("{DATA}zeros_and_ones.npy");
    let fixed = [
        "rbm",
        &format!("{DATA}float32.safetensors"),
        "--names",
        "W,h_bias,v_bias",
    ];
    let run = ["--base-data", &data, "--steps", "300", "--chains", "300"];
    [&fixed, run.as_slice(), more]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect()
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn an_rbm_scores_data_as_numpy_does() {
    let expected = fs::read_to_string(Path::new(DATA).join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let expected = &expected["rbms"]["float32.safetensors"];
    let data = format!("{DATA}zeros_and_ones.npy");
    let found = json(&words(&scoring(&[
        "--data",
        &data,
        "--exact",
        "--reverse",
        "exact",
    ])));
    let number = |value: &Value| value.as_f64().unwrap();
    let off = |name: &str| (number(&found[name]) - number(&expected[name])).abs();
    let error = number(&found["standard_error"]);
    assert!(error < 0.05 && off("log_z") < 4.0 * error, "{found}");
    assert!(off("log_likelihood") < 1e-4, "{found}");
    assert_eq!(found["log_likelihood_by"], "the exact log Z");
    let exact = number(&found["log_z_exact"]) - number(&expected["log_z"]);
    assert!(exact.abs() < 1e-4, "{found}");
    // A machine so small is enumerated by the search for the bound.
    let certain = number(&found["certain_lower_bound"]);
    let certified = number(&found["certified_lower_bound"]);
    let exact = number(&found["log_z_exact"]);
    assert!(certain <= exact && certain > exact - 0.01, "{found}");
    assert!(certified < exact && certified > exact - 0.5, "{found}");
    let most = number(&found["log_likelihood_upper_bound"]);
    let log_f = number(&found["log_likelihood"]) + exact;
    assert!((most - (log_f - certain)).abs() < 1e-9, "{found}");
    let bar = number(&found["bar_log_z"]) - number(&expected["log_z"]);
    assert!(
        bar.abs() < 4.0 * number(&found["bar_standard_error"]),
        "{found}"
    );
    let text = printed(&words(&scoring(&["--data", &data])));
    assert!(
        text.contains("log Z = ")
            && text.contains(" for certain")
            && text.contains("log likelihood of 60 rows: "),
        "{text}"
    );
}

#[test]
fn what_was_asked_for_in_vain_and_what_makes_nothing_surer_is_said() {
    let found = json(&words(&scoring(&[
        "--until-error",
        "1e-6",
        "--reverse",
        "resampled",
    ])));
    let warnings = found["warnings"].as_array().unwrap();
    let named = |name: &str| {
        let named = warnings.iter().filter(|warning| warning["name"] == name);
        named.count()
    };
    assert_eq!(named("ErrorNotReached"), 1, "{found}");
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&found["bar_standard_error"]) >= number(&found["standard_error"]));
    let (alone, joint) = (&found["interval"], &found["bar_interval"]);
    assert!(number(&joint[0]) <= number(&alone[0]) && number(&alone[1]) <= number(&joint[1]));
    let text = printed(&words(&scoring(&["--until-error", "1e-6"])));
    assert!(text.contains("that was asked for: about "), "{text}");
    // The run backward is as long as it has samples, though a hundred chains are enough for this error.
    let found = json(&words(&scoring(&[
        "--until-error",
        "9",
        "--reverse",
        "exact",
    ])));
    assert_eq!(found["reverse_chains"], found["chains"]);
}

#[test]
fn parts_make_the_run() {
    let folder = Folder::new("parts");
    let data = format!("{DATA}zeros_and_ones.npy");
    let whole = json(&words(&scoring(&[
        "--data",
        &data,
        "--save",
        &folder.file("whole.json"),
    ])));
    let part = |which: &str, file: &str| {
        printed(&words(&scoring(&[
            "--part",
            which,
            "--save",
            &folder.file(file),
        ])))
    };
    assert!(part("1/2", "1.json").starts_with("part 1 of 2: 128 of 128 chains"));
    assert!(part("2/2", "2.json").starts_with("part 2 of 2: 172 of 172 chains"));
    assert!(part("4/4", "none.json").contains("nothing to do"));

    let [one, two, merged] = ["1.json", "2.json", "merged.json"].map(|name| folder.file(name));
    let found = json(&["merge", &two, &one, "--save", &merged]);
    for figure in ["log_z", "standard_error", "interval", "ess", "chains"] {
        assert_eq!(found[figure], whole[figure], "{figure}");
    }
    let again = json(&["merge", &merged]);
    assert_eq!(again["runs"][0]["stages"], found["runs"][0]["stages"]);
    let alone = printed(&["merge", &one]);
    assert!(alone.contains("missing: chains 128..300"), "{alone}");
    let other = scoring(&["--seed", "1", "--extend", &merged]);
    let error = refused(&words(&other));
    assert!(error.contains("merged.json") && error.contains("of another run, which has seed 0"));
    assert!(
        error.contains("seed of the command that began it"),
        "{error}"
    );
    let mut fewer = scoring(&["--extend", &merged]);
    let chains = fewer.iter().position(|word| word == "--chains").unwrap();
    fewer[chains + 1] = "200".to_owned();
    let error = refused(&words(&fewer));
    assert!(
        error.contains("merged.json") && error.contains("--chains: got 200"),
        "{error}"
    );
    let mut as_before = scoring(&["--extend", &one]);
    let chains = as_before.iter().position(|word| word == "--chains");
    as_before.drain(chains.unwrap()..chains.unwrap() + 2);
    assert_eq!(json(&words(&as_before))["log_z"], whole["log_z"]);
    // Nothing is left to do.
    printed(&words(&scoring(&[
        "--time-limit",
        "0",
        "--extend",
        &merged,
    ])));
    for files in [vec![one.as_str(), &two], vec![&one], vec![&merged]] {
        let scored = scoring(&[vec!["--data", &data, "--extend"], files].concat());
        let scored = json(&words(&scored));
        for figure in ["log_z", "log_likelihood"] {
            assert_eq!(scored[figure], whole[figure], "{figure}");
        }
    }
}

#[test]
fn seeds_are_taken_together() {
    let folder = Folder::new("seeds");
    let files = ["1", "2", "3"].map(|seed| {
        let file = folder.file(&format!("seed-{seed}.json"));
        let run = ["--base", "data-rate", "--seed", seed];
        printed(&words(&scoring(&[&run[..], &["--save", &file]].concat())));
        file
    });
    let [first, second, third] = &files;
    let found = json(&["merge", first, second, third]);
    assert_eq!(found["chains"], 900);
    let single = found["runs"].as_array().unwrap();
    assert_eq!(single.len(), 3);
    let mean = single
        .iter()
        .map(|run| run["log_z"].as_f64().unwrap().exp() / 3.0);
    let mean = mean.sum::<f64>().ln();
    assert!((found["log_z"].as_f64().unwrap() - mean).abs() < 1e-12);
    let text = printed(&["merge", first, second, third]);
    assert!(
        text.contains("(seed 2): log Z") && text.contains("3 seeds: log Z"),
        "{text}"
    );
    let error = refused(&["merge", first, second, "--save", &folder.file("x.json")]);
    assert!(
        error.contains("--save") && error.contains("2 runs"),
        "{error}"
    );
    let error = refused(&["merge", first, first]);
    for part in ["repeated chains", first, "leave out one file"] {
        assert!(error.contains(part), "{error}");
    }

    let svg = folder.file("runs.svg");
    let said = printed(&["plot", first, second, "--out", &svg]);
    assert!(
        said.starts_with("difference ") && said.lines().count() == 1,
        "{said}"
    );
    let drawn = fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg ") && drawn.contains("seed-1: ") && drawn.contains("seed-2: "));
    printed(&["plot", third, "--out", &svg]);
    let drawn = fs::read_to_string(&svg).unwrap();
    assert_eq!(drawn.matches("seed-3: log Z = ").count(), 1);
    printed(&["plot", third, "--schedules", "--out", &svg]);
    assert!(fs::read_to_string(&svg).unwrap().contains("Steps of"));
    printed(&words(&scoring(&["--plot", &svg])));
    assert!(fs::read_to_string(&svg).unwrap().contains("Log weights"));
}

/// One shape: a report holds what the terminal says, and `--json` the figures of a report in JSON.
#[test]
fn a_report_holds_what_the_terminal_says() {
    let folder = Folder::new("reports");
    let data = format!("{DATA}zeros_and_ones.npy");
    let [text, figures, svg] = ["a.txt", "a.json", "a.svg"].map(|name| folder.file(name));
    let asked = |more: &[&str]| {
        let fixed = ["--data", &data, "--reverse", "exact", "--raise", "3"];
        scoring(&[&fixed[..], more].concat())
    };
    let said = printed(&words(&asked(&["--report", &text, "--plot", &svg])));
    let page = fs::read_to_string(&text).unwrap();
    assert!(page.starts_with(&said), "{said} is not in {page}");
    for part in [
        "float32.safetensors: 16 visible and 6 hidden units",
        "--exact gives log Z without error",
        "zeros_and_ones.npy: 60 rows",
        "starts, by pilots",
        "from exact samples: log Z",
        "joined (Bennett)",
        "from the joined log Z",
        "RAISE: ",
        "log Z_k/Z_0",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let printed_json = json(&words(&asked(&["--exact", "--report", &figures])));
    let reported: Value = serde_json::from_str(&fs::read_to_string(&figures).unwrap()).unwrap();
    assert_eq!(printed_json, reported);
    for key in [
        "log_z_exact",
        "bar_log_z",
        "raise",
        "log_likelihood",
        "ess",
        "starts",
    ] {
        assert!(!reported[key].is_null(), "{key} in {reported}");
    }
    assert!(
        reported["files"]["rbm"]
            .as_str()
            .unwrap()
            .ends_with("float32.safetensors")
    );
    assert!(reported["recorded_stages"].as_array().unwrap().len() == 21);
    let evaluations = reported["evaluations"].as_u64().unwrap();
    let line = format!("\n{evaluations:.1e} evaluations\n");
    assert!(page.contains(&line), "{line} is not in {page}");
    let text = reported["warnings"][0]["text"].as_str().unwrap();
    assert!(text.contains("less likely under the RBM"), "{text}");
    let drawn = fs::read_to_string(&svg).unwrap();
    let number = |key: &str| reported[key].as_f64().unwrap();
    // Two digits of the error.
    let places = (1.0 - number("standard_error").log10().floor()) as usize;
    let value = format!(">float32: log Z = {:.places$}(", number("log_z"));
    assert!(drawn.contains(&value), "{value}");
    assert!(drawn.contains("with 300 reverse chains: log Z = ") && drawn.contains(">Bennett: "));
}

/// A run that a bound contradicts looks wrong, from the run itself, from its file, and merged.
#[test]
fn a_run_that_is_too_low_is_drawn_as_one() {
    let folder = Folder::new("low");
    let [run, svg, again, report] =
        ["run.json", "run.svg", "again.svg", "merged.txt"].map(|name| folder.file(name));
    let rbm = format!("{ROOT}measurements/reproduction/machines/cd1-20.npz");
    let call = [
        "rbm",
        &rbm,
        "--base",
        "data-rate",
        "--stages",
        "100",
        "--chains",
        "64",
        "--seed",
        "6",
    ];
    let said = printed(&[&call[..], &["--save", &run, "--plot", &svg]].concat());
    assert!(said.contains("warning: log Z is at least 192.2"), "{said}");
    let merged = printed(&["merge", &run, "--plot", &again, "--report", &report]);
    let page = fs::read_to_string(&report).unwrap();
    assert!(
        page.starts_with(&merged) && page.contains("log Z_k/Z_0"),
        "{page}"
    );
    let is_red = |svg: &str| {
        let drawn = fs::read_to_string(svg).unwrap();
        assert!(
            drawn.contains("too low: log Z is at least 192.2"),
            "{drawn}"
        );
    };
    is_red(&svg);
    is_red(&again);
    printed(&["plot", &run, "--out", &again]);
    is_red(&again);
    assert!(
        merged.contains("warning: log Z is at least 192.2"),
        "{merged}"
    );
}

/// A program in Rust, with states of its own, saves a run, or a part of one.
#[test]
fn runs_over_other_states_are_merged_too() -> annealed::Result<()> {
    let folder = Folder::new("states");
    let target = Gaussian::isotropic(DVector::from_element(2, 1.0), 0.5)?;
    let path = GeometricPath::new(Gaussian::standard(2)?, &target);
    let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5)?).chains(300);
    let save = |name: &str, text: String| fs::write(folder.file(name), text).unwrap();
    for (part, range) in ais.ranges(2)?.into_iter().enumerate() {
        let part_run: RunPart<_> = ais.run_range(range)?;
        save(
            &format!("{part}.json"),
            serde_json::to_string(&part_run).unwrap(),
        );
    }
    let run = ais.run()?;
    save("run.json", serde_json::to_string(&run).unwrap());
    let parts = json(&["merge", &folder.file("0.json"), &folder.file("1.json")]);
    let whole = json(&[
        "merge",
        &folder.file("run.json"),
        "--save",
        &folder.file("saved.json"),
    ]);
    assert_eq!(parts["log_z"].as_f64(), Some(run.log_z()));
    assert_eq!(whole["log_z"].as_f64(), Some(run.log_z()));
    let saved = fs::read_to_string(folder.file("saved.json")).unwrap();
    let saved: RunPart<DVector<f64>> = serde_json::from_str(&saved).unwrap();
    assert_eq!(RunPart::merge([saved])?.states(), run.states());
    Ok(())
}

/// A second call with the same `--checkpoint` goes on, or is refused: the hours in the file are not lost.
#[test]
fn a_checkpoint_is_gone_on_from_and_never_begun_anew() {
    let folder = Folder::new("checkpoints");
    let file = folder.file("run.ckpt");
    let calls = |file: &str, rbm: &str, more: &[&str]| {
        let rbm = format!("{ROOT}tests/data/{rbm}");
        let run = ["--base", "uniform", "--checkpoint", file];
        program(&[&["rbm", &rbm], &run[..], more].concat())
    };
    let said = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    let log_z = |output: &Output| {
        assert!(output.status.success(), "{}", said(output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["log_z"].clone()
    };
    let some = calls(
        &file,
        "rbm20_pcd.npz",
        &["--steps", "30", "--chains", "128", "--json"],
    );
    assert!(!said(&some).contains("going on"), "{}", said(&some));
    let kept = fs::read(&file).unwrap();

    let others = [
        (
            "rbm20_pcd.npz",
            &["--steps", "30", "--seed", "1"][..],
            "which has seed 0",
        ),
        ("rbm20_pcd.npz", &["--steps", "40"], "30"),
        (
            "rbm20_cd1.npz",
            &["--steps", "30", "--chains", "128"],
            "an RBM with other weights",
        ),
    ];
    for (rbm, more, part) in others {
        let other = calls(&file, rbm, more);
        let error = said(&other);
        assert_eq!(other.status.code(), Some(2), "{error}");
        for part in [part, "run.ckpt", "another file, or delete this one"] {
            assert!(error.contains(part), "{error}, expected {part}");
        }
        assert_eq!(fs::read(&file).unwrap(), kept);
    }
    let all = calls(
        &file,
        "rbm20_pcd.npz",
        &["--steps", "30", "--chains", "300", "--json"],
    );
    assert!(said(&all).contains("going on from"), "{}", said(&all));
    let at_once = folder.file("other.ckpt");
    let at_once = calls(
        &at_once,
        "rbm20_pcd.npz",
        &["--steps", "30", "--chains", "300", "--json"],
    );
    assert_eq!(log_z(&all), log_z(&at_once));
}

/// A search is not repeated where its result is there: in a file, in a saved run, beside a checkpoint.
#[test]
fn a_start_is_found_once() {
    let folder = Folder::new("start");
    let [start, run, checkpoint] =
        ["start.json", "run.json", "run.ckpt"].map(|name| folder.file(name));
    let found = json(&words(&scoring(&["--save-start", &start])));
    assert!(
        found["starts"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["share"].as_f64().unwrap() > 0.0),
        "{found}"
    );
    let text = printed(&words(&scoring(&["--save", &run])));
    assert!(text.contains("starts, by pilots"), "{text}");
    // With another number of chains a search has other pilots.
    let of_fewer = |more: &[&str]| {
        let mut scoring = scoring(more);
        let chains = scoring.iter().position(|word| word == "--chains").unwrap();
        scoring[chains + 1] = "140".to_owned();
        json(&words(&scoring))
    };
    let found = of_fewer(&["--save", &run, "--save-start", &start]);
    of_fewer(&["--checkpoint", &checkpoint]);
    let given = [
        ["--start", &start],
        ["--extend", &run],
        ["--checkpoint", &checkpoint],
    ];
    for given in given {
        let more = json(&words(&scoring(&given)));
        assert_eq!(more["starts"], found["starts"], "{given:?}");
        assert_eq!(more["chains"], 300, "{given:?}");
    }
    let refuses = |more: &[&str], expected: &str| {
        let refusal = refused(&words(&scoring(more)));
        assert!(refusal.contains(expected), "{refusal}");
    };
    refuses(&["--start", &run], "is no saved start");
    refuses(
        &["--base", "uniform", "--save-start", &start],
        "--base auto",
    );
    let mut other: Value = serde_json::from_str(&fs::read_to_string(&start).unwrap()).unwrap();
    other["machine"] = 7.into();
    fs::write(&start, other.to_string()).unwrap();
    refuses(&["--start", &start], "an RBM with other parameters");
}

/// RBMs of candle and burn: `annealed-files/tests/files/rust_files.rs` has the numbers.
#[test]
fn rbms_of_rust_have_their_exact_log_z() {
    let log_z = |name: &str, more: &[&str]| {
        let file = format!("{RUST}{name}.safetensors");
        let names = ["--names", "hidden.weight,hidden.bias,visible_bias"];
        let run = [
            "--base", "uniform", "--chains", "500", "--steps", "300", "--exact",
        ];
        let found = json(&[&["rbm", &file], &names[..], &run[..], more].concat());
        let number = |name: &str| found[name].as_f64().unwrap();
        let off = number("log_z") - number("log_z_exact");
        assert!(off.abs() < 4.0 * number("standard_error"), "{found}");
        number("log_z_exact")
    };
    assert_eq!(log_z("candle", &[]), log_z("burn", &[]));
    let square = log_z("candle_square", &[]);
    assert_eq!(log_z("burn_square", &["--square-transposed"]), square);
    let turned = log_z("burn_square", &["--square-transposed=false"]);
    assert!((turned - square).abs() > 0.1);
}

/// One row of 16 bytes from 0 to 16, as IDX.
fn digits_of_16() -> Vec<u8> {
    let header = [0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 16];
    header.into_iter().chain([0]).chain(2..=16).collect()
}

#[test]
fn what_is_wrong_is_named() {
    let folder = Folder::new("wrong");
    let rbm = format!("{DATA}float32.safetensors");
    let says = |arguments: &[&str], parts: &[&str]| {
        let error = refused(arguments);
        for part in parts {
            assert!(
                error.contains(part),
                "{arguments:?}: {error}, expected {part}"
            );
        }
    };
    says(&["rbm", "no.npz"], &["error: no.npz", "No such file"]);
    says(
        &["rbm", &format!("{DATA}make.py")],
        &["make.py", "expected"],
    );
    says(&["rbm", &rbm], &["float32.safetensors", "W"]);
    says(
        &["rbm", &rbm, "--names", "W,h_bias"],
        &["--names", "three names"],
    );
    let named = ["rbm", &rbm, "--names", "W,h_bias,v_bias"];
    let base_rates = [&named[..], &["--base", "data-rate"]].concat();
    says(&base_rates, &["--base-data", "--base auto"]);
    let uniform = [
        &named[..],
        &["--base", "uniform", "--chains", "10", "--steps", "10"],
    ]
    .concat();
    says(&[&uniform[..], &["--data", "no.npy"]].concat(), &["no.npy"]);
    let no_chains = [&named[..], &["--base", "uniform", "--chains", "0"]].concat();
    says(&no_chains, &["chains", "at least 1"]);
    says(
        &[&uniform[..], &["--raise", "10"]].concat(),
        &["--raise", "--data"],
    );
    says(
        &[&uniform[..], &["--part", "3/2"]].concat(),
        &["--part", "I/N"],
    );
    says(&[&uniform[..], &["--part", "1/2"]].concat(), &["--save"]);
    let part = [&uniform[..], &["--part", "1/2", "--save", "x.json"]].concat();
    says(
        &[&part[..], &["--data", "x.npy"]].concat(),
        &["--part", "--data"],
    );
    says(
        &[&uniform[..], &["--plot", "/no/such/x.svg"]].concat(),
        &["/no/such/x.svg"],
    );
    says(
        &[&uniform[..], &["--save", "/no/such/x.json"]].concat(),
        &["no folder /no/such"],
    );
    says(
        &[&uniform[..], &["--plot", "y.png"]].concat(),
        &["--plot", "y.svg"],
    );
    says(
        &[&uniform[..], &["--report", "x.html"]].concat(),
        &["--report", "x.txt"],
    );
    says(
        &[&uniform[..], &["--reverse", "no.npz"]].concat(),
        &["no.npz", "exact, resampled"],
    );
    says(&["plot", &rbm, "--out", "z.pdf"], &["--out", "z.svg"]);
    says(&["rbm", &rbm], &["--names W,h_bias,v_bias"]);
    let array = format!("{DATA}zeros_and_ones.npy");
    says(&["rbm", &array], &["single array", "numpy.savez"]);
    let grey = folder.file("grey.npy");
    fs::write(&grey, digits_of_16()).unwrap();
    let raw = [&uniform[..], &["--data", &grey]].concat();
    says(&raw, &["from 0 to 16", "--threshold 8"]);
    let drawn = [&raw[..], &["--draw", "1"]].concat();
    says(&drawn, &["from 0 to 16", "divide these by 16"]);
    assert!(!refused(&drawn).contains("--threshold"));
    let broken = folder.file("broken.json");
    fs::write(&broken, "{\"settings\": 3}").unwrap();
    says(&["merge", &broken], &["broken.json", "no saved run"]);
    says(&["plot", &broken, "--out", "x.svg"], &["broken.json"]);
    fs::write(&broken, "log Z = 3.0(1)\n").unwrap();
    says(
        &["plot", &broken, "--out", "x.svg"],
        &["broken.json: is a text, such as a report"],
    );
    says(&["merge"], &["FILE"]);
    says(&[], &["Usage"]);
}

/// A deep Boltzmann machine, named by its layers: log Z, and a bound on the likelihood of rows of its lowest layer.
#[test]
fn deep_machines_are_named_by_their_layers() {
    let [rbm, rows] = ["deep.npz", "zeros_and_ones.npy"].map(|name| format!("{DATA}{name}"));
    let layers = [
        "--layers",
        "vishid,hidpen",
        "--biases",
        "visbiases,hidbiases,penbiases",
    ];
    let run = [
        "--chains",
        "500",
        "--stages",
        "200",
        "--exact",
        "--data",
        &rows,
        "--base-data",
        &rows,
    ];
    let found = json(&[&["rbm", &rbm][..], &layers, &run].concat());
    let number = |key: &str| found[key].as_f64().unwrap();
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(format!("{DATA}expected.json")).unwrap()).unwrap();
    let expected = |key: &str| expected["deep"][key].as_f64().unwrap();
    assert!((number("log_z_exact") - expected("log_z")).abs() < 1e-4);
    assert!((number("log_z") - expected("log_z")).abs() < 4.0 * number("standard_error"));
    let gap = expected("log_likelihood") - number("log_likelihood_lower_bound");
    assert!((-0.1..0.5).contains(&gap), "{gap}");
    assert!(found["log_likelihood"].is_null());
    let text = printed(&[&["rbm", &rbm][..], &layers, &run].concat());
    assert!(
        text.contains("log likelihood of 60 rows: at least "),
        "{text}"
    );
    let few = refused(&["rbm", &rbm, "--layers", "vishid,hidpen"]);
    assert!(few.contains("no key b; the file has"), "{few}");
}
