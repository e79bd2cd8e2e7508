use std::ffi::OsString;

use clap::CommandFactory as _;

use super::*;

#[test]
fn the_definitions_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_wait_may_have_an_end() {
    for (words, seconds) in
        [(&[][..], Some(0)), (&["--wait", "2m"], Some(120)), (&["--wait=3s"], Some(3)), (&["--wait"], None)]
    {
        let line = ["gdrtune", "bench"].iter().chain(words).map(OsString::from);
        let Command::Bench(args) = Cli::read(line).unwrap().command else { panic!("bench") };
        assert_eq!(args.measure.trial.wait(), seconds.map_or(Duration::MAX, Duration::from_secs), "{words:?}");
    }
}

#[test]
fn plain_is_another_name_of_headless() {
    for words in [&["tune"][..], &["demo"], &["runs", "resume", "last"]] {
        for (option, is_headless) in [(None, false), (Some("--plain"), true), (Some("--headless"), true)] {
            let line = ["gdrtune"].iter().chain(words).copied().chain(option).map(OsString::from);
            let show = match Cli::read(line).unwrap().command {
                Command::Tune(args) => args.show,
                Command::Demo(args) => args.show,
                Command::Runs(args) => match args.command {
                    Some(RunsCommand::Resume(args)) => args.show,
                    _ => panic!("{words:?}"),
                },
                _ => panic!("{words:?}"),
            };
            assert_eq!(show.is_headless(), is_headless, "{words:?} {option:?}");
        }
    }
}

#[test]
fn wrong_use_is_explained() {
    let cases: &[(&[&str], &str)] = &[
        (&["tune", "--collectives", "all_reduce"], "unknown collective `all_reduce`: use one of allreduce,"),
        (&["tune", "--engine", "mpi"], "unknown engine `mpi`: use one of nccl, native, replay, sim"),
        (&["tune", "--budget", "5w"], "unknown unit `w`: use s, m, h or d"),
        (&["tune", "-w", "a", "--hostfile", "b"], "cannot be used with"),
        (
            &["tune", "--launcher", "slrum"],
            "unknown launcher `slrum`: use one of auto, local, ssh, slurm, exec; did you",
        ),
        (&["tune", "--launcher-cmd", "kubectl exec -i {hots} -- {agent}"], "did you mean `{host}`?"),
        (&["tune", "--remote-dir", "x"], "the folder on the hosts needs an absolute path"),
        (&["tune", "--workload", "fsdp", "--sizes", "1K"], "cannot be used with"),
        (&["tune", "--workload", "fsdp", "--collectives", "allreduce"], "cannot be used with"),
        (&["tune", "--objective", "time"], "[possible values: geomean, time-per-step]"),
        (&["tune", "--sm-cost", "101"], "expected a percentage from 0 to 100"),
        (&["tune", "--shapes", "2x8,4"], "`4` is no job shape: write NODESxRANKS_PER_NODE, such as 4x8"),
        (&["tune", "--shapes", "2x8,0x8"], "`0x8`: the number of nodes must be 1 to 65536"),
        (&["tune", "--shapes", "2x8,2x8"], "the shape 2x8 is named twice"),
        (&["tune", "--shapes", "2x8", "--ranks-per-node", "8"], "cannot be used with"),
        (&["tune", "--shapes", "2x8", "--min-nodes", "2"], "cannot be used with"),
        (&["tune", "--min-nodes", "0"], "0 is not in 1.."),
        (&["bench", "--choice", "ring"], "expected ALGORITHM/PROTOCOL"),
        (&["bench", "--choice", "ring/simple/0"], "`0` is no channel count: use 1 to 64"),
        (&["bench", "--choice", "ring/fast"], "unknown protocol `fast`: use one of ll, ll128, simple"),
        (&["bench", "--choices", "all", "--json"], "cannot be used with"),
        (&["emit", "p.toml"], "--format"),
        (&["bench", "--worker-cmd", "env"], "`{worker}` is missing"),
        (&["tune", "--worker-cmd", "env {wroker}"], "unknown placeholder `{wroker}`; did you mean `{worker}`?"),
        (&["install", "--to", "/d"], "<PROFILE>"),
        (&["install", "p.toml"], "--to <DIR>"),
        (&["install", "p.toml", "--to", "/d", "--check"], "cannot be used with"),
        (&["install", "--uninstall", "--check", "--to", "/d"], "cannot be used with"),
        (&["install", "--check", "--to", "/d", "--path-in-image", "/x"], "cannot be used with"),
        (&["install", "p.toml", "--to", "/d", "--nccl", "/x"], "cannot be used with"),
        (&["install", "--uninstall", "--to", "/d", "--emulate-nodes"], "cannot be used with"),
        (&["install", "--to", "/d", "--nccl", "/x"], "--check"),
        (&["install", "p.toml", "--to", "/d", "--wait"], "cannot be used with"),
        (&["tune", "-q", "-v"], "cannot be used with"),
        (&["replay", "last", "--speed", "-1"], "unexpected argument '-1'"),
        (&["replay", "last", "--speed", "fast"], "expected a factor above 0, such as 10 or 0.5, or max"),
        (&["replay", "last", "--speed", "inf"], "expected a factor above 0"),
        (&["runs", "export", "last", "--format", "xml"], "[possible values: csv, json, jsonl]"),
        (&["bench", "--wait", "soon"], "invalid value 'soon' for '--wait [<TIME>]'"),
    ];
    for (args, expected) in cases {
        let argv = std::iter::once("gdrtune").chain(args.iter().copied());
        let error = Cli::read(argv.map(OsString::from)).unwrap_err().to_string();
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}
