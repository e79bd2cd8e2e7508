use proptest::prelude::*;

use super::*;
use crate::{
    grammar::{env_file, nccl_conf, shell, tuner_csv::RuleTable},
    profile::{Class, EnvSetting, Rule},
};

fn nccl() -> Profile {
    Profile::parse(include_str!("../../tests/golden/nccl.toml"), "golden").unwrap().0
}

fn native() -> Profile {
    Profile::parse(include_str!("../../tests/golden/native.toml"), "golden").unwrap().0
}

fn with_value(value: &str) -> Profile {
    let mut profile = nccl();
    profile.env = vec![EnvSetting {
        name: "NCCL_X".into(),
        value: value.into(),
        class: Class::System,
        speedup: None,
        why: String::new(),
    }];
    profile
}

fn for_engine(engine: Engine) -> EmitOptions {
    EmitOptions { for_engine: Some(engine), ..EmitOptions::plain() }
}

/// What is live in an emitted environment file, as `NAME=value ...`.
fn live(profile: &Profile, options: &EmitOptions) -> String {
    env_file::parse(&emit(profile, Format::Env, options).unwrap()).unwrap().to_string()
}

/// The choices of the live rules of an emitted CSV.
fn live_rules(profile: &Profile, options: &EmitOptions) -> Vec<String> {
    let (table, diagnostics) = RuleTable::parse(&emit(profile, Format::TunerCsv, options).unwrap());
    assert_eq!(diagnostics, []);
    table.rules().iter().map(|rule| rule.choice.to_string()).collect()
}

#[test]
fn formats_are_named() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(*format));
    }
    assert_eq!(
        "nccl_conf".parse::<Format>().unwrap_err().to_string(),
        "unknown format `nccl_conf`: use one of sh, env, nccl-conf, tuner-csv, stock-csv, ncclx-csv, ncclx-json, \
         rccl-csv, ucc, openmpi, appfile, slurm, k8s-configmap, k8s-patch, torchrun, dockerfile, json; did you mean `nccl-conf`?"
    );
}

#[test]
fn the_beginning_of_several_formats_names_them() {
    let of = |name: &str| name.parse::<Format>().unwrap_err().to_string();
    assert!(of("k8s").ends_with("json; did you mean `k8s-configmap` or `k8s-patch`?"), "{}", of("k8s"));
    assert!(of("ncclx").ends_with("json; did you mean `ncclx-csv` or `ncclx-json`?"), "{}", of("ncclx"));
}

#[test]
fn from_nccl_everything_is_live() {
    assert_eq!(
        live(&nccl(), &EmitOptions::plain()),
        "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1 NCCL_IB_QPS_PER_CONNECTION=4 NCCL_SOCKET_IFNAME==eth0"
    );
    assert_eq!(live_rules(&nccl(), &EmitOptions::plain()), ["tree/ll/2", "ring/simple"]);
    assert_eq!(live_rules(&nccl(), &for_engine(Engine::Native)).len(), 2);
}

#[test]
fn rules_of_several_shapes_are_emitted_and_read_back() {
    let mut profile = nccl();
    let smaller: Vec<Rule> = profile.rule.iter().map(|rule| Rule { nodes: 2, ranks: 16, ..rule.clone() }).collect();
    profile.rule.extend(smaller);
    let (read_back, diagnostics) = Profile::parse(&profile.to_toml(), "several").unwrap();
    assert_eq!((&read_back, diagnostics), (&profile, vec![]), "the same sizes of another shape do not overlap");
    for format in Format::ALL {
        let text = emit(&profile, *format, &EmitOptions::plain()).unwrap();
        let says = text.contains("# rules hold for these nodes with ranks: 4 with 32, 2 with 16");
        let is_json = [Format::Json, Format::NcclxJson].contains(format);
        assert_eq!(says, !is_json, "{format}: {text}");
        assert!(!emit(&nccl(), *format, &EmitOptions::plain()).unwrap().contains("rules hold for"));
    }
    let (table, _) = RuleTable::parse(&emit(&profile, Format::TunerCsv, &EmitOptions::plain()).unwrap());
    let shapes: Vec<_> = table.rules().iter().map(|rule| (rule.nodes, rule.ranks)).collect();
    assert_eq!(shapes, [(Some(4), Some(32)); 2].iter().chain(&[(Some(2), Some(16)); 2]).copied().collect::<Vec<_>>());
}

#[test]
fn from_another_engine_rules_and_its_own_knobs_are_live_for_that_engine_only() {
    for (options, environment, n_rules) in [
        (EmitOptions::plain(), "NCCL_SOCKET_IFNAME==rail0", 0),
        (for_engine(Engine::Nccl), "NCCL_SOCKET_IFNAME==rail0", 0),
        (for_engine(Engine::Sim), "NCCL_SOCKET_IFNAME==rail0", 0),
        (for_engine(Engine::Native), "GDRTUNE_NATIVE_CHUNKSIZE=1048576 NCCL_SOCKET_IFNAME==rail0", 1),
    ] {
        assert_eq!(live(&native(), &options), environment, "{options:?}");
        assert_eq!(live_rules(&native(), &options).len(), n_rules, "{options:?}");
    }
    for engine in [Engine::Replay, Engine::Sim] {
        let mut profile = native();
        profile.run.engine = engine;
        assert_eq!(live_rules(&profile, &EmitOptions::plain()).len(), 0);
        assert_eq!(live_rules(&profile, &for_engine(engine)).len(), 1);
        assert_eq!(live_rules(&profile, &for_engine(Engine::Native)).len(), 0);
    }
}

#[test]
fn of_a_simulation_nothing_is_live_but_for_that_engine() {
    let mut profile = nccl();
    profile.run.engine = Engine::Sim;
    let (plain, asked) = (EmitOptions::plain(), for_engine(Engine::Sim));
    assert_eq!((live(&profile, &plain).as_str(), live_rules(&profile, &plain).len()), ("defaults", 0));
    assert_eq!(live(&profile, &asked), live(&nccl(), &plain), "all the same");
    for (file, text) in emit_all(&profile, &plain).unwrap() {
        let is_json = text.starts_with('{');
        let sets =
            |line: &&str| line.contains("NCCL_IB_HCA") && !line.starts_with('#') && !line.contains("settings_not_live");
        assert!(is_json || text.lines().map(str::trim_start).find(sets).is_none(), "{file}: {text}");
        assert!(!is_json || !text.contains("mlx5_0"), "{file}: {text}");
        assert!(!text.contains("gdrtune verify profile.toml"), "{file}: verify measures nothing there: {text}");
    }
    let sh = emit(&profile, Format::Sh, &plain).unwrap();
    assert!(sh.contains("\n#export NCCL_IB_HCA=") && sh.contains(" simulated processes per arm\n"), "{sh}");
    profile.run.engine = Engine::Replay;
    assert_eq!(live(&profile, &plain), live(&nccl(), &plain), "a recorded cluster's bindings carry over");
    assert!(!emit(&profile, Format::Sh, &plain).unwrap().contains("gdrtune verify profile.toml"));
    (profile.cluster.nodes, profile.cluster.ranks) = (1, 1);
    assert!(emit(&profile, Format::Env, &plain).unwrap().starts_with("# gdrtune settings for 1 node, 1 rank"));
}

#[test]
fn every_file_from_something_else_than_nccl_on_the_nodes_says_so() {
    for (engine, emulated, label) in [
        (Engine::Native, false, "NOT MEASURED WITH NCCL"),
        (Engine::Replay, false, "REPLAYED"),
        (Engine::Sim, false, "SIMULATED"),
        (Engine::Sim, true, "EMULATED"),
        (Engine::Nccl, true, "EMULATED"),
    ] {
        let mut profile = native();
        (profile.run.engine, profile.run.emulated) = (engine, emulated);
        if engine == Engine::Nccl {
            profile.rule.clear();
        }
        for options in [EmitOptions::plain(), for_engine(engine)] {
            for (file, text) in emit_all(&profile, &options).unwrap() {
                assert!(text.contains(label), "{file} from {engine} lacks {label}");
            }
        }
    }
    let mut unverified = nccl();
    unverified.run.unverified = true;
    let toml = ("profile.toml", unverified.to_toml());
    for (file, text) in emit_all(&unverified, &EmitOptions::plain()).unwrap().into_iter().chain([toml]) {
        assert!(text.contains("NOT VERIFIED: written before the run's A/B"), "{file}");
    }
    for (file, text) in emit_all(&nccl(), &EmitOptions::plain()).unwrap() {
        for label in ["NOT MEASURED WITH NCCL", "REPLAYED", "SIMULATED", "EMULATED", "NOT VERIFIED"] {
            assert!(!text.contains(label), "{file}");
        }
        assert!(text.contains("2.28.9") && text.contains("2026-11-29T14:02:11Z-7f3a"), "{file}");
    }
}

#[test]
fn the_path_of_the_rules_is_set_where_there_are_rules() {
    let at = |path: &str| EmitOptions { tuner_path: Some(path.into()), ..EmitOptions::plain() };
    assert!(live(&nccl(), &at("/opt/t.csv")).contains("NCCL_TUNER_CONFIG_FILE=/opt/t.csv"));
    assert!(!live(&native(), &at("/opt/t.csv")).contains("NCCL_TUNER_CONFIG_FILE"));
    assert!(
        emit(&native(), Format::Env, &at("/opt/t.csv")).unwrap().contains("\n#NCCL_TUNER_CONFIG_FILE=/opt/t.csv\n")
    );
    let mut without = nccl();
    without.rule.clear();
    assert!(!emit(&without, Format::Env, &at("/opt/t.csv")).unwrap().contains("NCCL_TUNER_CONFIG_FILE"));
    for path in ["t.csv", "", "/a\nb"] {
        let error = emit(&nccl(), Format::Sh, &at(path)).unwrap_err().to_string();
        assert!(error.starts_with("emit sh: the path `"), "{error}");
    }
    let mut twice = with_value("1");
    twice.env[0].name = "NCCL_TUNER_CONFIG_FILE".into();
    twice.env[0].value = "/a".into();
    assert!(matches!(emit(&twice, Format::Sh, &at("/b")), Err(EmitError::TunerPath { .. })));
}

#[test]
fn values_that_a_format_cannot_hold_are_refused_by_name() {
    for (format, value, message) in [
        (
            Format::Env,
            "a'b",
            "emit env: NCCL_X does not fit: the value has a quote: docker keeps it, systemd removes it; use another format or value",
        ),
        (
            Format::NcclConf,
            &"x".repeat(1024),
            "emit nccl-conf: NCCL_X does not fit: NCCL cuts names and values at 1023 bytes; use another format or value",
        ),
        (Format::Sh, "a\nb", "emit sh: the profile cannot be used: a line break in a value is never meant"),
        (Format::Sh, "a\0b", "emit sh: the profile cannot be used: no process can be given a NUL byte"),
    ] {
        assert_eq!(emit(&with_value(value), format, &EmitOptions::plain()).unwrap_err().to_string(), message);
    }
    assert!(emit(&with_value("a'b"), Format::Sh, &EmitOptions::plain()).is_ok());
    assert!(emit(&with_value("a'b"), Format::NcclConf, &EmitOptions::plain()).is_ok());
}

#[test]
fn an_unusable_profile_is_not_emitted() {
    let mut profile = nccl();
    profile.rule[0].channels = Some(65);
    for format in Format::ALL {
        let error = emit(&profile, *format, &EmitOptions::plain()).unwrap_err();
        assert!(matches!(error, EmitError::Invalid { .. }), "{error}");
    }
}

#[test]
fn an_unbounded_rule_reaches_every_size() {
    let text = emit(&nccl(), Format::TunerCsv, &EmitOptions::plain()).unwrap();
    assert!(text.contains("\nallreduce,16777216,9223372036854775807,ring,simple,-1,4,32,-1,-1\n"), "{text}");
    let mut huge = nccl();
    huge.rule[1].bytes.min = u64::MAX;
    let text = emit(&huge, Format::TunerCsv, &EmitOptions::plain()).unwrap();
    assert!(text.contains(",18446744073709551615,18446744073709551615,"), "{text}");
}

#[test]
fn texts_of_the_profile_cannot_leave_their_comment() {
    let mut profile = nccl();
    profile.cluster.gpu = Some("x\nexport EVIL='1'\nNCCL_EVIL=1\r\x1b[2J\\".into());
    profile.run.workload = "w".repeat(1000);
    profile.run.id = "ends with \\".into();
    let plain = EmitOptions::plain();
    let expected: Vec<String> = profile.env.iter().map(|setting| setting.name.clone()).collect();
    let sh = shell::parse(&emit(&profile, Format::Sh, &plain).unwrap()).unwrap();
    assert_eq!(sh.into_iter().map(|a| a.name).collect::<Vec<_>>(), expected);
    let conf = nccl_conf::parse(&emit(&profile, Format::NcclConf, &plain).unwrap(), "f").0;
    assert_eq!(conf.iter().map(|(name, _)| name).collect::<Vec<_>>(), expected);
    assert_eq!(live_rules(&profile, &plain).len(), 2);
    let comments = |format: &&Format| ![Format::Json, Format::NcclxJson].contains(*format);
    for format in Format::ALL.iter().filter(comments) {
        let text = emit(&profile, *format, &plain).unwrap();
        assert!(text.lines().all(|line| line.len() < 255 && line.bytes().all(|b| b == b' ' || b.is_ascii_graphic())));
        assert!(text.lines().all(|line| !line.ends_with(['\\', ' '])), "{text}");
    }
}

proptest! {
    #[test]
    fn any_value_is_emitted_exactly_or_refused(value in "[^\\x00\n\r]{0,30}|[ '\"$`}{!~*#;&|<>()\\\\=^]{0,12}", keep_set: bool) {
        let profile = with_value(&value);
        let options = EmitOptions { keep_set, ..EmitOptions::plain() };
        let sh = emit(&profile, Format::Sh, &options).unwrap();
        let read = shell::parse(&sh).unwrap();
        prop_assert_eq!((&read[0].value, read[0].keeps_set), (&value, keep_set));
        if let Ok(text) = emit(&profile, Format::Env, &options) {
            let environment = env_file::parse(&text).unwrap();
            prop_assert_eq!(environment.get("NCCL_X"), Some(value.as_str()));
        }
        let document: Document = serde_json::from_str(&emit(&profile, Format::Json, &options).unwrap()).unwrap();
        prop_assert_eq!(document.profile, profile);
    }
}
