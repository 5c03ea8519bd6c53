//! Ctrl-C: what is kept, and what to type to go on.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::*;

/// Waits for a moment, for at most a minute.
fn wait_until(ready: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if ready() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("waited for a minute");
}

/// Whether a process catches SIGINT by now.
fn listens(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 0b10 != 0)
}

/// Returns what a call says that is interrupted once it listens and `ready` holds.
fn interrupted(arguments: &[&str], ready: impl Fn() -> bool) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annealed"));
    let child = command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    wait_until(|| listens(&child) && ready());
    sleep(Duration::from_millis(100));
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    for name in ["stop_when", "callback"] {
        assert!(!said.contains(name), "{said}");
    }
    said
}

const LONG: [&str; 6] = [
    "--base", "uniform", "--stages", "9000000", "--chains", "256",
];

fn machine() -> String {
    format!("{ROOT}tests/data/rbm20_pcd.npz")
}

#[test]
fn a_checkpoint_keeps_what_is_done() {
    let folder = Folder::new("kept");
    let (rbm, file) = (machine(), folder.file("run.ckpt"));
    let call = [&["rbm", &rbm, "--checkpoint", &file], &LONG[..]].concat();
    let said = interrupted(&call, || Path::new(&file).exists());
    let expected =
        format!("what is done is kept in {file}; to continue, run the same command again");
    assert!(said.contains(&expected), "{said}");
    let again = interrupted(&call, || true);
    assert!(
        again.contains("going on from") && again.contains(&expected),
        "{again}"
    );
}

#[test]
fn without_a_checkpoint_nothing_is_kept() {
    let rbm = machine();
    let call = [&["rbm", &rbm, "--block-size", "32"], &LONG[..]].concat();
    let said = interrupted(&call, || true);
    for part in [
        "before the first 32 chains",
        "nothing is kept",
        "--checkpoint FILE",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_search_that_is_interrupted_is_named() {
    let folder = Folder::new("searching");
    let (rbm, file) = (machine(), folder.file("run.ckpt"));
    let call = ["rbm", &rbm, "--stages", "90000000", "--checkpoint", &file];
    let said = interrupted(&call, || true);
    assert!(
        said.contains("during the search for a start, and nothing is kept"),
        "{said}"
    );
    assert!(
        said.contains("--base uniform") && !said.contains("chains"),
        "{said}"
    );
}

#[test]
fn a_run_that_ends_early_says_how_to_go_on() {
    let folder = Folder::new("early");
    let (rbm, file) = (machine(), folder.file("run.json"));
    let run = [
        "rbm",
        &rbm,
        "--base",
        "uniform",
        "--stages",
        "20",
        "--block-size",
        "8",
    ];
    let many = ["--chains", "90000000", "--time-limit", "2"];
    let said = |more: &[&str]| {
        let output = program(&[&run[..], &many, more].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains("log Z = ") && said.contains("ended: time limit reached"),
            "{said}"
        );
        errors
    };
    assert!(said(&[]).contains("in no file: use --save FILE or --checkpoint FILE to keep them"));
    let kept = said(&["--save", &file]);
    let expected = format!("the same command with --chains 90000000 --extend {file}");
    assert!(
        kept.contains(&expected) && kept.contains("of 90000000 chains are done"),
        "{kept}"
    );
    let before = json(&["merge", &file])["chains"].as_u64().unwrap();
    assert!(kept.contains(&format!("{before} of 90000000")), "{kept}");
    let merged = printed(&["merge", &file]);
    let expected = format!(
        "{before} of 90000000 chains are done; annealed rbm with --chains 90000000 --extend {file}"
    );
    assert!(merged.contains(&expected), "{merged}");
    said(&["--save", &file, "--extend", &file]);
    assert!(json(&["merge", &file])["chains"].as_u64().unwrap() > before);
}
