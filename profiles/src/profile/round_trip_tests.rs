use proptest::prelude::*;

use crate::{
    profile::{Baseline, ByteRange, Class, Cluster, EnvSetting, FORMAT, Profile, Rule, Run, Speedup},
    vocab::{Algorithm, Collective, Engine, Protocol},
};

/// Numbers of every size, with their rounding.
fn ratio() -> impl Strategy<Value = f64> {
    prop_oneof![0.01..100.0, Just(1.0), Just(f64::MIN_POSITIVE), Just(1e300)]
}

fn speedup() -> impl Strategy<Value = Speedup> {
    (ratio(), ratio(), ratio(), 0.0..=1.0, 1_u32..).prop_map(|(median, a, b, p_faster, repeats)| Speedup {
        median,
        low: a.min(b),
        high: a.max(b),
        p_faster,
        repeats,
    })
}

fn setting() -> impl Strategy<Value = EnvSetting> {
    let value = "\\PC{0,12}|[\"'\\\\$`=#;,: ]{1,8}";
    let class = prop_oneof![Just(Class::System), Just(Class::Debugging)];
    ("[A-Z_]{6,12}", value, class, proptest::option::of(speedup()), "\\PC{0,12}").prop_map(
        |(name, value, class, speedup, why)| EnvSetting { name: format!("X_{name}"), value, class, speedup, why },
    )
}

fn rule() -> impl Strategy<Value = Rule> {
    let bytes = (any::<u64>(), any::<Option<u64>>())
        .prop_map(|(a, b)| ByteRange { min: b.map_or(a, |b| a.min(b)), max: b.map(|b| a.max(b)) });
    let channels = proptest::option::of(1_u16..=64);
    let protocol = proptest::sample::select(Protocol::ALL);
    (1_u32..9, 9_u32..99, bytes, protocol, channels, ratio(), ratio(), speedup()).prop_map(
        |(nodes, ranks, bytes, protocol, channels, default_us, tuned_us, speedup)| Rule {
            collective: Collective::AllReduce,
            nodes,
            ranks,
            bytes,
            algorithm: Algorithm::Tree,
            protocol,
            channels,
            default_us,
            tuned_us,
            speedup,
        },
    )
}

fn profile() -> impl Strategy<Value = Profile> {
    let text = || "(?s).{0,12}";
    let cluster = (1_u32..99, 99..i32::MAX as u32, proptest::option::of(text()), proptest::option::of(text()), text());
    let run = (
        text(),
        text(),
        proptest::sample::select(Engine::ALL),
        any::<(bool, bool)>(),
        any::<bool>(),
        text(),
        any::<u64>(),
    );
    let notes = proptest::collection::vec(text(), 0..3);
    (cluster, (run, notes), proptest::collection::vec(setting(), 0..4), proptest::collection::vec(rule(), 0..4))
        .prop_map(
            |(
                (nodes, ranks, gpu, nccl, fingerprint),
                ((id, tool, engine, (emulated, unverified), is_site, workload, trials), notes),
                mut env,
                rule,
            )| {
                env.sort_by(|a, b| a.name.cmp(&b.name));
                env.dedup_by(|a, b| a.name == b.name);
                let baseline = if is_site { Baseline::Site } else { Baseline::Stock };
                Profile {
                    format: FORMAT,
                    cluster: Cluster { nodes, ranks, gpu, nccl, fingerprint },
                    run: Run { id, tool, engine, emulated, unverified, baseline, workload, trials, notes },
                    env,
                    rule,
                }
            },
        )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(profile in profile()) {
        let text = profile.to_toml();
        let (read, _) = Profile::parse(&text, "p.toml").map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(&read, &profile);
        prop_assert_eq!(read.to_toml(), text);
    }

    #[test]
    fn the_schema_is_serdes(profile in profile()) {
        let text = toml::to_string(&profile);
        // Numbers above i64::MAX are beyond the crate's writer, not beyond ours.
        if let Ok(text) = text {
            prop_assert_eq!(Profile::parse(&text, "p.toml").unwrap().0, profile);
        }
    }
}

#[test]
fn the_text_is_stable() {
    for text in [include_str!("../../tests/golden/nccl.toml"), include_str!("../../tests/golden/native.toml")] {
        let (profile, diagnostics) = Profile::parse(text, "golden").unwrap();
        assert_eq!(diagnostics, []);
        assert_eq!(profile.to_toml(), text);
    }
}
