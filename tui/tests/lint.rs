//! `gdrtune lint` as a command: exit codes, what goes where, standard input. The rules are tested in `profiles`.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    io::Write as _,
    process::{Output, Stdio},
};

use common::{gdrtune, output, stderr};

const TRAP: &str = "#!/bin/sh\nexport NCCL_IB_HCA=mlx5_1\n";

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `gdrtune lint` where `trap.sh`, `clean.sh` and `note.sh` are.
fn lint(args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("trap.sh", TRAP),
        ("clean.sh", "#!/bin/sh\nexport NCCL_IB_HCA==mlx5_1\n"),
        ("note.sh", "#!/bin/sh\nexport NCCL_SOCKET_IFNAME=^eth1\n"),
        ("notes.txt", "nothing here\n"),
    ] {
        fs::write(home.path().join(name), text).unwrap();
    }
    output(gdrtune(home.path()).arg("lint").args(args))
}

#[test]
fn the_exit_code_says_whether_something_of_that_severity_was_found() {
    for (args, code) in [
        (&["trap.sh", "clean.sh"][..], 6),
        (&["clean.sh"], 0),
        (&["note.sh"], 0),
        (&["note.sh", "--severity", "note"], 6),
        (&["trap.sh", "--severity", "error"], 0),
        (&["trap.sh", "--allow", "hca-prefix"], 0),
        (&["trap.sh", "--as", "dockerfile"], 0),
        (&["notes.txt"], 0),
        (&["--rules"], 0),
        (&["none.sh"], 2),
        (&["none.sh", "trap.sh"], 2),
        (&[], 2),
        (&["trap.sh", "--allow", "hca-prefx"], 2),
        (&["trap.sh", "--format", "xml"], 2),
    ] {
        let run = lint(args);
        assert_eq!(run.status.code(), Some(code), "{args:?}: {}{}", stdout(&run), stderr(&run));
    }
}

#[test]
fn findings_go_to_standard_output_and_the_rest_to_standard_error() {
    let run = lint(&["trap.sh", "notes.txt"]);
    assert!(stdout(&run).starts_with("trap.sh:2: warning: mlx5_1 without"), "{}", stdout(&run));
    assert!(stderr(&run).contains("notes.txt: no kind of file that is known here"), "{}", stderr(&run));
    assert!(
        stderr(&run).ends_with("1 warning in 1 file; not looked at: 1 file of no known kind\n"),
        "{}",
        stderr(&run)
    );
    // What cannot be read keeps nobody from the rest.
    let run = lint(&["none.sh", "trap.sh"]);
    assert!(stdout(&run).starts_with("trap.sh:2: warning: "), "{}", stdout(&run));
    let said = stderr(&run);
    assert!(said.starts_with("gdrtune: none.sh: cannot be read: No such file"), "{said}");
    assert!(said.ends_with("1 warning in 1 file; not looked at: 1 file that cannot be read\n"), "{said}");
    let run = lint(&["trap.sh", "--format", "github"]);
    assert!(stdout(&run).starts_with("::warning file=trap.sh,line=2,title=hca-prefix::"), "{}", stdout(&run));
    assert_eq!(stderr(&run), "");
    assert!(stderr(&lint(&["trap.sh", "--allow", "hca-prefx"])).contains("did you mean `hca-prefix`?"));
}

#[test]
fn standard_input_is_a_file_too() {
    let home = tempfile::tempdir().unwrap();
    let mut run = gdrtune(home.path());
    run.args(["lint", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = run.spawn().unwrap();
    child.stdin.take().unwrap().write_all(TRAP.as_bytes()).unwrap();
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(6));
    assert!(stdout(&run).starts_with("stdin:2: "), "{}", stdout(&run));
}
