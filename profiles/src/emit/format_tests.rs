//! What each format promises beyond its golden files: what its reader makes of it, and what it refuses.

use proptest::prelude::*;

use super::*;
use crate::{
    grammar::{
        dockerfile, ncclx, open_mpi, shell,
        tuner_csv::{Call, RuleTable},
        ucc, yaml,
    },
    lint::{self, Input, Options},
    profile::{ByteRange, Class, EnvSetting, Rule},
    vocab::{Algorithm, Choice, Collective, Protocol},
};

fn nccl() -> Profile {
    Profile::parse(include_str!("../../tests/golden/nccl.toml"), "golden").unwrap().0
}

fn text(profile: &Profile, format: Format) -> String {
    emit(profile, format, &EmitOptions::plain()).unwrap()
}

fn with_setting(name: &str, value: &str) -> Profile {
    let (name, value) = (name.to_owned(), value.to_owned());
    Profile {
        env: vec![EnvSetting { name, value, class: Class::Debugging, speedup: None, why: String::new() }],
        ..nccl()
    }
}

/// The profile with one rule for each (collective, smallest, largest, choice).
fn with_rules(rules: &[(Collective, u64, Option<u64>, &str)]) -> Profile {
    let mut profile = nccl();
    let template = profile.rule[0].clone();
    profile.rule = rules
        .iter()
        .map(|(collective, min, max, choice)| {
            let mut parts = choice.split('/');
            Rule {
                collective: *collective,
                bytes: ByteRange { min: *min, max: *max },
                algorithm: parts.next().unwrap().parse().unwrap(),
                protocol: parts.next().unwrap().parse().unwrap(),
                channels: parts.next().map(|channels| channels.parse().unwrap()),
                ..template.clone()
            }
        })
        .collect();
    profile
}

/// What the profile states for a call; the first rule wins.
fn stated(profile: &Profile, collective: Collective, bytes: u64, (nodes, ranks): (u32, u32)) -> Option<Choice> {
    let is_of = |rule: &&Rule| {
        (rule.collective, rule.nodes, rule.ranks) == (collective, nodes, ranks) && rule.bytes.contains(bytes)
    };
    profile.rule.iter().find(is_of).map(Rule::choice)
}

/// Rules of any sizes, which may overlap, for two shapes and two collectives.
fn any_rules() -> impl Strategy<Value = Profile> {
    let range = (0_u64..2000, proptest::option::of(0_u64..2000));
    let rule = (range, proptest::bool::ANY, proptest::bool::ANY, 0_u16..=8, proptest::sample::select(Protocol::ALL));
    proptest::collection::vec(rule, 1..6).prop_map(|rules| {
        let mut profile = nccl();
        let template = profile.rule[0].clone();
        let made = rules.into_iter().map(|((min, length), is_small, is_gather, channels, protocol)| Rule {
            collective: if is_gather { Collective::AllGather } else { Collective::AllReduce },
            bytes: ByteRange { min, max: length.map(|length| min + length) },
            algorithm: Algorithm::Ring,
            protocol,
            channels: (channels > 0).then_some(channels),
            nodes: if is_small { 2 } else { 4 },
            ranks: if is_small { 4 } else { 32 },
            ..template.clone()
        });
        profile.rule = made.collect();
        profile
    })
}

const SHAPES: [(u32, u32); 2] = [(4, 32), (2, 4)];

#[test]
fn lists_of_algorithms_are_emitted_per_collective_or_not_at_all() {
    let sh = |profile: &Profile| text(profile, Format::Sh);
    for (nccl, name, value, expected) in [
        ("2.28.9", "NCCL_ALGO", "allreduce:tree", "\nexport NCCL_ALGO='allreduce:tree'\n"),
        (
            "2.28.9",
            "NCCL_ALGO",
            "Ring",
            "\nexport NCCL_ALGO='allreduce:ring;allgather:ring;reducescatter:ring;broadcast:ring;reduce:ring'\n",
        ),
        (
            "2.28.9",
            "NCCL_ALGO",
            "Tree",
            "# NOT SET: nothing is left for allgather, reducescatter, broadcast, reduce, whose calls would fail\n#export NCCL_ALGO=",
        ),
        (
            "2.28.9",
            "NCCL_ALGO",
            "allgather:tree",
            "# NOT SET: nothing is left for allgather, whose calls would fail\n#",
        ),
        ("2.22.3", "NCCL_ALGO", "Ring,Tree", "\nexport NCCL_ALGO='Ring,Tree'\n"),
        ("2.22.3", "NCCL_ALGO", "Tree", "# NOT SET: nothing is left for allgather"),
        (
            "2.22.3",
            "NCCL_PROTO",
            "allreduce:ll",
            "# NOT SET: NCCL would not read it: `allreduce:ll` names a function, which NCCL reads since 2.24 only\n#",
        ),
    ] {
        let mut profile = with_setting(name, value);
        profile.cluster.nccl = Some(nccl.to_owned());
        profile.rule.clear();
        let emitted = sh(&profile);
        assert!(emitted.contains(expected), "{nccl} {value}: {emitted}");
    }
    let mut unknown = with_setting("NCCL_ALGO", "allreduce:tree");
    unknown.cluster.nccl = None;
    assert!(
        sh(&unknown).contains("# NOT SET: its grammar depends on NCCL's version, which the profile does not name\n#")
    );
    // A tree with a protocol that it does not run.
    let mut both = with_setting("NCCL_ALGO", "allreduce:nvls");
    both.env.push(EnvSetting { name: "NCCL_PROTO".into(), value: "allreduce:ll".into(), ..both.env[0].clone() });
    assert_eq!(sh(&both).matches("# NOT SET: nothing is left for allreduce, whose calls would fail\n").count(), 2);
}

#[test]
fn lists_are_made_of_rules_where_one_choice_wins_at_every_size() {
    use Collective::{AllGather, AllReduce, Broadcast};

    let lists = EmitOptions { choice_lists: true, ..EmitOptions::plain() };
    let profile = with_rules(&[
        (AllReduce, 0, Some(1023), "tree/ll/2"),
        (AllReduce, 1024, None, "tree/ll/8"),
        (AllGather, 0, Some(65536), "ring/ll/1"),
        (AllGather, 65537, None, "ring/simple"),
        (Broadcast, 4096, None, "ring/simple"),
    ]);
    let emitted = emit(&profile, Format::Sh, &lists).unwrap();
    let assignments = shell::parse(&emitted).unwrap();
    let of = |name: &str| assignments.iter().find(|a| a.name == name).map(|a| a.value.as_str());
    assert_eq!((of("NCCL_ALGO"), of("NCCL_PROTO")), (Some("allreduce:tree"), Some("allreduce:ll")));
    for said in [
        "# allgather is in no list: no choice wins at every size\n",
        "# broadcast is in no list: its rules leave sizes to NCCL\n",
        "# debugging setting: NCCL's guide says not to keep it; re-check it with every NCCL after 2.28.9\n",
        "# allreduce below 1K: 1.130x (1.090 to 1.180), P(faster) 0.990, 9 processes per arm\n",
    ] {
        assert!(emitted.contains(said), "{said}{emitted}");
    }
    assert!(!text(&profile, Format::Sh).contains("NCCL_ALGO"), "only where they are asked for");

    let none = |profile: &Profile, why: &str| {
        let emitted = emit(profile, Format::Env, &lists).unwrap();
        assert!(emitted.contains(why) && !emitted.contains("\nNCCL_ALGO="), "{emitted}");
    };
    none(&with_rules(&[(AllReduce, 0, None, "ring/ll128")]), "naming LL128 skips NCCL's test");
    none(&with_rules(&[(AllReduce, 0, Some(9), "ring/ll")]), "its rules leave sizes to NCCL");
    let mut shapes = with_rules(&[(AllReduce, 0, None, "ring/ll"), (AllReduce, 0, None, "ring/ll")]);
    shapes.rule[1].nodes = 2;
    none(&shapes, "a variable holds for jobs of every shape, and its rules are for several");
    let mut old = with_rules(&[(AllReduce, 0, None, "ring/ll")]);
    old.cluster.nccl = Some("2.22.3".into());
    none(&old, "only NCCL 2.24 and later reads NCCL_ALGO per collective");
    let mut own = with_rules(&[(AllReduce, 0, None, "ring/ll")]);
    own.env = with_setting("NCCL_PROTO", "^LL128").env;
    none(&own, "the profile sets NCCL_ALGO or NCCL_PROTO itself");
}

#[test]
fn what_the_example_plugin_would_force_to_one_channel_has_a_row() {
    use Collective::{AllReduce, ReduceScatter};

    let profile = with_rules(&[
        (AllReduce, 4096, Some(65536), "tree/ll/2"),
        (AllReduce, 1 << 20, Some(1 << 24), "nvls/simple"),
        (ReduceScatter, 0, Some(1 << 20), "ring/ll"),
    ]);
    let (table, diagnostics) = RuleTable::parse(&text(&profile, Format::StockCsv));
    assert_eq!(diagnostics, []);
    let runs = |collective, bytes| {
        let (choice, channels) = table.example_plugin(&Call::new(collective, bytes, 4, 32));
        let (algorithm, protocol) = choice.unwrap();
        Choice { algorithm, protocol, channels }.to_string()
    };
    for (collective, bytes, expected) in [
        (AllReduce, 0, "tree/ll/2"),
        (AllReduce, 4096, "tree/ll/2"),
        (AllReduce, 65536, "tree/ll/2"),
        (AllReduce, 65537, "nvls/simple/64"),
        (AllReduce, 1 << 24, "nvls/simple/64"),
        (AllReduce, 1 << 40, "nvls/simple/64"),
        // NCCL's count for 1 MiB in LL on a ring of 32: 128 KiB a channel.
        (ReduceScatter, 1 << 20, "ring/ll/8"),
        // LL does not go on beyond what was measured.
        (ReduceScatter, 1 << 30, "ring/simple/64"),
        (Collective::Broadcast, 65536, "ring/ll/1"),
        (Collective::Broadcast, 65537, "ring/simple/64"),
    ] {
        assert_eq!(runs(collective, bytes), expected, "{collective} {bytes}");
    }
    let mut old = profile;
    old.cluster.nccl = Some("2.24.3".into());
    assert!(
        text(&old, Format::StockCsv).contains("\nbroadcast,65537,9223372036854775807,ring,simple,32,-1,-1,-1,-1\n")
    );
    let none = Profile { rule: Vec::new(), ..old };
    assert!(text(&none, Format::StockCsv).lines().all(|line| line.starts_with('#')));
}

#[test]
fn rules_for_rccl_are_live_where_they_were_measured_on_its_gpus() {
    let rules = |profile: &Profile, options: &EmitOptions| {
        RuleTable::parse(&emit(profile, Format::RcclCsv, options).unwrap()).0.rules().len()
    };
    assert_eq!(rules(&nccl(), &EmitOptions::plain()), 0);
    assert!(text(&nccl(), Format::RcclCsv).contains("# NOT MEASURED WITH RCCL"));
    assert_eq!(rules(&nccl(), &EmitOptions { for_engine: Some(Engine::Nccl), ..EmitOptions::plain() }), 2);
    let mut amd = nccl();
    amd.cluster.gpu = Some("AMD Instinct MI300X".into());
    assert_eq!(rules(&amd, &EmitOptions::plain()), 2);
    assert!(!text(&amd, Format::RcclCsv).contains("NOT MEASURED"));
}

#[test]
fn calls_that_rules_are_for_are_handed_to_nccl() {
    use Collective::{AllReduce, Broadcast, ReduceScatter};

    let profile = with_rules(&[
        (AllReduce, 0, Some(1023), "tree/ll"),
        (AllReduce, 1024, Some(4095), "ring/ll"),
        (AllReduce, 1 << 20, None, "ring/simple"),
        (Broadcast, 0, None, "ring/simple"),
        (ReduceScatter, 1024, Some(4096), "ring/simple"),
    ]);
    let emitted = text(&profile, Format::Ucc);
    let expected = "\nUCC_TL_NCCL_TUNE=allreduce:0-4096,1048576-inf:cuda:[32-32]:inf#bcast:cuda:[32-32]:inf#reduce_scatter:cuda:[32-32]:inf\n";
    assert!(emitted.ends_with(expected), "{emitted}");
    assert_eq!(ucc::parse(&emitted).unwrap().len(), 3);
    let mut native = profile;
    native.run.engine = Engine::Sim;
    assert!(text(&native, Format::Ucc).contains("\n#UCC_TL_NCCL_TUNE="));
}

#[test]
fn bytes_per_rank_that_two_rules_share_are_said() {
    use Collective::AllReduce;

    let profile = with_rules(&[
        (AllReduce, 8, Some(16), "ring/ll"),
        (AllReduce, 17, Some(100), "tree/ll"),
        (AllReduce, 128, None, "ring/simple"),
    ]);
    let emitted = text(&profile, Format::NcclxCsv);
    for said in [
        "# left to NCCLX: no whole number of bytes for each of 32 ranks is in 8 to 16\n#allreduce,1,ring,ll,-1,4,8\n",
        "# from 32 bytes on: below, the bytes of a rank are those of smaller calls\nallreduce,[1,3],tree,ll,-1,4,8\n",
        "\nallreduce,[4,),ring,simple,-1,4,8\n",
    ] {
        assert!(emitted.contains(said), "{said}{emitted}");
    }
    let mut uneven = profile;
    uneven.rule.truncate(1);
    (uneven.rule[0].nodes, uneven.rule[0].ranks) = (3, 8);
    let emitted = text(&uneven, Format::NcclxCsv);
    assert!(
        emitted
            .contains("# NCCLX divides by 6, not by 8 ranks: the nodes have different numbers of them\nallreduce,2,"),
        "{emitted}"
    );
    uneven.rule[0].bytes = ByteRange { min: u64::MAX, max: None };
    (uneven.rule[0].nodes, uneven.rule[0].ranks) = (1, 1);
    let error = emit(&uneven, Format::NcclxJson, &EmitOptions::plain()).unwrap_err().to_string();
    assert!(error.starts_with("emit ncclx-json: the rule for allreduce"), "{error}");
}

#[test]
fn what_mpirun_cannot_hold_is_refused_alone_and_said_among_all() {
    for (format, value, cause) in [
        (Format::OpenMpi, "allreduce:tree;allgather:ring", "has a semicolon, which ends it in a tune file"),
        (Format::OpenMpi, "a b", "has a blank, where mpirun splits the line"),
        (Format::Appfile, "a b", "has a blank, where mpirun splits the line"),
        (Format::Appfile, "a//b", "has # or //, where mpirun cuts the line"),
    ] {
        let profile = with_setting("NCCL_X", value);
        let error = emit(&profile, format, &EmitOptions::plain()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("emit {format}: NCCL_X does not fit: the value {cause}")), "{error}");
        let all = emit_all(&profile, &EmitOptions::plain()).unwrap();
        let (_, text) = all.iter().find(|(name, _)| *name == format.file_name()).unwrap();
        assert!(
            text.lines().all(|line| line.starts_with('#')) && text.contains("# NOT EMITTED, and nothing is set here: "),
            "{text}"
        );
    }
    let program = |program: &str| {
        emit(&nccl(), Format::Appfile, &EmitOptions { program: Some(program.to_owned()), ..EmitOptions::plain() })
    };
    let apps = open_mpi::parse_app(&program("python3 train.py --steps 5").unwrap()).unwrap();
    assert_eq!((apps[0].processes, apps[0].command.join(" ")), (32, "python3 train.py --steps 5".to_owned()));
    for wrong in ["", "a # b", "-x A=1 env", "--oversubscribe a", "a\nb"] {
        assert!(matches!(program(wrong), Err(EmitError::DoesNotFit { .. })), "{wrong:?}: {:?}", program(wrong));
    }
}

#[test]
fn manifests_say_what_they_are() {
    let documents = yaml::parse(&text(&nccl(), Format::ConfigMap)).unwrap();
    assert_eq!(documents.len(), 2);
    assert_eq!(
        documents[1].at("data").and_then(|data| data.get("nccl-tuner.csv")?.text()),
        Some(text(&nccl(), Format::TunerCsv).as_str())
    );
    let mut empty = nccl();
    (empty.env, empty.rule) = (Vec::new(), Vec::new());
    assert!(text(&empty, Format::ConfigMap).ends_with("\ndata: {}\n"));
    assert!(!text(&empty, Format::PodPatch).contains("volumes"));
    let named = EmitOptions { container: Some("train \"1\": x".into()), ..EmitOptions::plain() };
    let patch = emit(&nccl(), Format::PodPatch, &named).unwrap();
    let name = yaml::parse(&patch).unwrap()[0].at("spec/template/spec/containers/0/name").cloned();
    assert_eq!(name, Some(yaml::Yaml::Text("train \"1\": x".into())));
}

#[test]
fn nothing_that_is_emitted_is_a_trap_to_lint() {
    let mut profile = nccl();
    // Debugging variables are worth a warning wherever they stand.
    profile.env.retain(|setting| setting.class == Class::System);
    for (name, text) in emit_all(&profile, &EmitOptions::plain()).unwrap() {
        let inputs = [Input { name, text: &text, kind: None }];
        let options = Options { version: profile.nccl_version(), exists: None, allow: &[] };
        let found: Vec<String> =
            lint::lint(&inputs, &options).iter().map(|f| format!("{}: {}", f.line, f.message)).collect();
        assert_eq!(found, Vec::<String>::new(), "{name}");
    }
}

proptest! {
    // Each case emits and reads several files.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_example_plugin_runs_what_the_profile_states(profile in any_rules(), sizes in proptest::collection::vec(0_u64..5000, 8)) {
        let (table, diagnostics) = RuleTable::parse(&text(&profile, Format::StockCsv));
        prop_assert_eq!(diagnostics, []);
        for shape in SHAPES {
            for collective in Collective::ALL.iter().copied().filter(|collective| collective.has_choice()) {
                for bytes in sizes.iter().copied().chain([u64::MAX >> 1]) {
                    let (choice, channels) = table.example_plugin(&Call::new(collective, bytes, shape.0, shape.1));
                    prop_assert!(choice.is_some(), "{} {}: one channel", collective, bytes);
                    if let Some(stated) = stated(&profile, collective, bytes, shape) {
                        prop_assert_eq!(choice, Some((stated.algorithm, stated.protocol)));
                        prop_assert!(stated.channels == 0 || stated.channels == channels);
                    }
                }
            }
        }
        let inputs = [Input { name: "nccl-tuner.csv", text: &text(&profile, Format::StockCsv), kind: None }];
        let found = lint::lint(&inputs, &Options { version: None, exists: None, allow: &["tuner-shadowed".to_owned()] });
        let uncovered: Vec<_> = found.iter().filter(|finding| finding.message.contains("one channel")).collect();
        prop_assert!(uncovered.is_empty(), "{:?}", uncovered);
    }

    #[test]
    fn ncclx_runs_what_the_profile_states_for_whole_bytes_of_a_rank(profile in any_rules(), per_rank in 0_u64..2000) {
        let csv = ncclx::parse_csv(&text(&profile, Format::NcclxCsv)).unwrap();
        prop_assert_eq!(&ncclx::parse_json(&text(&profile, Format::NcclxJson)).unwrap(), &csv);
        for (nodes, ranks) in SHAPES {
            for collective in [Collective::AllReduce, Collective::AllGather, Collective::Reduce] {
                let bytes = per_rank * u64::from(ranks);
                let expected = stated(&profile, collective, bytes, (nodes, ranks));
                prop_assert_eq!(ncclx::lookup(&csv, collective, bytes, nodes, ranks), expected);
            }
        }
    }

    #[test]
    fn any_value_is_emitted_exactly_in_every_format_or_refused(value in "[^\\x00\n\r]{0,30}|[ '\"$`}{!~*#;&|<>()\\\\=^:/,a]{0,12}", keep_set: bool) {
        let profile = with_setting("NCCL_X", &value);
        let options = EmitOptions { keep_set, ..EmitOptions::plain() };
        let emitted = |format| emit(&profile, format, &options);
        let expected = Some(value.as_str());
        for format in [Format::Slurm, Format::Torchrun] {
            let text = emitted(format).unwrap();
            let read = shell::parse(text.trim_end_matches("exec torchrun \"$@\"\n")).unwrap();
            prop_assert_eq!((read[0].name.as_str(), Some(read[0].value.as_str()), read[0].keeps_set), ("NCCL_X", expected, keep_set));
        }
        let lines = dockerfile::parse(&emitted(Format::Dockerfile).unwrap()).unwrap();
        prop_assert_eq!(lines.get("NCCL_X"), expected);
        let map = yaml::parse(&emitted(Format::ConfigMap).unwrap()).unwrap();
        prop_assert_eq!(map[0].at("data/NCCL_X").and_then(yaml::Yaml::text), expected);
        if let Ok(text) = emitted(Format::OpenMpi) {
            let read = open_mpi::parse_tune(&text).unwrap();
            prop_assert_eq!(read.get("NCCL_X"), expected);
        }
        if let Ok(text) = emitted(Format::Appfile) {
            let read = open_mpi::parse_app(&text).unwrap();
            prop_assert_eq!(read[0].environment.get("NCCL_X"), expected);
        }
    }
}
