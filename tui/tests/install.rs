//! Installations, end to end: put, replaced, proved, refused, taken away; on this machine and over ssh.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, output, root,
    standins::library_path,
    stderr,
};
use gdrtune_profiles::{
    grammar::{env_file, shell},
    install::{ENV_FILE, MANIFEST_FILE, Manifest, PLUGIN_FILE, PROFILE_FILE, RULES_FILE, SHELL_FILE},
};

/// A home with a profile of NCCL that has rules, and one of the native engine.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, from) in [("profile.toml", "nccl.toml"), ("native.toml", "native.toml")] {
        fs::copy(root().join("profiles/tests/golden").join(from), home.path().join(name)).unwrap();
    }
    home
}

fn run(home: &Path, args: &[&str]) -> Output {
    output(gdrtune(home).arg("install").args(args))
}

/// Runs to this exit code; returns standard output and error together.
fn expect(home: &Path, args: &[&str], code: i32, texts: &[&str]) -> String {
    check_output(&run(home, args), code, texts)
}

fn check_output(run: &Output, code: i32, texts: &[&str]) -> String {
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), stderr(run));
    assert_eq!(run.status.code(), Some(code), "{said}");
    for text in texts {
        assert!(said.contains(text), "no `{text}` in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn manifest(folder: &Path) -> Manifest {
    Manifest::parse(&fs::read_to_string(folder.join(MANIFEST_FILE)).unwrap()).unwrap()
}

#[test]
fn a_profile_is_put_where_jobs_find_it_and_taken_away_again() {
    let home = home();
    // A shell would run what is in the path.
    let folder = home.path().join("a b/$(touch x)");
    expect(home.path(), &["profile.toml", "--to", "a b/$(touch x)"], 0, &["localhost: installed 6 files"]);
    let installed = [MANIFEST_FILE, ENV_FILE, SHELL_FILE, PLUGIN_FILE, RULES_FILE, PROFILE_FILE];
    assert_eq!(names(&folder), installed);
    assert_eq!(fs::read(folder.join(PROFILE_FILE)).unwrap(), fs::read(home.path().join("profile.toml")).unwrap());
    assert!(fs::read(folder.join(PLUGIN_FILE)).unwrap().starts_with(b"\x7fELF"));

    let environment = env_file::parse(&fs::read_to_string(folder.join(ENV_FILE)).unwrap()).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    assert_eq!(environment.get("NCCL_TUNER_PLUGIN"), Some(path(PLUGIN_FILE).as_str()));
    assert_eq!(environment.get("GDRTUNE_RULES"), Some(path(RULES_FILE).as_str()));
    let script = "set -eu; . \"$1\"; printf %s \"$NCCL_TUNER_PLUGIN\"";
    let sourced = output(Command::new("sh").args(["-c", script, "sh", &path(SHELL_FILE)]).current_dir(home.path()));
    assert_eq!(String::from_utf8_lossy(&sourced.stdout), path(PLUGIN_FILE));
    assert!(!home.path().join("x").exists());
    assert_eq!((manifest(&folder).rules, manifest(&folder).files.len()), (2, 5));

    fs::write(folder.join("theirs"), "").unwrap();
    expect(home.path(), &["profile.toml", "--to", "a b/$(touch x)"], 0, &["installed"]);
    fs::write(folder.join(RULES_FILE), "edited").unwrap();
    let args = ["profile.toml", "--to", "a b/$(touch x)"];
    expect(home.path(), &args, 1, &["nccl-tuner.csv was changed", "--force"]);
    assert_eq!(fs::read_to_string(folder.join(RULES_FILE)).unwrap(), "edited");

    let uninstall = ["--uninstall", "--to", "a b/$(touch x)"];
    expect(home.path(), &uninstall, 1, &["kept", "nccl-tuner.csv was changed", "--force"]);
    assert_eq!(names(&folder), [MANIFEST_FILE, RULES_FILE, "theirs"]);
    expect(home.path(), &[&uninstall[..], &["--force"]].concat(), 0, &["removed 2 files"]);
    assert_eq!(names(&folder), ["theirs"]);
    expect(home.path(), &uninstall, 4, &["there is no installation of gdrtune in"]);

    fs::remove_file(folder.join("theirs")).unwrap();
    expect(home.path(), &args, 0, &[]);
    expect(home.path(), &uninstall, 0, &["removed 6 files"]);
    assert!(!folder.exists());
}

#[test]
fn an_image_finds_the_files_under_its_own_path() {
    let home = home();
    let args = ["profile.toml", "--to", "image/opt", "--path-in-image", "/opt/gdrtune/"];
    expect(home.path(), &args, 0, &[". '/opt/gdrtune/gdrtune.sh'"]);
    let folder = home.path().join("image/opt");
    let exported = shell::parse(&fs::read_to_string(folder.join(SHELL_FILE)).unwrap()).unwrap();
    assert!(exported.iter().any(|a| a.name == "GDRTUNE_RULES" && a.value == "/opt/gdrtune/nccl-tuner.csv"));
    expect(home.path(), &["--check", "--to", "image/opt"], 6, &["FAIL", "the files name /opt/gdrtune"]);
    let relative = ["profile.toml", "--to", "image/x", "--path-in-image", "opt/gdrtune"];
    expect(home.path(), &relative, 2, &["`opt/gdrtune`", "give an absolute path"]);
    assert!(!home.path().join("image/x").exists());
}

#[test]
fn what_cannot_be_installed_is_refused_before_anything_is_made() {
    let home = home();
    let profile = fs::read_to_string(home.path().join("profile.toml")).unwrap();
    let (head, _) = profile.split_once("[[env]]").unwrap();
    fs::write(home.path().join("empty.toml"), head).unwrap();
    let cases: &[(&[&str], &[&str])] = &[
        (&["native.toml", "--to", "out"], &["rules of a native profile are for gdrtune's own engine"]),
        (&["empty.toml", "--to", "out"], &["nothing to install"]),
        (&["none.toml", "--to", "out"], &["none.toml", "No such file"]),
        (&["profile.toml", "--to", "out/a\nb"], &["line break"]),
        (&["profile.toml", "--to", "out/a'b"], &["quote"]),
        (&["profile.toml", "--to", "out/../../none/../x"], &["`..`"]),
        (&["profile.toml", "--to", "/"], &["root of the file system"]),
        (&["profile.toml", "--to", ""], &["--to"]),
        (&["profile.toml", "--to", "out", "-w", "a"], &["absolute path"]),
        (&["profile.toml", "--to", "/out", "-w", "a;reboot"], &["-w:1:2:"]),
    ];
    for (args, texts) in cases {
        expect(home.path(), args, 2, texts);
    }
    assert!(!home.path().join("out").exists());
    expect(home.path(), &["--uninstall", "--to", "out"], 4, &["no installation"]);
    expect(home.path(), &["--check", "--to", "out"], 4, &["no installation"]);
}

#[test]
fn an_emulated_profile_says_so_everywhere() {
    let home = home();
    let path = home.path().join("profile.toml");
    let profile = fs::read_to_string(&path).unwrap();
    fs::write(&path, profile.replace("engine = \"nccl\"", "engine = \"nccl\"\nemulated = true")).unwrap();
    expect(home.path(), &["profile.toml", "--to", "out"], 0, &["warning: EMULATED"]);
    for name in [ENV_FILE, SHELL_FILE, RULES_FILE, MANIFEST_FILE] {
        let text = fs::read_to_string(home.path().join("out").join(name)).unwrap();
        assert!(text.contains("EMULATED"), "{name}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_holds_nothing_new() {
    let home = home();
    fs::write(home.path().join("file"), "").unwrap();
    for to in ["file", "file/below"] {
        expect(home.path(), &["profile.toml", "--to", to], 1, &["is not a folder"]);
    }
    in_sandbox("a_folder_that_cannot_be_written_holds_nothing_new", || {
        let home = self::home();
        let mount = |name: &str, options: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(&path).unwrap();
            let status = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&path).status();
            assert!(status.unwrap().success());
            path
        };
        let full = mount("full", "size=64k");
        expect(home.path(), &["profile.toml", "--to", "full/a/b"], 1, &["full/a/b", "No space left"]);
        assert_eq!(names(&full), [""; 0], "no folder either");
        mount("fixed", "ro");
        expect(home.path(), &["profile.toml", "--to", "fixed/a"], 1, &["fixed/a", "Read-only file system"]);

        // An installation that cannot be replaced stays as it is.
        let small = mount("small", "size=512k");
        expect(home.path(), &["profile.toml", "--to", "small/a"], 0, &["installed"]);
        let before = fs::read(small.join("a").join(MANIFEST_FILE)).unwrap();
        let profile = fs::read_to_string(home.path().join("profile.toml")).unwrap();
        fs::write(home.path().join("next.toml"), profile.replace("=eth0", "=eth7")).unwrap();
        expect(home.path(), &["next.toml", "--to", "small/a"], 1, &["No space left"]);
        assert_eq!(fs::read(small.join("a").join(MANIFEST_FILE)).unwrap(), before);
        assert_eq!(names(&small.join("a")).len(), 6, "no temporary file is left");
        expect(home.path(), &["--uninstall", "--to", "small/a"], 0, &["removed 6 files"]);
    });
}

#[test]
fn every_rank_shows_by_nccls_log_that_it_uses_the_installation() {
    let home = home();
    let libraries = library_path(home.path(), "lib", &["cuda", "nccl"]);
    let check = |variables: &[(&str, &str)], code, texts: &[&str]| {
        let mut command = gdrtune(home.path());
        command.env("LD_LIBRARY_PATH", &libraries).envs(variables.iter().copied());
        command.args(["install", "--check", "--to", "a $b", "--emulate-nodes", "--ranks-per-node", "3"]);
        check_output(&output(&mut command), code, texts)
    };
    expect(home.path(), &["profile.toml", "--to", "a $b"], 0, &[]);
    let folder = home.path().join("a $b");
    let said = check(&[], 0, &["OK   the files of run 2026-11-29T14:02:11Z-7f3a are whole on 1 host"]);
    for rank in 0..3 {
        let line = format!("OK   rank {rank} on localhost: NCCL loaded the plugin, which read 2 rules\n");
        assert!(said.contains(&line), "{said}");
    }
    let count = |text: &str| said.matches(text).count();
    let plugin = folder.join(PLUGIN_FILE);
    let loaded = format!("Successfully loaded external tuner plugin {}\n", plugin.display());
    assert_eq!(
        (count(&loaded), count("TUNER/gdrtune: read 2 rules, 0 of them for 3 nodes and 3 ranks")),
        (3, 3),
        "{said}"
    );

    // This version looks for none of the plugin's interfaces; and a worker that dies is a finding too.
    let unused = [("STANDIN_NCCL_VERSION", "22003")];
    check(&unused, 6, &["FAIL rank 2 on localhost: NCCL did not load", "is unsupported"]);
    let crash = [("STANDIN_NCCL_FAULT", "crash:allreduce:ring:simple:1")];
    check(&crash, 6, &["FAIL rank 1 on localhost: it was killed by signal"]);

    fs::write(folder.join(RULES_FILE), "edited").unwrap();
    let said = check(&[], 6, &["FAIL localhost:", "nccl-tuner.csv was changed"]);
    assert!(!said.contains("rank"), "no job is started from it: {said}");
    fs::remove_file(&plugin).unwrap();
    check(&[], 6, &["libnccl-tuner-gdrtune.so is missing"]);

    // Settings alone need no plugin.
    let profile = fs::read_to_string(home.path().join("profile.toml")).unwrap();
    let (settings, _) = profile.split_once("[[rule]]").unwrap();
    fs::write(home.path().join("settings.toml"), settings).unwrap();
    expect(home.path(), &["settings.toml", "--to", "a $b", "--force"], 0, &["installed 4 files"]);
    check(&[], 0, &["OK   rank 2 on localhost: runs under the settings; the profile has no rules"]);
}

#[test]
fn hosts_are_installed_each_for_itself() {
    in_sandbox("hosts_are_installed_each_for_itself", || {
        let hosts = VirtualHosts::up(2, None);
        let home = home();
        let config = hosts.ssh_config();
        let ssh = |args: &[&str], code, texts: &[&str]| {
            let mut command = gdrtune(home.path());
            command.arg("install").args(args).arg("--ssh-config").arg(&config);
            check_output(&output(&mut command), code, texts)
        };
        let both = ["-w", "vh[1-2]"];
        let on = |host: &str| hosts.shell(host, "ls -A '/opt/gdr $x' 2>&1; cat '/opt/gdr $x/nccl-tuner.csv'");
        let put = [&["profile.toml", "--to", "/opt/gdr $x"][..], &both].concat();
        let uninstall = [&["--uninstall", "--to", "/opt/gdr $x"][..], &both].concat();

        // Each host has an /opt of its own. One that fails does not keep the other from its installation.
        hosts.shell("vh2", "mkdir '/opt/gdr $x'; echo theirs > '/opt/gdr $x/nccl-tuner.csv'");
        ssh(&put, 1, &["vh1: installed 6 files", "gdrtune: vh2: /opt/gdr $x/nccl-tuner.csv was changed"]);
        assert_eq!(on("vh2"), "nccl-tuner.csv\ntheirs\n");
        ssh(&[&put[..], &["--force"]].concat(), 0, &["vh1: installed 6 files", "vh2: installed 6 files"]);
        assert!(on("vh1").contains("allreduce,") && on("vh1") == on("vh2"), "{}", on("vh2"));
        hosts.shell("vh2", "rm '/opt/gdr $x/nccl-tuner.csv'");
        ssh(
            &["--check", "--to", "/opt/gdr $x", "-w", "vh[1-2]"],
            6,
            &["FAIL vh2: /opt/gdr $x/nccl-tuner.csv is missing"],
        );
        ssh(&uninstall, 0, &["vh1: removed 6 files", "vh2: removed 5 files"]);
        assert!(on("vh1").contains("No such file"), "{}", on("vh1"));
        ssh(&uninstall, 4, &["there is no installation"]);

        // A folder on a file system that the hosts share; /tmp, where this build may lie, is each host's own.
        let shared = tempfile::tempdir_in("/srv").unwrap();
        let to = shared.path().join("f");
        let put_shared = ["profile.toml", "--to", to.to_str().unwrap(), "-w", "vh[1-2]"];
        for _ in 0..2 {
            ssh(&put_shared, 0, &["vh1: installed 6 files", "vh2: installed 6 files"]);
            assert_eq!(names(&to).len(), 6);
        }
        ssh(&[&["--uninstall"][..], &put_shared[1..]].concat(), 0, &["vh1: ", "vh2: "]);
        assert!(!to.exists());

        ssh(&["profile.toml", "--to", "/opt/a", "-w", "vh1,vh9"], 1, &["vh1: installed 6 files", "gdrtune: vh9: "]);
        ssh(&["profile.toml", "--to", "/opt/a", "-w", "vh9"], 3, &["vh9"]);
        hosts.assert_clean(&["vh1", "vh2"]);
    });
}
