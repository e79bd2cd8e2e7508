//! Boots guests, and runs this test program in them.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::common;

/// What runs ignored tests: their output shows, one after the other, as they share the devices.
const ARGUMENTS: &str = "--ignored --test-threads=1 --nocapture";

/// Boots by `runner` of testenv/softroce and runs `script` there, in which `./tests` is this program with the arguments
/// that it needs and `./gdrtune` the product. Where the guest cannot be made, `test` counts as skipped. Another exit code
/// than 0 fails it.
#[expect(clippy::print_stdout, reason = "figures of the guest are worth a look, too")]
pub(crate) fn run(test: &str, runner: &str, script: &str) {
    let folder = common::root().join("testenv/softroce");
    if let Err(why) = build(&folder) {
        common::skip(test, &why);
        return;
    }
    let share = tempfile::tempdir().unwrap();
    common::strip(&std::env::current_exe().unwrap(), &share.path().join("tests.bin"));
    common::stripped_copy(share.path());
    let write = |name: &str, text: String| std::fs::write(share.path().join(name), text).unwrap();
    // The share is slow: what runs is copied into the guest's memory.
    write("tests", format!("[ -e /tmp/tests ] || cp tests.bin /tmp/tests\nexec /tmp/tests \"$@\" {ARGUMENTS}\n"));
    write("main.sh", script.replace("./tests", "bash ./tests"));
    let mut command = Command::new(folder.join(runner));
    command.arg(share.path().join("main.sh")).env("TE_TIMEOUT", "230").stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = format!("{}{}", common::stdout(&output), common::stderr(&output));
    println!("{said}");
    assert!(output.status.success(), "the guest ended with {}:\n{said}", output.status);
    assert!(said.contains("test result: ok.") && !said.contains("running 0 tests"), "no test ran:\n{said}");
}

/// Makes kernel and file system of the guest, once.
fn build(folder: &Path) -> Result<(), String> {
    let output = Command::new(folder.join("build.sh")).arg("make").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("testenv/softroce/build.sh: {error}"))?;
    let said = common::stderr(&output);
    let last = said.lines().last().unwrap_or("no message");
    if output.status.success() { Ok(()) } else { Err(format!("no guest for software RDMA: {last}")) }
}

/// Runs a script, in the guest.
pub(crate) fn shell(script: &str) {
    let status = Command::new("bash").args(["-ec", script]).status().unwrap();
    assert!(status.success(), "{script}");
}
