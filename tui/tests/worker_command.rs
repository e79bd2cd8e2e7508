//! `--worker-cmd` from the command line to the workers.

mod common;

use std::{fs, path::Path};

use common::{gdrtune, output, stderr};

/// A small bench whose workers start through `command`: exit code and messages.
fn bench(home: &Path, command: &str) -> (Option<i32>, String) {
    let arguments = ["bench", "--sizes", "1K", "--repeats", "1", "--ranks-per-node", "2", "--worker-cmd", command];
    let run = output(gdrtune(home).args(arguments));
    (run.status.code(), stderr(&run))
}

#[test]
fn workers_of_a_bench_start_through_a_command() {
    let home = tempfile::tempdir().unwrap();
    let (code, message) = bench(home.path(), "sh -c 'echo \"$0\" >\"$HOME/started.$0\"; exec \"$@\"' {rank} {worker}");
    assert_eq!(code, Some(0), "{message}");
    for rank in ["0", "1"] {
        let text = fs::read_to_string(home.path().join(format!("started.{rank}"))).unwrap();
        assert_eq!(text.trim(), rank);
    }

    let (code, message) = bench(home.path(), "no-such-tool --nv {worker}");
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("start no-such-tool: No such file") && message.contains("install it"), "{message}");

    let (code, message) = bench(home.path(), "sh -c 'echo no such image >&2; exit 125' {worker}");
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("ended with exit code 125; it last printed: no such image"), "{message}");

    let (code, message) = bench(home.path(), "env {wroker}");
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("did you mean `{worker}`?"), "{message}");
}
