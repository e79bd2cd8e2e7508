//! Runs on GPUs that others use are refused before anything is measured.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{path::Path, process::Command};

use common::{gdrtune, output, stderr};

/// A process id that Linux never gives (`PID_MAX_LIMIT` is 4194304), so nobody's family.
const STRANGER: u32 = 4_294_967;

/// Puts an `nvidia-smi` into the folder that knows one GPU and a process with a hostile name on it. Another process
/// writes it: a file that this one has open for writing cannot be run, and any test's fork keeps it open for a moment.
fn fake_nvidia_smi(folder: &Path) {
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in --query-gpu=*) echo '0, GPU-a, NVIDIA H200';; *) printf '{STRANGER}, GPU-a, /opt/a\\033[2Jb, 1 MiB\\n';; esac\n"
    );
    let script = "printf '%s' \"$1\" >\"$0\" && chmod +x \"$0\"";
    let path = folder.join("nvidia-smi");
    assert!(Command::new("/bin/sh").args(["-c", script]).arg(path).arg(text).status().unwrap().success());
}

#[test]
fn gpus_in_use_are_refused_unless_shared() {
    let home = tempfile::tempdir().unwrap();
    fake_nvidia_smi(home.path());
    let bench = |engine: &str, ranks: &str, extra: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", home.path().display());
        let sizes = ["bench", "--sizes", "1K", "--repeats", "1", "--engine", engine, "--ranks-per-node", ranks];
        let run = output(gdrtune(home.path()).env("PATH", path).args(sizes).args(extra));
        (run.status.code().unwrap(), stderr(&run))
    };
    let (code, message) = bench("nccl", "1", &[]);
    assert_eq!(code, 3, "{message}");
    for text in [&format!("pid {STRANGER} (a?[2Jb) on GPU 0"), "hint: wait for it, or measure beside it with --shared"]
    {
        assert!(message.contains(text), "{message}");
    }
    // Beside it, it meets the next obstacle of a machine without a GPU.
    let (code, message) = bench("nccl", "1", &["--shared"]);
    assert!(message.contains("cannot load the CUDA driver") && !message.contains("in use"), "{code}: {message}");
    let (code, message) = bench("native", "2", &[]);
    assert_eq!(code, 0, "the native engine uses no GPU: {message}");
}
