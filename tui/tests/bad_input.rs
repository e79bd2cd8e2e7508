//! Bad input ends with a message that names place, cause and next step, and with the documented exit code.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{fs, path::Path, process::Command};

use common::{cluster::in_sandbox, gdrtune, output, stderr};

/// Runs in a home that holds `files`; expects the exit code and every text on stderr.
fn expect(files: &[(&str, &str)], args: &[&str], code: i32, texts: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(home.path().join(name), text).unwrap();
    }
    expect_in(home.path(), args, code, texts);
}

fn expect_in(home: &Path, args: &[&str], code: i32, texts: &[&str]) {
    let run = output(gdrtune(home).args(args));
    let message = stderr(&run);
    assert_eq!(run.status.code(), Some(code), "{args:?}: {message}");
    for text in texts {
        assert!(message.contains(text), "{args:?}: no `{text}` in: {message}");
    }
    assert!(!message.contains("panicked"), "{args:?}: {message}");
}

#[test]
fn a_reader_that_has_enough_is_no_error_to_speak_of() {
    let home = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let bench = ["bench", "--engine", "native", "--ranks-per-node", "2", "--sizes", "4K", "--collectives", "allreduce"];
    let run = gdrtune(home.path()).args(bench).stdout(writer).output().unwrap();
    assert_eq!((stderr(&run).as_str(), run.status.code()), ("", Some(1)));
}

#[test]
fn an_error_fits_the_terminal_with_its_hint() {
    let home = tempfile::tempdir().unwrap();
    let tune = ["tune", "--launcher", "slurm"];
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let whole = stderr(&output(gdrtune(home.path()).args(tune)));
    assert!(whole.lines().any(|line| 50 < line.chars().count()), "{whole}");
    let narrow = stderr(&output(gdrtune(home.path()).env("COLUMNS", "50").args(tune)));
    assert!(narrow.lines().all(|line| line.chars().count() <= 50), "{narrow}");
    assert_eq!(words(&narrow), words(&whole));
}

#[test]
fn host_lists_are_checked_before_anything_starts() {
    let cases: &[(&str, &[&str])] = &[
        ("node[01-04", &["-w:1:5: '[' is never closed"]),
        ("node[3-1]", &["-w:1:"]),
        ("node[1-99999999]", &["-w:1:", "65536"]),
        ("-oProxyCommand=touch${IFS}x", &["-w:1:1:"]),
        ("a;reboot", &["-w:1:2:"]),
        ("", &["host"]),
    ];
    for (hosts, texts) in cases {
        expect(&[], &["tune", &format!("--hosts={hosts}"), "--headless"], 2, texts);
    }
    expect(&[], &["tune", "--hostfile", "none.txt"], 2, &["none.txt", "No such file"]);
    expect(&[("h.txt", "node1\nnode[2-\n")], &["tune", "--hostfile", "h.txt"], 2, &["h.txt:2:"]);
    expect(&[("h.txt", "# nobody\n")], &["tune", "--hostfile", "h.txt"], 2, &["h.txt"]);
    expect(&[], &["tune", "--site", "none.toml"], 2, &["none.toml", "No such file"]);
    expect(&[("c.toml", "hosts = 'a'\nfan_out = 2")], &["tune", "--site", "c.toml"], 2, &["c.toml:2:1", "`fanout`?"]);
    expect(&[], &["tune", "--launcher", "slurm"], 2, &["this is no Slurm allocation", "salloc -N4 gdrtune", "sbatch"]);
}

#[test]
fn hosts_that_cannot_be_used_are_named_with_the_next_step() {
    let config = "Host shut\n  HostName 127.0.0.1\n  Port 1\n  BatchMode yes\n";
    let args = ["tune", "-w", "shut", "--ssh-config", "c", "--headless", "--budget", "5s"];
    expect(&[("c", config)], &args, 3, &["shut", "refused"]);
    expect(&[], &["tune", "-w", "no-such-host.invalid", "--headless"], 3, &["no-such-host.invalid"]);

    let home = tempfile::tempdir().unwrap();
    let run = output(gdrtune(home.path()).env("PATH", "/nonexistent").args(["tune", "-w", "a", "--headless"]));
    assert_eq!(run.status.code(), Some(3), "{}", stderr(&run));
    assert!(stderr(&run).contains("ssh"), "{}", stderr(&run));
}

#[test]
fn profiles_are_checked_by_file_line_and_nearest_name() {
    let emit = |name: &'static str| ["emit", name, "--format", "sh"];
    expect(&[], &emit("none.toml"), 2, &["none.toml", "No such file"]);
    expect(&[("p.toml", "format = 2\n")], &emit("p.toml"), 2, &["p.toml", "format 2 is newer"]);
    expect(&[("p.toml", "format = 1\n[clus")], &emit("p.toml"), 2, &["p.toml:2"]);
    expect(&[("p.toml", "form = 1\n")], &emit("p.toml"), 2, &["p.toml:1", "format"]);
    expect(&[("p.toml", "")], &["emit", "p.toml", "--format", "tuner_csv"], 2, &["tuner-csv"]);
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("p.toml"), [0xff, 0xfe, 0, 1]).unwrap();
    expect_in(home.path(), &emit("p.toml"), 2, &["p.toml:1:1: not UTF-8 text"]);
}

#[test]
fn settings_of_the_search_are_checked() {
    expect(&[], &["tune", "--pin", "NCCL_SOCKET_IFNAM==lo", "--headless"], 2, &["NCCL_SOCKET_IFNAME"]);
    expect(&[], &["tune", "--pin", "NCCL_SOCKET_IFNAME", "--headless"], 2, &["NAME=VALUE"]);
    expect(&[], &["tune", "--exclude", "NCCL_BUFSIZE", "--headless"], 2, &["NCCL_BUFFSIZE"]);
    expect(&[], &["tune", "--sizes", "1K-12T", "--headless"], 2, &["12T"]);
    expect(&[], &["tune", "--sizes", "6", "--headless"], 2, &["6 bytes are no whole number of float32 elements"]);
    expect(&[], &["tune", "--trials", "0", "--headless"], 2, &["--trials"]);
    expect(&[], &["tune", "--add", "NCCL_BUFSIZE=4096", "--headless"], 2, &["did you mean NCCL_BUFFSIZE?"]);
    expect(&[], &["tune", "--add", "NCCL_BUFFSIZE=4096,4M", "--headless"], 2, &["NCCL_BUFFSIZE: ", "4M"]);
    expect(&[], &["tune", "--add", "NCCL_PROTO=LL128", "--headless"], 2, &["NCCL_PROTO cannot be searched"]);
    let ceilings = |gbs| {
        format!(
            r#"{{"links": [{{"node": "a", "hca": "mlx5_0", "port": 1, "peer": "b", "outcome": {{"measured": {{"gbs": {gbs}}}}}}}]}}"#
        )
    };
    let tune = ["tune", "--ceilings", "c.json", "--headless"];
    expect(&[("c.json", &ceilings("-3"))], &tune, 2, &["c.json: links[0] (mlx5_0:1 of a to b): gbs is -3"]);
    expect(&[("c.json", &ceilings("1e999"))], &tune, 2, &["c.json: number out of range at line 1 column "]);
    expect(&[("c.json", &ceilings("NaN"))], &tune, 2, &["c.json: expected value at line 1 column "]);
    expect(&[], &["bench", "--env", "A"], 2, &["NAME=VALUE"]);
    expect(&[], &["bench", "--graph"], 2, &["--graph: the native engine has none: use --engine nccl"]);
    expect(&[], &["bench", "--register-buffers"], 2, &["--register-buffers: the native engine has none"]);
}

#[test]
fn workloads_and_spaces_are_checked_by_file_line_and_nearest_name() {
    let call = |text: &'static str| [("w.toml", text)];
    let tune = |option: &'static str, value: &'static str| ["tune", option, value, "--headless"];
    let unknown = "[[call]]\ncollective = \"allgahter\"\nbytes = 64";
    expect(
        &call(unknown),
        &tune("--workload", "w.toml"),
        2,
        &["w.toml:2:14: unknown name `allgahter`", "`allgather`?"],
    );
    let size = "[[call]]\ncollective = \"allreduce\"\nbytes = \"1K-12T\"";
    expect(&call(size), &tune("--workload", "w.toml"), 2, &["w.toml:3:9: `12T` is not a size"]);
    let odd = "[[call]]\ncollective = \"allreduce\"\nbytes = 6";
    expect(&call(odd), &tune("--workload", "w.toml"), 2, &["--workload: 6 bytes are no whole number of float32"]);
    expect(&[], &tune("--workload", "none.toml"), 2, &["--workload: read none.toml", "No such file"]);
    expect(&[], &tune("--workload", "fdsp"), 2, &["unknown workload `fdsp`: use one of ddp-25mb-buckets", "`fsdp`?"]);
    let uncounted = ["tune", "--workload", "nccl-tests", "--objective", "time-per-step"];
    expect(&[], &uncounted, 2, &["--objective: time-per-step needs calls per step", "nccl-tests has none", "geomean"]);
    let knob = [("s.toml", "[[knob]]\nname = \"NCCL_SOKET_NTHREADS\"")];
    expect(
        &knob,
        &tune("--space", "s.toml"),
        2,
        &["s.toml:2:8: unknown variable", "did you mean NCCL_SOCKET_NTHREADS?"],
    );
    expect(
        &[],
        &tune("--space", "ful"),
        2,
        &["unknown space `ful`: use one of quick, standard, full, demo", "`full`?"],
    );
    let pinned = "pin = [\"GDRTUNE_NATIVE_NSOCKS=2\", \"GDRTUNE_NATIVE_CHUNKSIZE=65536\"]\n[[forbid]]\n\
                  settings = [\"GDRTUNE_NATIVE_NSOCKS=2\", \"GDRTUNE_NATIVE_CHUNKSIZE\"]";
    let args = ["tune", "--space", "s.toml", "--headless", "--sizes", "1K", "--ranks-per-node", "2"];
    expect(&[("s.toml", pinned)], &args, 2, &["forbidden together by the space", "GDRTUNE_NATIVE_NSOCKS=2"]);
}

#[test]
fn a_setting_that_lets_nothing_start_is_an_error_and_leaves_no_folder() {
    let home = tempfile::tempdir().unwrap();
    let args = ["tune", "--pin", "NCCL_SOCKET_IFNAME==nope0", "--headless", "--sizes", "1K", "--budget", "5s"];
    expect_in(home.path(), &args, 2, &["none of", "nope0"]);
    assert!(!home.path().join("gdrtune-out").exists());
}

#[test]
fn an_output_folder_of_an_earlier_run_is_kept() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("out")).unwrap();
    fs::write(home.path().join("out/profile.toml"), "precious").unwrap();
    expect_in(home.path(), &["tune", "--out", "out", "--headless"], 2, &["already holds profile.toml", "--force"]);
    assert_eq!(fs::read_to_string(home.path().join("out/profile.toml")).unwrap(), "precious");
    fs::write(home.path().join("file"), "").unwrap();
    expect_in(home.path(), &["tune", "--out", "file", "--headless"], 2, &["file is not a folder"]);
}

#[test]
fn a_full_disk_is_found_before_the_first_trial() {
    in_sandbox("a_full_disk_is_found_before_the_first_trial", || {
        let home = tempfile::tempdir().unwrap();
        let full = home.path().join("full");
        fs::create_dir(&full).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&full).status();
        assert!(mount.unwrap().success());
        expect_in(home.path(), &["tune", "--out", "full/out", "--headless"], 2, &["full/out", "No space left"]);
        assert_eq!(fs::read_dir(full.join("out")).unwrap().count(), 0, "nothing half-written");

        // The run store on a full disk: the run ends, and says why.
        let run = output(gdrtune(home.path()).env("GDRTUNE_STATE_DIR", &full).args([
            "tune",
            "--headless",
            "--sizes",
            "1K,4K",
            "--budget",
            "20s",
            "--out",
            "out",
        ]));
        assert_eq!(run.status.code(), Some(1), "{}", stderr(&run));
        assert!(stderr(&run).contains("No space left"), "{}", stderr(&run));
    });
}
