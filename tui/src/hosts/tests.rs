use super::*;
use crate::exit::Exit;

#[test]
fn only_device_files_of_gpus_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(gpus(folder.path()), 0);
    for name in ["nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "null"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    assert_eq!(gpus(folder.path()), 3);
    assert_eq!(gpus(&folder.path().join("missing")), 0);
}

/// A job of three nodes with two tasks each.
const JOB: [(&str, &str); 4] = [
    ("SLURM_JOB_ID", "7"),
    ("SLURM_JOB_NODELIST", "vh[1-3]"),
    ("SLURM_TASKS_PER_NODE", "2(x3)"),
    ("SLURM_NTASKS_PER_NODE", "2"),
];

fn resolve_with(words: &[&str], variables: &[(&str, &str)], surroundings: Surroundings) -> Result<Place, Failure> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: HostArgs,
    }
    let words = std::iter::once("gdrtune").chain(words.iter().copied());
    let args = <Line as clap::Parser>::try_parse_from(words).unwrap().args;
    resolve_in(&args, LOCAL_RANKS, surroundings, &|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

/// `HOST:RANKS ... by LAUNCHER`.
fn line(place: &Place) -> String {
    let hosts = place.hosts.iter().zip(&place.slots).map(|(host, slots)| format!("{}:{slots} ", host.name));
    let launcher = match &place.launcher {
        LauncherKind::Local => "local",
        LauncherKind::Ssh(_) => "ssh",
        LauncherKind::Slurm => "slurm",
        LauncherKind::Exec(_) => "exec",
        LauncherKind::Other(_) => "other",
    };
    hosts.collect::<String>() + "by " + launcher
}

fn site_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn hosts_and_launchers_come_from_whoever_says_so_first() {
    let site = site_file("hosts = 's[1-3]'\nexclude = 's2'\nranks_per_node = 8\nlauncher_cmd = 'on {host} {agent}'");
    let site = site.path().to_str().unwrap();
    let on_job = site_file("exclude = 'vh2,vh9'\n");
    let on_job = on_job.path().to_str().unwrap();
    let (job, none) = (&JOB[..], &[][..]);
    for (words, variables, expected) in [
        (&[][..], none, "localhost:4 by local"),
        (&["--ranks-per-node", "2"], none, "localhost:2 by local"),
        (&["-w", "a[1-3],b:2", "-x", "a2"], none, "a1:1 a3:1 b:2 by ssh"),
        (&["-w", "a,b:2", "--ranks-per-node", "3"], none, "a:3 b:2 by ssh"),
        (&["-w", "a,b", "--launcher", "local"], none, "a:1 b:1 by local"),
        (&["-w", "a,b", "--launcher-cmd", "on {host} {agent}"], none, "a:1 b:1 by exec"),
        (&["--site", site], none, "s1:8 s3:8 by exec"),
        (&["--site", site, "-x", "s1", "--launcher", "ssh"], none, "s3:8 by ssh"),
        (&["--site", site, "-w", "s2:4,t"], none, "s2:4 t:8 by exec"),
        (&["--site", site, "--ranks-per-node", "2"], none, "s1:2 s3:2 by exec"),
        // In a job.
        (&[], job, "vh1:2 vh2:2 vh3:2 by slurm"),
        (&["-x", "vh2"], job, "vh1:2 vh3:2 by slurm"),
        (&["--ranks-per-node", "1"], job, "vh1:1 vh2:1 vh3:1 by slurm"),
        (&["-w", "vh3,vh1"], job, "vh3:2 vh1:2 by slurm"),
        (&["-w", "vh3:5,vh1:2,vh2", "--ranks-per-node", "1"], job, "vh3:5 vh1:2 vh2:1 by slurm"),
        (&["--launcher", "ssh"], job, "vh1:2 vh2:2 vh3:2 by ssh"),
        (&["--launcher", "local"], job, "localhost:4 by local"),
        (&["-w", "far"], job, "far:1 by ssh"),
        (&["--site", on_job], job, "vh1:2 vh3:2 by slurm"),
        (&["--site", site], job, "s1:8 s3:8 by exec"),
    ] {
        let place = resolve_with(words, variables, Surroundings::Job).unwrap();
        assert_eq!(line(&place), expected, "{words:?}");
        assert_eq!(place.warnings, Vec::<String>::new(), "{words:?}");
    }
    let install = resolve_with(&[], job, Surroundings::ThisMachine).unwrap();
    assert_eq!((line(&install).as_str(), install.local), ("localhost:4 by local", true));
    let install = resolve_with(&["--launcher", "slurm"], job, Surroundings::ThisMachine).unwrap();
    assert_eq!(line(&install), "vh1:2 vh2:2 vh3:2 by slurm");
}

#[test]
fn hosts_that_nobody_named_are_said() {
    let about =
        |words: &[&str], variables: &[(&str, &str)]| resolve_with(words, variables, Surroundings::Job).unwrap().about;
    let site = site_file("name = 'alps'\nhosts = 's[01-16]'");
    let site = site.path().to_str().unwrap();
    assert_eq!(about(&["--site", site, "-x", "s07"], &[]).as_deref(), Some("15 hosts of site alps: s[01-06,08-16]"));
    assert_eq!(about(&["-x", "vh[1-2]"], &JOB).as_deref(), Some("1 host of Slurm job 7: vh3"));
    assert_eq!(about(&["-w", "vh1"], &JOB), None);
    assert_eq!(about(&[], &[]), None);
}

#[test]
fn the_rest_of_a_site_file_reaches_the_fleet() {
    let site = site_file(
        "hosts = 'a'\nfanout = 4\nremote_dir = '/scratch'\nnccl = '/n'\nssh_config = 'c'\n[environment]\nA = '1'",
    );
    let path = site.path().to_str().unwrap();
    let place = resolve_with(&["--site", path], &[], Surroundings::Job).unwrap();
    let LauncherKind::Ssh(options) = &place.launcher else { panic!("{:?}", place.launcher) };
    assert_eq!(options.ssh_config.as_deref(), Some(site.path().with_file_name("c").as_path()));
    assert_eq!((place.fanout, options.jump_window, place.nccl.as_deref()), (4, 4, Some("/n")));
    assert_eq!(place.environment, [("A".to_owned(), "1".to_owned())]);
    assert_eq!(place.remote_folder.as_deref(), Some("/scratch"));

    let words = ["--site", path, "--fanout", "9", "--ssh-config", "/d", "--remote-dir", "/e"];
    let place = resolve_with(&words, &[], Surroundings::Job).unwrap();
    let LauncherKind::Ssh(options) = &place.launcher else { panic!("{:?}", place.launcher) };
    assert_eq!(options.ssh_config.as_deref(), Some(Path::new("/d")));
    assert_eq!((place.fanout, options.jump_window, place.remote_folder.as_deref()), (9, 9, Some("/e")));

    let place = resolve_with(&["-w", "a", "--agent-dir", "/dev"], &[], Surroundings::Job).unwrap();
    assert_eq!(place.agent_folder.as_deref(), Some(Path::new("/dev")));
    let failure = resolve_with(&["-w", "a", "--agent-dir", "/nowhere"], &[], Surroundings::Job).unwrap_err();
    assert_eq!(failure.error.to_string(), "--agent-dir: /nowhere is no folder");

    let place = resolve_with(&["-w", "a"], &[], Surroundings::Job).unwrap();
    let LauncherKind::Ssh(options) = &place.launcher else { panic!("{:?}", place.launcher) };
    assert_eq!((place.fanout, options.jump_window), (32, 8));
}

#[test]
fn what_cannot_be_is_said_with_the_next_step() {
    let job = &JOB[..];
    let tasks = [job, &[("SLURM_PROCID", "2"), ("SLURM_STEP_NUM_TASKS", "4")]].concat();
    let shell = [job, &[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")]].concat();
    for (words, variables, expected) in [
        (
            &["--launcher", "slurm"][..],
            &[][..],
            "--launcher slurm: this is no Slurm allocation; run it within one: `salloc -N4 gdrtune tune ...`, or in a script of \
             `sbatch -N4`; or reach the hosts without Slurm with --launcher ssh",
        ),
        (
            &["-w", "vh1,far[1-2]"],
            job,
            "far[1-2] are not among the nodes of Slurm job 7: vh[1-3]; name nodes of the job only, or reach the others with \
             --launcher ssh",
        ),
        (
            &["-w", "far", "--launcher", "slurm"],
            job,
            "far is not among the nodes of Slurm job 7: vh[1-3]; name nodes of the job only, or reach the others with \
             --launcher ssh",
        ),
        (
            &["-w", "root@vh1"],
            job,
            "vh1: a user or a port is for ssh alone, and agents are started by slurm; leave it out, or use --launcher ssh",
        ),
        (
            &[],
            &tasks,
            "this is one of 4 tasks of an srun, and each would start agents on all nodes; run gdrtune once, without srun: it \
             calls srun itself",
        ),
        (&["--launcher", "ssh"], &[], "--launcher ssh: no host is named: give hosts with -w, --hostfile or --site"),
        (
            &["--launcher", "exec", "-w", "a"],
            &[],
            "--launcher exec needs a command: --launcher-cmd 'kubectl exec -i {host} -- {agent}'",
        ),
        (
            &["--launcher-cmd", "on {agent}"],
            &[],
            "--launcher exec: no host is named: give hosts with -w, --hostfile or --site",
        ),
        (
            &["--launcher-cmd", "on {agent}", "-w", "a,b"],
            &[],
            "--launcher-cmd: without {host} it leads 2 hosts to one place",
        ),
        (
            &["--launcher-cmd", "on {agent}", "--launcher", "ssh", "-w", "a"],
            &[],
            "--launcher-cmd: the ssh launcher runs no command: use --launcher exec",
        ),
        (&["-w", "a", "-x", "a"], &[], "every host is excluded: leave fewer out with -x"),
        (
            &["-w", "a", "--exclude-hosts=-b"],
            &[],
            "read hosts: -x:1:1: a name that starts with '-' looks like an option; expected a host name",
        ),
        (
            &[],
            &[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "a[2-1]")],
            "read hosts: $SLURM_JOB_NODELIST:1:3: range 2-1 runs backwards; expected [1-2]",
        ),
    ] {
        let failure = resolve_with(words, variables, Surroundings::Job).unwrap_err();
        let hint = failure.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        assert_eq!(format!("{:#}{hint}", failure.error), expected, "{words:?}");
        assert_eq!(failure.exit, Exit::Usage, "{words:?}");
    }
    assert!(resolve_with(&[], &shell, Surroundings::Job).is_ok());
}
