//! `lint` on the corpus of `tests/lint`: every trap is found at its line and nothing else is, and clean files have no finding.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use gdrtune_profiles::{
    lint::{self, Finding, Format, Input, Options, Severity},
    version::Version,
};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint").join(name)
}

fn files(name: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// One look at some files: `[2.22] [no-files] FILE...`, as `expected.txt` has it before the colon.
fn look(words: &str) -> Vec<Finding> {
    let (mut version, mut is_asked) = (None::<Version>, false);
    let mut texts = Vec::new();
    for word in words.split_whitespace() {
        match word.parse() {
            Ok(number) => version = Some(number),
            Err(_) if word == "no-files" => is_asked = true,
            Err(_) => texts.push((word, fs::read_to_string(folder("traps").join(word)).unwrap())),
        }
    }
    let inputs: Vec<Input<'_>> = texts.iter().map(|(name, text)| Input { name, text, kind: None }).collect();
    let nothing_exists = |_: &str| false;
    let exists: Option<&dyn Fn(&str) -> bool> = if is_asked { Some(&nothing_exists) } else { None };
    lint::lint(&inputs, &Options { version, exists, allow: &[] })
}

fn shown(findings: &[Finding]) -> String {
    let mut all: Vec<String> = findings.iter().map(|found| format!("{}@{}", found.rule.id, found.line)).collect();
    all.sort();
    all.join(" ")
}

/// `UPDATE_EXPECTED=1 cargo test` writes what is found now behind each colon: look at the difference.
#[test]
fn every_trap_is_found_at_its_line_and_nothing_else_is() {
    let path = folder("expected.txt");
    let expected = fs::read_to_string(&path).unwrap();
    let mut now = String::new();
    let mut seen = BTreeSet::new();
    for line in expected.lines() {
        let (words, _) = line.split_once(':').unwrap_or((line, ""));
        if words.starts_with('#') {
            writeln!(now, "{line}").unwrap();
            continue;
        }
        seen.extend(words.split_whitespace().map(str::to_owned));
        writeln!(now, "{words}: {}", shown(&look(words))).unwrap();
    }
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&path, &now).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), now);
    let traps = files("traps");
    for (name, _) in &traps {
        assert!(seen.contains(name), "{name} is not in expected.txt");
    }
    assert!(60 <= traps.len(), "{}", traps.len());
    assert!(!now.lines().any(|line| line.ends_with(": ")), "a trap without a finding");
    for rule in lint::rules() {
        assert!(now.contains(&format!(" {}@", rule.id)), "no trap file for {}", rule.id);
    }
}

#[test]
fn clean_files_have_no_finding_of_any_severity() {
    let clean = files("clean");
    assert!(20 <= clean.len(), "{}", clean.len());
    for (name, text) in &clean {
        let found =
            lint::lint(&[Input { name, text, kind: None }], &Options { version: None, exists: None, allow: &[] });
        assert_eq!(lint::render(&found, Format::Text), "", "{name}");
    }
}

/// What `gdrtune emit` writes of a profile for NCCL, from the golden files.
#[test]
fn our_own_files_have_nothing_to_warn_about() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for name in ["profile.sh", "keep-set.profile.sh", "profile.env", "nccl.conf", "nccl-tuner.csv"] {
        let name = format!("nccl.{name}");
        let text = fs::read_to_string(golden.join(&name)).unwrap();
        let version = Some(Version::new(2, 28));
        let found = lint::lint(
            &[Input { name: &name, text: &text, kind: None }],
            &Options { version, exists: None, allow: &[] },
        );
        let bad: Vec<Finding> = found.into_iter().filter(|found| Severity::Warning <= found.rule.severity).collect();
        assert_eq!(lint::render(&bad, Format::Text), "", "{name}");
    }
}
