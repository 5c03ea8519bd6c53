//! Runs beside each other: `annealed merge` and `annealed plot`.

use super::*;

/// Returns what both say of files: pictures with the same differences, and without colours where nobody sees them.
fn compared(files: &[&str], svg: &str) -> String {
    let merged = printed(&[&["merge"], files].concat());
    let drawn = printed(&[&["plot", "--out", svg], files].concat());
    assert!(
        !drawn.is_empty() && merged.contains(&drawn),
        "{merged} and {drawn}"
    );
    assert!(!merged.contains('\x1b'), "{merged}");
    merged
}

/// Runs and saves the machine of PyTorch along other stages, with another seed.
fn save(file: &str, stages: &str, seed: &str, more: &[&str]) {
    let fixed = ["--save", file, "--seed", seed];
    let mut call = scoring(&[&fixed, more].concat());
    let place = call.iter().position(|word| word == "--steps").unwrap() + 1;
    call[place] = stages.to_owned();
    printed(&words(&call));
}

#[test]
fn runs_of_other_stages_are_compared_and_not_pooled() {
    let folder = Folder::new("stages");
    let [one, two, svg] = ["one.json", "two.json", "runs.svg"].map(|name| folder.file(name));
    save(&one, "300", "1", &["--base", "data-rate"]);
    save(&two, "600", "2", &["--base", "data-rate"]);
    let said = compared(&[&one, &two], &svg);
    for part in [
        "one.json (seed 1): log Z = ",
        "two.json (seed 2): log Z = ",
        "difference ",
        " errors\n",
        "not pooled: ",
        "has 600 stages, not 300",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    let found = json(&["merge", &one, &two]);
    assert!(found["log_z"].is_null(), "{found}");
    let number = |value: &Value| value.as_f64().unwrap();
    let figure = |run: usize, name: &str| number(&found["runs"][run][name]);
    let difference = figure(0, "log_z") - figure(1, "log_z");
    let error = figure(0, "standard_error").hypot(figure(1, "standard_error"));
    let pair = &found["differences"][0];
    assert!((number(&pair["difference"]) - difference).abs() < 1e-12);
    // Skewed weights make the error of the difference wider.
    let wider = number(&pair["standard_error"]) / error;
    assert!((1.0..1.2).contains(&wider), "{found}");
    assert!((number(&pair["errors"]) * wider - difference.abs() / error).abs() < 1e-9);
    assert!(number(&pair["errors"]) < 4.0, "{found}");
    // One seed: the chains share their random numbers.
    save(&two, "600", "1", &["--base", "data-rate"]);
    assert!(
        compared(&[&one, &two], &svg)
            .contains("the same seed, so their agreement is weaker evidence")
    );
}

#[test]
fn another_engine_is_named_as_it_is_typed() {
    let folder = Folder::new("engines");
    let [one, two, svg] = ["one.json", "two.json", "runs.svg"].map(|name| folder.file(name));
    save(&one, "300", "1", &["--base", "data-rate"]);
    save(
        &two,
        "300",
        "2",
        &["--base", "data-rate", "--engine", "portable"],
    );
    let engine = json(&["merge", &one])["runs"][0]["engine"]
        .as_str()
        .unwrap()
        .to_owned();
    let expected = match engine.as_str() {
        "portable" => "2 seeds: log Z".to_owned(),
        _ => "has engine portable".to_owned(),
    };
    let said = compared(&[&one, &two], &svg);
    assert!(said.contains(&expected), "{said}");
}

/// Seeds whose searches found two bases are told so, and pooled from one start.
#[test]
fn a_start_of_each_seed_is_named() {
    let folder = Folder::new("starts");
    let names = ["one.json", "two.json", "start.json", "runs.svg"];
    let [one, two, start, svg] = names.map(|name| folder.file(name));
    let rbm = format!("{ROOT}measurements/reproduction/machines/cd1-20.npz");
    let run = |more: &[&str]| {
        let fixed = ["rbm", &rbm, "--stages", "300", "--chains", "256"];
        printed(&[&fixed, more].concat())
    };
    run(&["--seed", "1", "--save", &one, "--save-start", &start]);
    run(&["--seed", "2", "--save", &two]);
    let said = compared(&[&one, &two], &svg);
    assert!(
        said.contains("two.json beside ")
            && said.contains("another start, found by its own search"),
        "{said}"
    );
    assert!(
        said.contains("--save-start FILE, and give it to the others by --start FILE"),
        "{said}"
    );
    run(&["--seed", "2", "--start", &start, "--save", &two]);
    let said = compared(&[&one, &two], &svg);
    assert!(
        said.contains("2 seeds: log Z = ") && !said.contains("not pooled"),
        "{said}"
    );
    let refusal = refused(&["merge", &one, &two, "--save", &folder.file("both.json")]);
    for part in [
        "a pooled result cannot be saved",
        "scores no data",
        "--extend FILE",
    ] {
        assert!(refusal.contains(part), "{refusal}");
    }
}

/// A run that missed mass and a right one: red in the picture, and on a terminal.
#[test]
fn runs_that_disagree_are_told_apart() {
    let folder = Folder::new("disagree");
    let [low, right, svg] = ["low.json", "right.json", "runs.svg"].map(|name| folder.file(name));
    let rbm = format!("{ROOT}measurements/reproduction/machines/cd1-20.npz");
    let run = |file: &str, more: &[&str]| {
        let call = ["rbm", &rbm, "--save", file, "--chains", "64", "--stages"];
        printed(&[&call, more].concat());
    };
    // So few stages from base rates miss tens of nats.
    run(&low, &["10", "--base", "data-rate"]);
    run(&right, &["100", "--seed", "1"]);
    let said = compared(&[&low, &right], &svg);
    assert!(
        said.contains("errors: they disagree, and the lower one"),
        "{said}"
    );
    assert!(said.contains("another base or path"), "{said}");
    let drawn = fs::read_to_string(&svg).unwrap();
    let red = drawn.lines().filter(|line| line.contains("#c00000"));
    assert!(red.filter(|line| line.contains("disagree,")).count() == 1);

    let program = env!("CARGO_BIN_EXE_annealed");
    let on_terminal = |setting: &str| {
        let typed = format!("{setting} {program} merge {low} {right}");
        let mut script = Command::new("script");
        let script = script.args(["-qec", &typed, "/dev/null"]);
        script.env_remove("NO_COLOR").output()
    };
    let Ok(coloured) = on_terminal("") else {
        eprintln!("skipped: there is no script(1) to make a terminal");
        return;
    };
    let coloured = String::from_utf8_lossy(&coloured.stdout).into_owned();
    assert!(coloured.contains("\x1b[31mdifference "), "{coloured}");
    let plain = on_terminal("NO_COLOR=1").unwrap();
    assert!(!String::from_utf8_lossy(&plain.stdout).contains('\x1b'));
}

#[test]
fn runs_that_are_no_two_estimates_are_not_compared() {
    let folder = Folder::new("apart");
    let names = ["one.json", "more.json", "other.json", "runs.svg"];
    let [one, more, other, svg] = names.map(|name| folder.file(name));
    let run = |rbm: &str, chains: &str, file: &str| {
        let rbm = format!("{ROOT}tests/data/{rbm}.npz");
        let run = ["--base", "uniform", "--stages", "30", "--chains", chains];
        printed(&[&["rbm", &rbm], &run[..], &["--save", file]].concat())
    };
    run("rbm20_pcd", "128", &one);
    run("rbm20_pcd", "256", &more);
    run("rbm20_cd1", "128", &other);
    let said = printed(&["merge", &one, &more]);
    assert!(
        said.contains("and so the same chains") && !said.contains("difference"),
        "{said}"
    );
    let seed = |file: &str, chains: &str| {
        let rbm = format!("{ROOT}tests/data/rbm20_pcd.npz");
        let run = ["--base", "uniform", "--stages", "30", "--chains", chains];
        printed(&[&["rbm", &rbm], &run[..], &["--save", file, "--seed", "7"]].concat())
    };
    // Two that share chains beside one that does not.
    let seven = ["7.json", "7-more.json"].map(|name| folder.file(name));
    seed(&seven[0], "128");
    seed(&seven[1], "256");
    let said = printed(&["merge", &one, &seven[0], &seven[1]]);
    assert!(said.contains("7-more.json has the same seed as "), "{said}");
    assert_eq!(said.matches("difference ").count(), 2, "{said}");
    let said = printed(&["plot", &one, &other, "--out", &svg]);
    assert!(
        said.contains("is a run of another RBM than") && !said.contains("difference"),
        "{said}"
    );
}

#[test]
fn scores_by_row_are_compared_in_pairs() {
    let folder = Folder::new("scores");
    let [one, two, exact, few] =
        ["one.json", "two.json", "exact.json", "few.json"].map(|name| folder.file(name));
    let data = format!("{DATA}zeros_and_ones.npy");
    let save = |file: &str, seed: &str, more: &[&str]| {
        let fixed = ["--data", &data, "--scores", file, "--seed", seed];
        json(&words(&scoring(&[&fixed, more].concat())))
    };
    let number = |json: &Value, name: &str| json[name].as_f64().unwrap();
    let (first, second) = (save(&one, "1", &[]), save(&two, "2", &[]));
    save(&exact, "1", &["--exact"]);
    let found = json(&["scores", &one, &two]);
    let by_log_z = number(&second, "log_z") - number(&first, "log_z");
    assert!(
        (number(&found, "difference") - by_log_z).abs() < 1e-9,
        "{found}"
    );
    // All rows differ by the same number.
    assert!(number(&found, "error_over_rows") < 1e-9, "{found}");
    let error = number(&first, "standard_error").hypot(number(&second, "standard_error"));
    assert!(
        (number(&found, "standard_error") - error).abs() < 1e-9,
        "{found}"
    );
    assert_eq!(found["rows"], first["rows"]);
    assert!(by_log_z.abs() < 4.0 * error && error < 0.1, "{found}");
    let said = printed(&["scores", &one, &exact]);
    assert!(
        said.contains("one.json: ") && said.contains("\ndifference of "),
        "{said}"
    );
    assert!(!said.contains("share random numbers"), "{said}");
    let shared = json(&["scores", &one, &one])["notes"].to_string();
    assert!(shared.contains("both runs have --seed 1"), "{shared}");
    // Other rows, fewer rows, another file.
    let text = fs::read_to_string(&two).unwrap();
    let mut scores: Value = serde_json::from_str(&text).unwrap();
    scores["data"] = 7.into();
    fs::write(&few, scores.to_string()).unwrap();
    assert!(refused(&["scores", &one, &few]).contains("scores other rows than"));
    scores["by_row"].as_array_mut().unwrap().pop();
    fs::write(&few, scores.to_string()).unwrap();
    let rows = number(&first, "rows");
    let expected = format!("scores {} rows, and {one} {rows}", rows - 1.0);
    let error = refused(&["scores", &one, &few]);
    assert!(error.contains(&expected), "{error}");
    assert!(refused(&["scores", &one, &data]).contains("zeros_and_ones.npy"));
    assert!(refused(&words(&scoring(&["--scores", &one]))).contains("--data"));
}
