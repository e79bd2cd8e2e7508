//! `gdrtune workload` as a command: from a log to a workload, to a tuned profile, to what it does to a step.

mod common;

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Output, Stdio},
};

use common::{gdrtune, output, stderr, stdout};
use serde_json::Value;

const LOGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../profiles/tests/workloads");
const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../profiles/tests/workloads/nccl-2.28-tensor-parallel.log");

/// Runs `gdrtune workload` and expects success.
fn workload(home: &Path, args: &[&str]) -> Output {
    let run = output(gdrtune(home).arg("workload").args(args));
    assert_eq!(run.status.code(), Some(0), "{args:?}: {}", stderr(&run));
    run
}

/// Makes the log's workload, `job.toml`, and gives what is said of it.
fn import(home: &Path) -> String {
    let run = workload(home, &["import", LOG, "--comm", "0x8f1d9a/4", "--steps", "4", "-o", "job.toml"]);
    assert_eq!(stdout(&run), "");
    stderr(&run)
}

/// Runs `gdrtune workload` and expects the exit code and a text on stderr.
fn refused(home: &Path, args: &[&str], code: i32, text: &str) {
    let run = output(gdrtune(home).arg("workload").args(args));
    assert_eq!(run.status.code(), Some(code), "{args:?}: {}", stderr(&run));
    assert!(stderr(&run).contains(text), "{args:?}: no `{text}` in {}", stderr(&run));
}

#[test]
fn a_log_becomes_a_workload() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let said = import(home);
    for text in [
        " *    2      4      1        9    100 MiB",
        "left out: 16 calls of 1 other",
        "4 steps, as was said",
        "wrote job.toml",
    ] {
        assert!(said.contains(text), "no `{text}` in {said}");
    }
    let file = fs::read_to_string(home.join("job.toml")).unwrap();
    let call = "[[call]]\ncollective = \"allreduce\"\nbytes = \"25M\"\nper_step = 1\n";
    assert!(
        file.contains(call) && file.contains("# Left out: 16 calls of 1 other communicator: --comm chooses."),
        "{file}"
    );

    // The other way in, and out.
    let mut child = gdrtune(home);
    child
        .args(["workload", "import", "-", "--list"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(LOG).unwrap()).unwrap();
    let listed = child.wait_with_output().unwrap();
    assert!(
        stdout(&listed).contains("      1      2      2       16    128 MiB  8 repeats  0x8f1d9a/4 split"),
        "{}",
        stdout(&listed)
    );
}

#[test]
fn a_workload_is_tuned_and_predict_tells_what_that_does_to_a_step() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    import(home);
    let file = fs::read_to_string(home.join("job.toml")).unwrap();
    let tune = [
        "tune",
        "--engine",
        "sim",
        "--cluster",
        "bimodal-channels",
        "--workload",
        "job.toml",
        "--out",
        "out",
        "--quiet",
    ];
    let run = output(gdrtune(home).args(tune));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));

    let args = ["predict", "job.toml", "--profile", "out/profile.toml", "--overlap", "0.5", "--step-ms", "50"];
    let told = stdout(&workload(home, &args));
    assert!(told.contains("SIMULATED") && told.contains("communication a step: "), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    let json: Value = serde_json::from_str(&stdout(&workload(home, &[&args[..], &["--json"]].concat()))).unwrap();
    // What the run itself says of the step: the A/B over the very same points.
    let summary = fs::read_to_string(home.join("out/summary.md")).unwrap();
    let ms = |key: &str| format!("{:.1}", json["communication"][key].as_f64().unwrap() / 1e3);
    let same = format!("communication time per step {} ms -> {} ms", ms("default_us"), ms("tuned_us"));
    assert!(summary.contains(&same), "no `{same}` in {summary}");
    let part = |of: &str, key: &str| json[of][key].as_f64().unwrap();
    assert!((part("exposed", "default_us") * 2.0 - part("communication", "default_us")).abs() < 1e-6);
    let saved = part("exposed", "default_us") - part("exposed", "tuned_us");
    assert!((50e3 - part("step", "tuned_us") - saved).abs() < 1e-6, "{json:#}");

    // Without the store, by the profile and its choices alone, which the words say.
    let elsewhere = output(gdrtune(home).env("GDRTUNE_STATE_DIR", home.join("none")).arg("workload").args(args));
    assert!(stdout(&elsewhere).contains("alone, as the store of run"), "{}{}", stdout(&elsewhere), stderr(&elsewhere));

    // One collective more, that nobody measured: no step is told of, and the file's ranks are not those of the times.
    assert!(file.contains("\nranks = 4\n"), "{file}");
    let more = file + "\n[[call]]\ncollective = \"alltoall\"\nbytes = \"300M\"\nper_step = 1\n";
    fs::write(home.join("more.toml"), more).unwrap();
    let args = ["predict", "more.toml", "--profile", "out/profile.toml", "--step-ms", "840"];
    let run = workload(home, &args);
    let told = stdout(&run);
    let first = told.lines().next().unwrap_or_default();
    assert!(first.starts_with("only 7.6 % of the bytes were measured: no prediction for the step"), "{told}");
    assert!(!told.contains("840.000 ms") && told.contains("what was measured of it: "), "{told}");
    assert!(stderr(&run).contains("warning: workload more is of 4 ranks, times are of "), "{}", stderr(&run));
    let json: Value = serde_json::from_str(&stdout(&workload(home, &[&args[..], &["--json"]].concat()))).unwrap();
    assert!(json["step"].is_null() && json["workload_ranks"] == 4, "{json:#}");

    let shown = stdout(&workload(home, &["show", "job.toml", "--profile", "out/profile.toml"]));
    assert!(shown.contains("of time") && shown.contains("  25M         1   25.0 MiB  100.0 %"), "{shown}");
    let last = stdout(&workload(home, &["show", "job.toml", "--run", "last", "--json"]));
    let json: Value = serde_json::from_str(&last).unwrap();
    assert!(json["points"][1]["default_us"].is_number(), "{json:#}");
    refused(home, &["predict", "moe-alltoall", "--profile", "out/profile.toml"], 4, "the collective was not measured");
    refused(home, &["predict", "nccl-tests", "--profile", "out/profile.toml"], 2, "has weights, no calls per step");
    refused(home, &["predict", "job.toml", "--profile", "out/profile.toml", "--step-ms", "0.01"], 2, "must be hidden");
    refused(home, &["predict", "job.toml", "--profile", "out/profile.toml", "--run", "none"], 2, "no run `none`");
    let other = ["predict", "job.toml", "--profile", "out/profile.toml", "--shape", "7x3"];
    refused(home, &other, 2, "--shape: no times of 7x3: there are those of ");
    refused(home, &["show", "job.toml", "--run", "last", "--shape", "7x3"], 2, "--shape: no times of 7x3");
    let elsewhere = output(gdrtune(home).env("GDRTUNE_STATE_DIR", home.join("none")).arg("workload").args(other));
    assert!(stderr(&elsewhere).contains("--shape: no times of 7x3"), "{}", stderr(&elsewhere));

    // The store of another run, which the user named, or which has the name of the profile's.
    let store = fs::read_dir(home.join("state/runs")).unwrap().next().unwrap().unwrap().path();
    let run = store.file_stem().unwrap().to_str().unwrap();
    let other = fs::read_to_string(&store).unwrap().replace(run, "other-run");
    fs::write(home.join("other.jsonl"), &other).unwrap();
    let args = ["predict", "job.toml", "--profile", "out/profile.toml", "--run", "other.jsonl"];
    let text = format!(" is of the run other-run, the profile of {run}\n");
    refused(home, &args, 2, &format!("--run: other.jsonl{text}"));
    fs::write(&store, other).unwrap();
    refused(home, &args[..4], 2, &format!("gdrtune: {}{text}", store.display()));
}

#[test]
fn what_cannot_be_imported_says_why_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    fs::write(home.join("trace.json.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
    fs::write(home.join("dump"), [0x80, 2, b'}']).unwrap();
    fs::write(home.join("x.log"), "gpu-1:1:1 [0] NCCL INFO Channel 00/02 : 0 1\n").unwrap();
    fs::write(home.join("broken.json"), "{\"traceEvents\":[\n{\"name\":\n").unwrap();
    refused(home, &["import", "trace.json.gz"], 2, "gunzip -c 'trace.json.gz' | gdrtune workload import -");
    refused(home, &["import", "dump"], 2, "python3 -c");
    refused(home, &["import", "x.log"], 2, "NCCL_DEBUG_SUBSYS=INIT,COLL");
    refused(home, &["import", "broken.json"], 2, "broken.json:3:1: EOF");
    refused(home, &["import", "none.log"], 2, "read none.log: No such file");
    refused(home, &["import", "x.log", "--kind", "torch-trce"], 2, "did you mean `torch-trace`?");
    let log = format!("{LOGS}/nccl-2.19-one-rank.log");
    refused(home, &["import", &log, "--comm", "7"], 2, "no communicator `7`: there are 1 (8 ranks, 0x1c2d/8)");
    refused(home, &["import", &log, "-o", "none/x.toml"], 2, "none/x.toml");
    refused(home, &["import", &log, "-o", "x.log"], 2, "x.log is there already");
    refused(
        home,
        &["estimate", "--params", "7B", "--dp", "8", "--group", "dp", "-o", "dump"],
        2,
        "--force replaces it",
    );
    assert_eq!(fs::read(home.join("dump")).unwrap(), [0x80, 2, b'}'], "nothing is lost");
    workload(home, &["import", &log, "-o", "x.log", "--force"]);
    let huge = ["estimate", "--params", "7B", "--tp", "8", "--seq", "1152921504606846976"];
    refused(home, &huge, 2, "tp: allreduce of activations: more than 2^53 bytes in one call");
}

#[test]
fn an_estimate_tells_its_formulas_and_writes_a_file_for_each_group() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let job =
        ["estimate", "--params", "70B", "--dp", "8", "--tp", "8", "--pp", "4", "--zero", "1", "--global-batch", "64"];
    let told = stdout(&workload(home, &[&job[..], &["--out", "job"]].concat()));
    for text in [
        "tp: 8 ranks, 40.0 GiB a step",
        "arXiv 1909.08053",
        "assumed: --layers 80, as Llama 3 70B",
        "left out: activations between",
    ] {
        assert!(told.contains(text), "no `{text}` in {told}");
    }
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    for name in ["tp", "dp"] {
        assert!(
            stdout(&workload(home, &["show", &format!("job/{name}.toml")]))
                .starts_with(&format!("{name}: {name} group, 8 ranks"))
        );
    }
    let one = stdout(&workload(home, &[&job[..], &["--group", "tp"]].concat()));
    assert!(one.contains("bytes = \"64M\"\nper_step = 640\n"), "{one}");
    let json: Value = serde_json::from_str(&stdout(&workload(home, &[&job[..], &["--json"]].concat()))).unwrap();
    assert_eq!((&json["groups"][0]["name"], &json["groups"][0]["ranks"]), (&"tp".into(), &8.into()));
    refused(home, &[&job[..], &["--group", "ep"]].concat(), 2, "no group `ep` with calls: there are tp, dp");
    assert!(one.contains("\nranks = 8\n"), "{one}");
    refused(home, &[&job[..], &["--out", "job"]].concat(), 2, "job already holds ");
    workload(home, &[&job[..], &["--out", "job", "--force"]].concat());
    let heads = "--tp: the 64 attention heads of Llama 3 70B cannot be spread over 3 ranks alike";
    refused(home, &["estimate", "--params", "70B", "--tp", "3"], 2, heads);
    refused(home, &["estimate", "--params", "70"], 2, "did you mean 70B?");
    refused(home, &["estimate", "--params", "70X"], 2, "no number of parameters");
    refused(home, &["estimate", "--params", "70B", "--dp", "0"], 2, "--dp: a group has 1 to 1048576 ranks");
}

#[test]
fn a_picture_is_80_columns_wide_whatever_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let call = |n: u64| {
        let (bytes, calls) = (n * n * 4096, n * 1000);
        format!("[[call]]\ncollective = \"allreduce\"\nbytes = {bytes}\nper_step = {calls}.25\n")
    };
    let many = (1..200).map(call).collect::<Vec<_>>().concat();
    fs::write(home.join("many.toml"), format!("about = \"{}\"\n{many}", "w\u{6f22} ".repeat(90))).unwrap();
    for name in ["many.toml", "ddp-25mb-buckets", "fsdp", "tensor-parallel", "moe-alltoall", "nccl-tests"] {
        let shown = stdout(&workload(home, &["show", name]));
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(shown.lines().count() < 80, "{shown}");
    }
}
