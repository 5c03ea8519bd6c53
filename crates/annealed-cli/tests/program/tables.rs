//! Works and draws: one number a line, and tables of chains.

use annealed::random::{Purpose, stream};

use super::*;

fn lines(numbers: impl IntoIterator<Item = f64>) -> String {
    let lines = numbers.into_iter().map(|x| format!("{x}\n"));
    lines.collect()
}

fn normals(mean: f64, deviation: f64, count: usize, seed: u64) -> Vec<f64> {
    let (law, mut rng) = (
        Gaussian::standard(1).unwrap(),
        stream(seed, Purpose::TESTING, 0),
    );
    let draws = (0..count).map(|_| mean + deviation * law.sample(&mut rng)[0]);
    draws.collect()
}

#[test]
fn works_of_a_table_give_a_free_energy() {
    let folder = Folder::new("works");
    let (forward, reverse) = (folder.file("forward.csv"), folder.file("reverse.csv"));
    // By Crooks' relation dF = 2, over kT.
    fs::write(
        &forward,
        "work\n".to_owned() + &lines(normals(2.5, 1.0, 500, 1)),
    )
    .unwrap();
    fs::write(&reverse, lines(normals(-1.5, 1.0, 500, 2))).unwrap();
    let text = printed(&["works", &forward, &reverse]);
    assert!(
        text.contains("500 forward works, 500 reverse works\ndF = ") && !text.contains("warning"),
        "{text}"
    );
    let json: Value =
        serde_json::from_str(&printed(&["works", &forward, &reverse, "--json"])).unwrap();
    let (found, error) = (
        json["delta_f"].as_f64().unwrap(),
        json["standard_error"].as_f64().unwrap(),
    );
    assert!((found - 2.0).abs() < 4.0 * error && error < 0.1, "{json}");
    assert_eq!(json["warnings"], serde_json::json!([]));

    // In kJ/mol, one direction alone, without a temperature.
    let kt = 8.314_462_618e-3 * 300.0;
    fs::write(
        &reverse,
        lines(normals(-1.5, 1.0, 500, 2).iter().map(|x| kt * x)),
    )
    .unwrap();
    let text = printed(&["works", &forward, &reverse]);
    assert!(
        text.contains("warning: ") && text.contains("units"),
        "{text}"
    );
    fs::write(
        &forward,
        lines(normals(2.5, 1.0, 500, 1).iter().map(|x| kt * x)),
    )
    .unwrap();
    let unit = ["works", &forward, &reverse, "--unit", "kJ/mol"];
    assert!(
        refused(&unit).contains("--temperature"),
        "{}",
        refused(&unit)
    );
    let text = printed(&[&unit[..], &["--temperature", "300", "--json"]].concat());
    let json: Value = serde_json::from_str(&text).unwrap();
    assert!(
        (json["delta_f"].as_f64().unwrap() / kt - found).abs() < 1e-6,
        "{json}"
    );
    let below = refused(&[&unit[..], &["--temperature", "-300"]].concat());
    assert!(
        below.contains("--temperature") && below.contains("-300"),
        "{below}"
    );

    // Works that hardly overlap: text and JSON have the same words.
    fs::write(&forward, lines(normals(30.0, 1.0, 300, 3))).unwrap();
    fs::write(&reverse, lines(normals(30.0, 1.0, 300, 4))).unwrap();
    for form in [&[][..], &["--json"]] {
        let text = printed(&[&["works", &forward, &reverse][..], form].concat());
        assert!(
            text.contains("hardly overlap") && !text.contains("chains"),
            "{text}"
        );
    }
    fs::write(&forward, "1,2\n3,4\n").unwrap();
    assert!(refused(&["works", &forward, &reverse]).contains("line 1: `1,2`, expected one number"));
}

/// Harmonic springs: F = log k / 2 up to a constant.
#[test]
fn many_states_of_a_table_have_their_free_energies() {
    let folder = Folder::new("states");
    let (file, plot) = (folder.file("u_nk.csv"), folder.file("states.svg"));
    let springs = [1.0_f64, 2.0, 4.0];
    let mut table = "time,fep-lambda,0.0,0.5,1.0\n".to_owned();
    for (seed, (k, name)) in springs.iter().zip(["0.0", "0.5", "1.0"]).enumerate() {
        for (time, x) in normals(0.0, k.powf(-0.5), 1_000, 10 + seed as u64)
            .iter()
            .enumerate()
        {
            let u = springs.map(|k| (0.5 * k * x * x).to_string()).join(",");
            table += &format!("{time},{name},{u}\n");
        }
    }
    fs::write(&file, table).unwrap();
    let text = printed(&["states", &file, "--plot", &plot]);
    assert!(
        text.starts_with("3 states, 3000 draws") && !text.contains("warning"),
        "{text}"
    );
    assert!(
        fs::read_to_string(&plot)
            .unwrap()
            .contains("Overlap matrix")
    );
    let json: Value = serde_json::from_str(&printed(&["states", &file, "--json"])).unwrap();
    let figure = |name: &str| json["total"][name].as_f64().unwrap();
    let (found, error) = (figure("delta_f"), figure("standard_error"));
    assert!(
        (found - 0.5 * 4.0_f64.ln()).abs() < 4.0 * error && error < 0.1,
        "{json}"
    );
    let sum: f64 = (0..2)
        .map(|i| json["neighbours"][i]["delta_f"].as_f64().unwrap())
        .sum();
    assert!((sum - found).abs() < 1e-9, "{json}");
    let overlap = json["neighbours"][0]["overlap"].as_f64().unwrap();
    assert!(0.8 < overlap && overlap < 1.0, "{json}");
    assert!(refused(&["states", &file, "--counts", "400,400,400"]).contains("invalid counts"));
    fs::write(&file, "a,b\n1,2\n").unwrap();
    assert!(refused(&["states", &file]).contains("expected one of the name state"));
}

#[test]
fn a_table_of_draws_names_what_is_doubtful() {
    let folder = Folder::new("draws");
    let files = ["a.csv", "b.csv"].map(|name| folder.file(name));
    for (file, shift) in files.iter().zip([0.0, 3.0]) {
        let seed = shift as u64;
        let settings = "# num_samples = 400\n# num_warmup = 0\n# save_warmup = 0\n# thin = 1\n";
        let (mus, nus) = (
            normals(1.0, 1.0, 400, 5 + seed),
            normals(0.0, 1.0, 400, 15 + seed),
        );
        let rows = mus.into_iter().zip(nus).enumerate();
        let row = |(i, (mu, nu)): (usize, (f64, f64))| {
            let divergent = u8::from(i % 100 == 0);
            format!("-1,1,{divergent},{mu},{},{}\n", nu + shift, mu + nu + shift)
        };
        let rows: String = rows.map(row).collect();
        let header = "lp__,accept_stat__,divergent__,mu,nu,sum\n";
        fs::write(file, format!("{settings}{header}{rows}")).unwrap();
    }
    let all = ["summary", &files[0], &files[1]];
    let text = printed(&all);
    assert!(
        text.starts_with("chains of 400, 400 draws\n") && text.contains("R-hat"),
        "{text}"
    );
    assert!(text.contains("warning: nu is worth"), "{text}");
    assert!(text.contains("8 divergent transitions"), "{text}");
    assert!(
        text.contains("coordinates 0, 1, 2, of which") && text.contains("2 = sum"),
        "{text}"
    );
    let text = printed(&[&all[..], &["--names", "mu", "--json"]].concat());
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 1);
    assert!(
        (json["rows"][0]["mean"].as_f64().unwrap() - 1.0).abs() < 0.1,
        "{json}"
    );
}
