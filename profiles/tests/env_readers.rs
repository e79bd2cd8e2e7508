//! Copies of the rules by which docker and systemd read an environment file, written from their sources: what both make of ours.

#![expect(clippy::unwrap_used, reason = "a test's helper fails the test")]

use std::{collections::BTreeMap, fs, path::Path};

use gdrtune_profiles::{
    emit::{EmitOptions, Format, emit},
    grammar::env_file,
    profile::{Class, EnvSetting, Profile},
};
use proptest::prelude::*;

type Variables = BTreeMap<String, String>;

/// docker/cli `pkg/kvfile/kvfile.go`, `parseKeyValueFile`: blanks before a name are dropped, `#` begins a comment line, a name with a
/// blank in it is an error, and what follows the first `=` is the value as it stands.
fn docker(text: &str) -> Result<Variables, String> {
    let mut variables = Variables::new();
    for line in text.lines() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or("taken from docker's own environment")?;
        if name.is_empty() || name.contains([' ', '\t']) {
            return Err(format!("variable '{name}' contains whitespaces"));
        }
        variables.insert(name.to_owned(), value.to_owned());
    }
    Ok(variables)
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    PreKey,
    Key,
    PreValue,
    Value,
    ValueEscape,
    Single,
    Double,
    DoubleEscape,
    Comment,
    CommentEscape,
}

/// systemd `src/basic/env-file.c`, `parse_env_file_internal`.
#[expect(clippy::match_same_arms, reason = "the arms stand as the states of systemd's machine do")]
fn systemd(text: &str) -> Variables {
    let mut variables = Variables::new();
    let (mut state, mut key, mut value) = (State::PreKey, String::new(), String::new());
    // How much of the value is kept where it ends here: blanks at its end are not.
    let mut kept = 0;
    for c in text.chars().chain(['\n']) {
        let is_blank = matches!(c, ' ' | '\t');
        state = match (state, c) {
            (State::PreKey, '#' | ';') => State::Comment,
            (State::PreKey, '\n' | '\r' | ' ' | '\t') => State::PreKey,
            (State::PreKey, _) => {
                key = c.to_string();
                State::Key
            }
            (State::Key, '\n' | '\r') => State::PreKey,
            (State::Key, '=') => {
                value.clear();
                kept = 0;
                State::PreValue
            }
            (State::Key, _) => {
                key.push(c);
                State::Key
            }
            (State::PreValue | State::Value, '\n' | '\r') => {
                value.truncate(kept);
                variables.insert(key.trim_end().to_owned(), value.clone());
                State::PreKey
            }
            (State::PreValue, '\'') => State::Single,
            (State::PreValue, '"') => State::Double,
            (State::PreValue | State::Value, '\\') => State::ValueEscape,
            (State::PreValue, _) if is_blank => State::PreValue,
            (State::PreValue | State::Value, _) => {
                value.push(c);
                if !is_blank {
                    kept = value.len();
                }
                State::Value
            }
            (State::ValueEscape, _) => {
                if c != '\n' {
                    value.push(c);
                    kept = value.len();
                }
                State::Value
            }
            (State::Single, '\'') | (State::Double, '"') => State::PreValue,
            (State::Double, '\\') => State::DoubleEscape,
            (State::Single | State::Double, _) => {
                value.push(c);
                kept = value.len();
                state
            }
            (State::DoubleEscape, _) => {
                if matches!(c, '"' | '\\' | '`' | '$') {
                    value.push(c);
                } else if c != '\n' {
                    value.extend(['\\', c]);
                }
                kept = value.len();
                State::Double
            }
            (State::Comment, '\\') => State::CommentEscape,
            (State::Comment, '\n' | '\r') => State::PreKey,
            (State::Comment | State::CommentEscape, _) => State::Comment,
        };
    }
    variables
}

fn profile() -> Profile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/nccl.toml");
    Profile::parse(&fs::read_to_string(path).unwrap(), "nccl.toml").unwrap().0
}

#[test]
fn the_copies_read_as_the_manuals_say() {
    let of = |text: &str| systemd(text).into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ");
    assert_eq!(of("# c \\\nA=1\nB= x y \n;c\nC='q' \nD=\"a\\\"b\"\nE=a\\\nb\n"), "B=x y C=q D=a\"b E=ab");
    assert_eq!(
        docker("  A==x \n# c\nB=\"q\"\n").unwrap(),
        [("A", "=x "), ("B", "\"q\"")].map(|(k, v)| (k.into(), v.into())).into()
    );
    assert!(docker("export A=1").is_err() && docker("A").is_err());
}

#[test]
fn both_read_the_values_that_the_profile_has() {
    let expected: Variables = profile().env.into_iter().map(|setting| (setting.name, setting.value)).collect();
    let text = emit(&profile(), Format::Env, &EmitOptions::plain()).unwrap();
    assert_eq!((docker(&text).unwrap(), systemd(&text)), (expected.clone(), expected));
}

proptest! {
    #[test]
    fn what_our_reader_takes_both_read_alike(text in "([A-Z]{1,3}=[ -~]{0,12}\n|# [ -~]{0,9}[^\\\\\n]\n|\n){0,6}") {
        if let Ok(environment) = env_file::parse(&text) {
            let ours: Variables = environment.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            prop_assert_eq!((docker(&text).unwrap(), systemd(&text)), (ours.clone(), ours));
        }
    }

    #[test]
    fn any_value_is_read_alike_or_refused(value in "[^\\x00\n\r]{1,20}|[ '\"\\\\;#=$a]{1,10}") {
        let setting = EnvSetting { name: "NCCL_X".into(), value: value.clone(), class: Class::System, speedup: None, why: String::new() };
        let profile = Profile { env: vec![setting], ..profile() };
        if let Ok(text) = emit(&profile, Format::Env, &EmitOptions::plain()) {
            let read = (docker(&text).unwrap(), systemd(&text));
            prop_assert_eq!((read.0.get("NCCL_X"), read.1.get("NCCL_X")), (Some(&value), Some(&value)));
        }
    }
}
