//! The command line that a form is.

use std::{ffi::OsString, process::Command};

use proptest::prelude::*;

use super::{
    super::form::{Form, Verdict, shell_line},
    *,
};
use crate::cli::{self, Cli, TuneArgs};

/// The command line's arguments, as clap reads what a shell makes of it.
fn read(line: &str) -> Result<TuneArgs, String> {
    let words = shell_words::split(line).map_err(|error| error.to_string())?;
    match Cli::read(words.into_iter().map(OsString::from)).map_err(|error| error.to_string())?.command {
        cli::Command::Tune(args) => Ok(*args),
        other => Err(format!("{other:?}")),
    }
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(values).prop_map(str::to_owned)
}

/// Mostly what is right, sometimes anything.
fn text(right: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(String::new()), 6 => one_of(right), 1 => "\\PC{0,12}"]
}

fn forms() -> impl Strategy<Value = Vec<(FieldId, String)>> {
    let fields = (
        one_of(&["native", "nccl", "sim", "replay"]),
        text(&["null", "./it's.toml"]),
        text(&["grid.csv", "a b.csv"]),
        text(&["node[01-04],gpu7", "me@a", "ホスト1", "-x"]),
        text(&["alps.toml", "with a blank.toml", "$HOME/x", "!!"]),
        text(&["8", "1", "0"]),
        text(&["allreduce, allgather", "broadcast", "allreduce"]),
        text(&["1K,64K", "1K-64M", "4M-1K"]),
    );
    let others = (
        text(&["fsdp", "w.toml"]),
        text(&["full", "standard"]),
        text(&["30m", "5d"]),
        text(&["100", "-1"]),
        text(&["tuned", "a'b\"c", "{a,b}", "*"]),
        text(&["--seed 7", "--force --pin 'A=b c'", "--sizes 1K", "'"]),
    );
    (fields, others).prop_map(|((a, b, c, d, e, f, g, h), (i, j, k, l, m, n))| {
        FieldId::ALL.into_iter().zip([a, b, c, d, e, f, g, h, i, j, k, l, m, n]).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_command_line_gives_the_arguments_of_the_form(given in forms()) {
        let form = Form::new(&given);
        let line = shell_line(&form.words());
        let split = shell_words::split(&line).unwrap();
        prop_assert_eq!(split[1..].to_vec(), form.words());
        let read = read(&line);
        prop_assert!(read.is_ok() || matches!(form.verdict, Verdict::Wrong(_)), "{line}: {read:?} {:?}", form.verdict);
        let Ok(args) = read else { return Ok(()) };
        let value = |id: FieldId| form.shown().find(|field| field.id == id).map(|field| field.value().to_owned());
        let some = |id: FieldId| value(id).filter(|value| !value.is_empty());
        let path = |path: Option<std::path::PathBuf>| path.map(|path| path.display().to_string());
        prop_assert_eq!(Some(args.measure.engine.name().to_owned()), value(FieldId::Engine));
        prop_assert_eq!(args.offline.cluster, some(FieldId::Cluster));
        prop_assert_eq!(path(args.offline.grid), some(FieldId::Grid));
        prop_assert_eq!(args.hosts.hosts, some(FieldId::Hosts));
        prop_assert_eq!(path(args.hosts.site), some(FieldId::Site));
        let number = |id| some(id).and_then(|value| value.parse::<u64>().ok());
        prop_assert_eq!(args.hosts.ranks_per_node.map(u64::from), number(FieldId::RanksPerNode));
        prop_assert_eq!(args.trials, number(FieldId::Trials));
        prop_assert_eq!(args.goal.workload, some(FieldId::Workload));
        prop_assert_eq!(path(Some(args.out)), value(FieldId::Out));
        prop_assert_eq!(args.budget.is_some(), some(FieldId::Budget).is_some());
        if let Some(space) = value(FieldId::Space) {
            prop_assert_eq!(args.space.space, space);
        }
        if let Some(collectives) = some(FieldId::Collectives) {
            let names: Vec<&str> = collectives.split(',').map(str::trim).collect();
            let read: Vec<&str> = args.measure.collectives.iter().map(|collective| collective.name()).collect();
            prop_assert_eq!(read, names);
        }
        let more = some(FieldId::More).unwrap_or_default();
        if let (Some(sizes), false) = (some(FieldId::Sizes), more.contains("--sizes")) {
            prop_assert_eq!(args.measure.sizes.sizes, sizes);
        }
        prop_assert_eq!(args.seed, if more == "--seed 7" { 7 } else { 1 });
    }
}

#[test]
fn only_what_is_not_the_default_is_said() {
    for (given, expected) in [
        (vec![], "gdrtune tune"),
        (
            vec![(FieldId::Sizes, "1K-64M"), (FieldId::Engine, "native"), (FieldId::Out, " gdrtune-out ")],
            "gdrtune tune",
        ),
        (vec![(FieldId::Engine, "sim"), (FieldId::Sizes, "1K-64M")], "gdrtune tune --engine sim --sizes 1K-64M"),
        (vec![(FieldId::Workload, "fsdp"), (FieldId::Sizes, "4K")], "gdrtune tune --workload fsdp"),
        (vec![(FieldId::Hosts, "node[1-2]")], "gdrtune tune -w 'node[1-2]'"),
        (vec![(FieldId::Hosts, "-x")], "gdrtune tune '--hosts=-x'"),
        (vec![(FieldId::Engine, "sim"), (FieldId::Hosts, "a")], "gdrtune tune --engine sim"),
        (vec![(FieldId::More, "--pin 'A=b  c'")], "gdrtune tune --pin 'A=b  c'"),
    ] {
        let given: Vec<(FieldId, String)> = given.into_iter().map(|(id, value)| (id, value.to_owned())).collect();
        assert_eq!(shell_line(&Form::new(&given).words()), expected);
    }
}

#[test]
fn shells_take_the_line_as_it_is_meant() {
    let words =
        ["it's", "a b", "$HOME", "`id`", "!!", "\\", "{a,b}", "~", "*", "[a]", "ホスト", "", "\"", "#", "=x", "a=b"];
    let words: Vec<String> = words.map(str::to_owned).to_vec();
    let line = shell_line(&words);
    let quoted = line.strip_prefix("gdrtune ").unwrap();
    for shell in ["sh", "bash"] {
        let output = Command::new(shell).args(["-c", &format!("printf '%s\\n' {quoted}")]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().collect::<Vec<_>>(), words, "{shell}: {quoted}");
    }
}
