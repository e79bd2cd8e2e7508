//! `gdrtune emit` as a command, and the programs that read what it writes. What is in the texts is tested in `profiles`.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use common::{gdrtune, output, root, skip, stderr};
use gdrtune_profiles::{emit::Format, profile::Profile};
use serde_json::Value;

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Four nodes with 32 ranks, three variables, two rules.
fn golden() -> String {
    fs::read_to_string(root().join("profiles/tests/golden/nccl.toml")).unwrap()
}

/// The same, for two ranks of this machine.
fn two_ranks() -> String {
    golden().replace("nodes = 4", "nodes = 1").replace("ranks = 32", "ranks = 2")
}

/// A folder with `profile.toml`.
fn home(profile: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("profile.toml"), profile).unwrap();
    home
}

fn emit(home: &Path, args: &[&str]) -> Output {
    output(gdrtune(home).args(["emit", "profile.toml"]).args(args))
}

fn variables() -> Vec<(String, String)> {
    let (profile, _) = Profile::parse(&golden(), "profile.toml").unwrap();
    profile.env.into_iter().map(|setting| (setting.name, setting.value)).collect()
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn formats_are_listed_printed_and_written() {
    let home = home(&golden());
    let list = output(gdrtune(home.path()).args(["emit", "--list"]));
    assert!(list.status.success());
    for format in Format::ALL {
        let named = |line: &&str| line.starts_with(&format!("{} ", format.name())) && line.contains(format.file_name());
        assert_eq!(stdout(&list).lines().filter(named).count(), 1, "{format}: {}", stdout(&list));
        let one = emit(home.path(), &["--format", format.name()]);
        assert!(one.status.success() && stderr(&one).is_empty(), "{format}: {}", stderr(&one));
        assert!(stdout(&one).contains("2.28.9"), "{format}");
    }
    let all = emit(home.path(), &["--format", "all", "--out", "out"]);
    assert!(all.status.success(), "{}", stderr(&all));
    let mut written: Vec<_> = fs::read_dir(home.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut names: Vec<&str> = Format::ALL.iter().map(|format| format.file_name()).collect();
    written.sort();
    names.sort_unstable();
    assert_eq!(written, names);
    let sh = fs::read_to_string(home.path().join("out/profile.sh")).unwrap();
    assert_eq!(sh, stdout(&emit(home.path(), &["-f", "sh"])));
}

#[test]
fn wrong_use_says_what_to_write() {
    let home = home(&golden());
    for (args, message) in [
        (&["--format", "sh,env"][..], "2 formats need a folder: --out DIR"),
        (&["--format", "shh"], "unknown format `shh`: use one of sh, env,"),
        (&[], "--format"),
        (&["--format", "sh", "--force"], "--out"),
        (&["--format", "appfile", "--program", "a 'b c' # d"], "emit appfile: the program does not fit"),
        (&["--format", "sh", "--tuner-path", "x.csv"], "give an absolute path"),
    ] {
        let run = emit(home.path(), args);
        assert_eq!(run.status.code(), Some(2), "{args:?}: {}", stderr(&run));
        assert!(stderr(&run).contains(message), "{args:?}: {}", stderr(&run));
    }
    assert!(emit(home.path(), &["--format", "sh,env,sh", "--out", "out"]).status.success());
    let again = emit(home.path(), &["--format", "env", "--out", "out"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("out already holds profile.env"), "{}", stderr(&again));
    assert!(emit(home.path(), &["--format", "env", "--out", "out", "--force"]).status.success());
}

#[test]
fn open_mpi_hands_its_ranks_what_the_files_say() {
    const TEST: &str = "open_mpi_hands_its_ranks_what_the_files_say";
    if !is_there("mpirun") {
        return skip(TEST, "mpirun is missing: run testenv/packages.sh consumers");
    }
    let home = home(&two_ranks());
    assert!(emit(home.path(), &["--format", "openmpi,appfile", "--out", "out"]).status.success());
    let tune: &[&str] = &["-np", "2", "--tune", "out/mpirun-tune.conf", "env"];
    for args in [tune, &["--app", "out/mpirun.app"]] {
        let mut mpirun = Command::new("mpirun");
        mpirun.envs(gdrtune(home.path()).get_envs().filter_map(|(name, value)| Some((name, value?))));
        // More ranks than cores, as root in a container: Open MPI 4 and 5 have their own names for each.
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"] {
            mpirun.env(name, "1");
        }
        mpirun.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        let run = mpirun.args(args).current_dir(home.path()).output().unwrap();
        assert!(run.status.success(), "{args:?}: {}{}", stdout(&run), stderr(&run));
        for (name, value) in variables() {
            let line = format!("{name}={value}");
            assert_eq!(stdout(&run).lines().filter(|found| *found == line).count(), 2, "{line}: {}", stdout(&run));
        }
    }
}

#[test]
fn jq_finds_rules_and_settings() {
    let home = home(&golden());
    assert!(emit(home.path(), &["--format", "json,ncclx-json", "--out", "out"]).status.success());
    for (file, filter, expected) in [
        (
            "profile.json",
            ".profile.env | map(.name) | join(\" \")",
            "NCCL_IB_HCA NCCL_IB_QPS_PER_CONNECTION NCCL_SOCKET_IFNAME",
        ),
        ("profile.json", ".rules_are_live", "true"),
        ("ncclx-tuner.json", ".rules[0].config | \"\\(.algorithm) \\(.protocol) \\(.channels)\"", "tree ll 2"),
        ("ncclx-tuner.json", ".rules[1].filter.bytesPerRank", "[524288,)"),
    ] {
        let path = home.path().join("out").join(file);
        let read: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert!(read.is_object());
        if !is_there("jq") {
            return skip("jq_finds_rules_and_settings", "jq is missing: run testenv/packages.sh consumers");
        }
        let run = Command::new("jq").args(["-er", filter]).arg(&path).output().unwrap();
        assert_eq!(stdout(&run).trim_end(), expected, "{file} {filter}: {}", stderr(&run));
    }
}

/// What another YAML reader makes of a file; nothing where there is none.
fn yaml(path: &Path) -> Option<Vec<Value>> {
    let program =
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1], encoding='utf-8')))))";
    let run = Command::new("python3").args(["-c", program]).arg(path).output().ok()?;
    if stderr(&run).contains("No module named 'yaml'") {
        return None;
    }
    assert!(run.status.success(), "{}", stderr(&run));
    Some(serde_json::from_slice(&run.stdout).unwrap())
}

#[test]
fn manifests_have_the_fields_and_types_of_kubernetes() {
    const TEST: &str = "manifests_have_the_fields_and_types_of_kubernetes";
    // Values that YAML 1.1 takes for truth, numbers, times or nothing.
    let hostile = ["yes", "0x10", "1e3", "12:30:00", "~", "a: b # c", "- x", "\\\\n\\\"'", "ünï\\u2028✓"];
    let settings = |(idx, value): (usize, &&str)| {
        format!("\n[[env]]\nname = \"NCCL_X{idx}\"\nvalue = \"{value}\"\nclass = \"system\"\n")
    };
    let all: String = hostile.iter().enumerate().map(settings).collect();
    let home = home(&golden().replacen("\n[[rule]]", &format!("{all}\n[[rule]]"), 1));
    let emitted =
        emit(home.path(), &["--format", "k8s-configmap,k8s-patch,tuner-csv", "--container", "train", "--out", "out"]);
    assert!(emitted.status.success(), "{}", stderr(&emitted));
    let read = |name: &str| yaml(&home.path().join("out").join(name));
    let (Some(maps), Some(patches)) = (read("k8s-configmap.yaml"), read("k8s-patch.yaml")) else {
        return skip(TEST, "python3 with yaml is missing: run testenv/packages.sh consumers");
    };
    let [variables, rules] = maps.as_slice() else { panic!("{maps:?}") };
    for map in &maps {
        assert_eq!((map["apiVersion"].as_str(), map["kind"].as_str()), (Some("v1"), Some("ConfigMap")));
        let name = map["metadata"]["name"].as_str().unwrap();
        assert!(name.len() < 254 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{name}");
        let data = map["data"].as_object().unwrap();
        let is_key = |key: &str| key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        assert!(data.iter().all(|(key, value)| is_key(key) && value.is_string()), "{data:?}");
    }
    assert_eq!(variables["data"]["NCCL_IB_HCA"], "=mlx5_0:1,mlx5_1:1");
    let expected = ["yes", "0x10", "1e3", "12:30:00", "~", "a: b # c", "- x", "\\n\"'", "ünï\u{2028}✓"];
    for (idx, value) in expected.into_iter().enumerate() {
        assert_eq!(variables["data"][format!("NCCL_X{idx}")], value);
    }
    let csv = fs::read_to_string(home.path().join("out/nccl-tuner.csv")).unwrap();
    assert_eq!(rules["data"]["nccl-tuner.csv"], csv.as_str());
    let [patch] = patches.as_slice() else { panic!("{patches:?}") };
    let pod = &patch["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["name"], "train");
    assert_eq!(container["envFrom"][0]["configMapRef"]["name"], variables["metadata"]["name"]);
    assert_eq!(pod["volumes"][0]["configMap"]["name"], rules["metadata"]["name"]);
    assert_eq!(container["volumeMounts"][0]["name"], pod["volumes"][0]["name"]);
    let folder = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert_eq!(container["env"][0]["value"], format!("{folder}/nccl-tuner.csv"));
}
