use super::*;
use crate::{
    profile::{ByteRange, Class, Rule},
    vocab::{Algorithm, Engine, Protocol},
};

fn good() -> Profile {
    Profile::parse(include_str!("../../tests/golden/nccl.toml"), "golden").unwrap().0
}

/// The findings about the good profile after `change`, as `error` or `warning` and the message.
fn findings(change: impl FnOnce(&mut Profile)) -> Vec<String> {
    let mut profile = good();
    change(&mut profile);
    let shown = |problem: Problem| format!("{:?}: {}", problem.severity, problem.message);
    profile.problems().into_iter().map(shown).collect()
}

fn with_setting(name: &str, value: &str, class: Class) -> Vec<String> {
    findings(|profile| {
        profile.env =
            vec![EnvSetting { name: name.into(), value: value.into(), class, speedup: None, why: String::new() }];
    })
}

#[test]
fn a_good_profile_has_no_findings() {
    assert_eq!(findings(|_| {}), [""; 0]);
}

#[test]
fn settings_are_checked_against_the_catalogue() {
    use Class::{Debugging, System};
    for (name, value, class, finding) in [
        ("NCCL_IB_HCAS", "=mlx5_0", System, "Warning: NCCL_IB_HCAS is not in the catalogue; did you mean NCCL_IB_HCA?"),
        ("OMP_NUM_THREADS", "4", System, "Warning: OMP_NUM_THREADS is not in the catalogue"),
        ("NCCL IB", "4", System, "Error: `NCCL IB` is not the name of a variable"),
        ("NCCL_CROSS_NIC", "3", System, "Error: NCCL_CROSS_NIC cannot be `3`: write a whole number from 0 to 2"),
        ("NCCL_NET", "a\0", System, "Error: NCCL_NET cannot be `a\\0`: no process can be given a NUL byte"),
        ("NCCL_BUFFSIZE", "4194304", System, "Warning: NCCL_BUFFSIZE is of class debugging, not system"),
        (
            "NCCL_IB_HCA",
            "=mlx5_1:1:0",
            System,
            "Warning: NCCL 2.28.9 reads no rail or plane in NCCL_IB_HCA: they exist since 2.30",
        ),
        ("NCCL_IB_HCA", "mlx5_1", System, "Warning: the names in NCCL_IB_HCA are prefixes: begin the list with ="),
        ("NCCL_IB_OOO_RQ", "1", Debugging, "Warning: NCCL 2.28.9 does not read NCCL_IB_OOO_RQ: it exists since 2.30"),
        (
            "NCCL_MIN_NCHANNELS",
            "4",
            Debugging,
            "Warning: NCCL_MIN_NCHANNELS is deprecated since 2.17: older name of NCCL_MIN_CTAS; where both are set the tighter one wins",
        ),
        (
            "NCCL_ALGO",
            "Tree",
            Debugging,
            "Warning: nothing is left for allgather, reducescatter, broadcast, reduce: name the collective, as in allreduce:tree",
        ),
    ] {
        assert_eq!(with_setting(name, value, class), [finding], "{name}={value}");
    }
    assert_eq!(with_setting("X", "a\nb", System)[1], "Error: a line break in a value is never meant");
    assert_eq!(with_setting("NCCL_ALGO", "allreduce:tree", Debugging), [""; 0]);
}

#[test]
fn a_profile_decides_nothing_of_what_a_job_runs() {
    for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "BASH_ENV", "PROMPT_COMMAND", "CUDA_INJECTION64_PATH"] {
        let message = "has no place in a profile: it decides what a job runs, not how its collectives run";
        let expected = format!("Error: {name} {message}; set it in the job or on the site");
        assert_eq!(with_setting(name, "/x", Class::System), [expected]);
    }
    for name in ["GDRTUNE_RULES", "GDRTUNE_TUNER_PLUGIN", "GDRTUNE_STATE_DIR", "GDRTUNE_X"] {
        let findings = with_setting(name, "/x", Class::System);
        assert!(findings.len() == 1 && findings[0].contains("gdrtune sets it itself"), "{findings:?}");
    }
    let own = with_setting("GDRTUNE_NATIVE_NSOCKS", "2", Class::System);
    assert!(own.iter().all(|finding| !finding.contains("no place")), "{own:?}");
}

#[test]
fn an_old_library_cannot_read_a_new_list() {
    let findings = findings(|profile| {
        profile.cluster.nccl = Some("2.23.4".into());
        let value = "allreduce:tree;allgather:ring".into();
        profile.env = vec![EnvSetting {
            name: "NCCL_ALGO".into(),
            value,
            class: Class::Debugging,
            speedup: None,
            why: String::new(),
        }];
    });
    assert_eq!(
        findings,
        ["Warning: NCCL 2.23.4 cannot read it: `allreduce:tree` names a function, which NCCL reads since 2.24 only"]
    );
}

#[test]
fn repeated_and_conflicting_settings_are_found() {
    let twice = findings(|profile| profile.env.push(profile.env[0].clone()));
    assert_eq!(twice, ["Error: NCCL_IB_HCA is set twice"]);
    let sockets = findings(|profile| {
        for name in ["NCCL_NSOCKS_PERTHREAD", "NCCL_SOCKET_NTHREADS"] {
            let value = "9".to_owned();
            profile.env.push(EnvSetting {
                name: name.into(),
                value,
                class: Class::System,
                speedup: None,
                why: String::new(),
            });
        }
    });
    assert_eq!(sockets, ["Warning: 9 threads of 9 sockets are more than NCCL's 64"]);
    let both = findings(|profile| {
        for (name, value) in [("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVEL", "SYS")] {
            let (name, value) = (name.to_owned(), value.to_owned());
            profile.env.push(EnvSetting { name, value, class: Class::Debugging, speedup: None, why: String::new() });
        }
    });
    assert_eq!(both, ["Warning: NCCL_P2P_LEVEL and NCCL_P2P_DISABLE are both set: keep one of them"]);
}

#[test]
fn rules_are_checked_against_the_matrix_of_their_engine() {
    let with_rule = |change: fn(&mut Rule), engine| {
        findings(move |profile| {
            profile.run.engine = engine;
            change(&mut profile.rule[0]);
        })
    };
    let tree_broadcast = |rule: &mut Rule| rule.collective = Collective::Broadcast;
    assert_eq!(with_rule(tree_broadcast, Engine::Native), [""; 0]);
    for (change, finding) in [
        (tree_broadcast as fn(&mut Rule), "Error: nccl has no tree for broadcast: use one of ring"),
        (
            |r| r.collective = Collective::AllToAll,
            "Error: alltoall takes no algorithm or protocol: only process-level settings reach it",
        ),
        (
            |r| r.algorithm = Algorithm::NvlsTree,
            "Error: nvls_tree for allreduce does not run with ll: use one of simple",
        ),
        (|r| r.channels = Some(0), "Error: 0 channels cannot be: write 1 to 64, or leave them out"),
        (|r| r.default_us = f64::INFINITY, "Error: default_us is not a time: write microseconds above 0"),
        (|r| r.tuned_us = 0.0, "Error: tuned_us is not a time: write microseconds above 0"),
        (|r| r.speedup.median = -1.0, "Error: a speedup is a positive number"),
        (|r| r.speedup.low = 2.0, "Error: the interval runs backwards: low is above high"),
        (|r| r.speedup.p_faster = f64::NAN, "Error: p_faster is a probability from 0 to 1"),
        (|r| r.speedup.repeats = 0, "Error: a speedup without repeats is no evidence"),
        (|r| r.ranks = 3, "Error: 3 ranks are fewer than 4 nodes"),
        (|r| r.ranks = u32::MAX, "Error: 4294967295 ranks are more than NCCL can count"),
        (|r| r.nodes = 0, "Error: 0 nodes hold nothing"),
    ] {
        assert_eq!(with_rule(change, Engine::Nccl), [finding]);
    }
    let old = findings(|profile| {
        profile.cluster.nccl = Some("2.24.3".into());
        profile.rule[0].channels = Some(33);
    });
    assert_eq!(old, ["Error: 33 channels cannot be: write 1 to 32, or leave them out"]);
}

#[test]
fn only_rules_for_the_same_calls_overlap() {
    let with_second = |change: fn(&mut Rule)| {
        findings(move |profile| {
            let mut second = profile.rule[0].clone();
            second.protocol = Protocol::Simple;
            change(&mut second);
            profile.rule = vec![profile.rule[0].clone(), second];
        })
    };
    let all = with_second(|_| {});
    assert_eq!(
        all,
        [
            "Warning: an earlier rule for allreduce on 4 nodes and 32 ranks overlaps: the first one (tree/ll/2) wins from 0 to 64K"
        ]
    );
    assert_eq!(with_second(|rule| rule.bytes = ByteRange { min: 65536, max: None }).len(), 1);
    assert_eq!(with_second(|rule| rule.bytes = ByteRange { min: 65537, max: None }), [""; 0]);
    assert_eq!(with_second(|rule| rule.ranks = 8), [""; 0]);
    assert_eq!(
        with_second(|rule| (rule.collective, rule.algorithm) = (Collective::AllGather, Algorithm::Ring)),
        [""; 0]
    );
}

#[test]
fn the_cluster_is_checked() {
    assert_eq!(findings(|p| p.format = 2), ["Error: this gdrtune reads and writes format 1"]);
    assert_eq!(findings(|p| p.cluster.ranks = 0), ["Error: 0 ranks are fewer than 4 nodes"]);
    assert_eq!(
        findings(|p| p.cluster.nccl = Some("new".into())),
        ["Warning: `new` is not an NCCL version: write it as 2.28.9; nothing can be checked against it"]
    );
}
