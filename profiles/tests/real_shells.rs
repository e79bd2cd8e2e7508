//! Real shells source our snippets and see the exact values.

#![expect(clippy::unwrap_used, reason = "a test's helper fails the test")]

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use gdrtune_profiles::{
    emit::{EmitOptions, Format, emit},
    profile::{Class, EnvSetting, Profile},
};

const HOSTILE: &[&str] = &[
    "=mlx5_0:1,mlx5_1:1",
    "it's",
    "'",
    "''quoted''",
    r"back\slash\\",
    r"\n\t\0 literal",
    "$HOME ${HOME} $(echo no) `echo no`",
    "\"double\"",
    "} a}b }",
    "{a,b} * ? [a-z] ~",
    "a;b&c|d<e>f(g)",
    "# no comment",
    " blanks ",
    "\ttab\t",
    "!history! !!",
    "ünïcödé ✓",
    "^allreduce:tree;allgather:ring",
    "-n -e",
    "\\",
    "trailing\\",
    "$",
    "%s%n",
];

fn profile() -> Profile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/nccl.toml");
    let mut profile = Profile::parse(&fs::read_to_string(path).unwrap(), "nccl.toml").unwrap().0;
    let setting = |(idx, value): (usize, &&str)| EnvSetting {
        name: format!("NCCL_X{idx}"),
        value: (*value).to_owned(),
        class: Class::System,
        speedup: None,
        why: String::new(),
    };
    profile.env = HOSTILE.iter().enumerate().map(setting).collect();
    profile
}

/// The `NCCL_X*` variables that a child of `shell` sees after sourcing `snippet`, or nothing where there is no such shell.
fn seen(shell: &str, snippet: &str, preset: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.sh");
    fs::write(&file, snippet).unwrap();
    let output = Command::new(shell)
        // Unset variables and failures are fatal, as careful job scripts have it.
        .args(["-eu", "-c", ". \"$1\"; exec env -0", shell])
        .arg(&file)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C.UTF-8")
        .envs(preset.iter().copied())
        .output()
        .ok()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{shell}: {stderr}\n{snippet}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let mut variables: Vec<(String, String)> = stdout
        .split_terminator('\0')
        .filter_map(|entry| entry.split_once('='))
        .filter(|(name, _)| name.starts_with("NCCL_X"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    variables.sort_by_key(|(name, _)| name[6..].parse::<usize>().unwrap());
    Some(variables)
}

#[test]
fn shells_see_the_exact_values() {
    let expected: Vec<(String, String)> =
        profile().env.into_iter().map(|setting| (setting.name, setting.value)).collect();
    for keep_set in [false, true] {
        let options = EmitOptions { keep_set, ..EmitOptions::plain() };
        for format in [Format::Sh, Format::Slurm] {
            let snippet = emit(&profile(), format, &options).unwrap();
            let shells = ["sh", "bash", "dash", "ksh", "busybox-sh"];
            let tried = shells.iter().filter_map(|shell| {
                let variables = seen(shell, &snippet, &[])?;
                assert_eq!(variables, expected, "{shell}, {format}, keep_set {keep_set}");
                Some(shell)
            });
            assert!(0 < tried.count(), "no shell was found to test with");
        }
    }
}

#[test]
fn the_wrapper_starts_torchrun_with_the_exact_values_and_its_own_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let (wrapper, torchrun) = (folder.path().join("torchrun.sh"), folder.path().join("torchrun"));
    fs::write(&wrapper, emit(&profile(), Format::Torchrun, &EmitOptions::plain()).unwrap()).unwrap();
    fs::write(&torchrun, "#!/bin/sh\nprintf '%s\\0' \"$@\"\nexec env -0\n").unwrap();
    fs::set_permissions(&torchrun, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new("sh")
        .arg(&wrapper)
        .args(["--nnodes", "4", "a b.py"])
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.starts_with("--nnodes\x004\0a b.py\0"), "{stdout}");
    for setting in profile().env {
        assert!(stdout.contains(&format!("\0{}={}\0", setting.name, setting.value)), "{setting:?}");
    }
}

#[test]
fn values_that_are_set_already_are_kept_or_replaced_as_asked() {
    for (keep_set, first) in [(false, "=mlx5_0:1,mlx5_1:1"), (true, "mine")] {
        let options = EmitOptions { keep_set, ..EmitOptions::plain() };
        let snippet = emit(&profile(), Format::Sh, &options).unwrap();
        let variables = seen("sh", &snippet, &[("NCCL_X0", "mine"), ("NCCL_X1", "")]).unwrap();
        assert_eq!(variables[0].1, first);
        assert_eq!(variables[1].1, "it's", "an empty value counts as not set");
    }
}
