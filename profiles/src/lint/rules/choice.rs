//! Rules about `NCCL_ALGO`, `NCCL_PROTO`, channels and buffers.

use super::{Check, Hit, LintFile, Options, Rule, Setting, Wrong};
use crate::{
    grammar::algo::{self, Dialect, Enabled, ListError},
    version::Version,
    vocab::{Algorithm, Collective, Protocol},
};

pub(super) const RULES: &[Rule] = &[
    Rule::error(
        "algo-unserved",
        "NCCL_ALGO and NCCL_PROTO that leave a collective without any algorithm",
        "Since 2.24 calls of that collective fail: NCCL_ALGO=Tree breaks all-gather, reduce-scatter, broadcast and reduce. Before, the algorithm was changed without a word, or it was an error.",
        "NCCL src/enqueue.cc and src/graph/tuning.cc; NVIDIA/nccl issues 317, 1304",
        Check::File(unserved),
    ),
    Rule::warning(
        "algo-for-all",
        "NCCL_ALGO without a collective",
        "The list then holds for all five collectives, also for those that it was not measured with.",
        "NCCL src/graph/tuning.cc, parseList",
        Check::Setting(for_all),
    ),
    Rule::error(
        "algo-unknown",
        "a list in NCCL_ALGO or NCCL_PROTO that cannot be read",
        "Since 2.24 communicators fail to start; before, unknown names were ignored without a word. Blanks count.",
        "NCCL src/graph/tuning.cc, parseList",
        Check::Setting(unknown),
    ),
    Rule::error(
        "algo-new-grammar",
        "a list by collective for an NCCL before 2.24 (with --nccl-version)",
        "The old library ignores what it does not know, and disables nearly everything.",
        "NCCL src/graph/tuning.cc at v2.23.4",
        Check::Setting(new_grammar),
    ),
    Rule::warning(
        "algo-not-in-this-version",
        "an algorithm that the jobs' NCCL does not have yet (with --nccl-version)",
        "Since 2.24 that fails; before, the name is ignored without a word.",
        "NCCL src/graph/tuning.cc at every release",
        Check::Setting(later_algorithm),
    ),
    Rule::error(
        "ll128-forced",
        "LL128 named in NCCL_PROTO",
        "Naming it skips NCCL's test whether it is safe there: where links do not keep 128-byte stores whole, results are silently wrong.",
        "NCCL src/graph/tuning.cc; NVIDIA/nccl issues 740, 831, 1261, pull request 2053",
        Check::Setting(ll128_named),
    ),
    Rule::error(
        "ll128-by-inversion",
        "an inverted list in NCCL_PROTO that enables LL128",
        "`^LL` enables all the others, LL128 too, without NCCL's test whether it is safe there.",
        "NCCL src/graph/tuning.cc",
        Check::Setting(ll128_inverted),
    ),
    Rule::error(
        "channels-reversed",
        "a smallest channel count above the largest",
        "The tighter of them wins, and not both can be meant.",
        "NCCL src/init.cc",
        Check::File(reversed),
    ),
    Rule::warning(
        "channels-above-32",
        "more than 32 channels for an NCCL before 2.25 (with --nccl-version)",
        "32 was the most until 2.24.",
        "NCCL src/include/device.h, MAXCHANNELS",
        Check::Setting(above_32),
    ),
    Rule::warning(
        "buffsize-odd",
        "a buffer that is no power of two, or smaller than 64 KiB or larger than 64 MiB",
        "It is cut into equal steps of aligned chunks; small ones cannot fill a pipeline, large ones take GPU memory for each channel and peer.",
        "NCCL docs/userguide/source/env.rst, NCCL_BUFFSIZE",
        Check::Setting(buffsize),
    ),
    Rule::warning(
        "nvls-forced",
        "NVLink SHARP or multi-node NVLink with 1 and not 2",
        "1 fails the start where it cannot be set up; the default, 2, takes it where it is there.",
        "NCCL src/transport/nvls.cc; NVIDIA/nccl issues 1197, 2186",
        Check::Setting(nvls_forced),
    ),
];

fn algorithms(value: &str) -> Result<Enabled<Algorithm>, ListError> {
    algo::parse(value, Dialect::V224Plus)
}

fn protocols(value: &str) -> Result<Enabled<Protocol>, ListError> {
    algo::parse(value, Dialect::V224Plus)
}

fn of<'a>(setting: &'a Setting, name: &str) -> Option<&'a str> {
    (setting.name == name).then(|| setting.constant()).flatten().filter(|value| !value.is_empty())
}

fn unserved(file: &LintFile<'_>, options: &Options<'_>, hits: &mut Vec<Hit>) {
    let mut broken_by_algorithms = Vec::new();
    for (setting, value) in file.constants(&["NCCL_ALGO"]) {
        let Ok(enabled) = algorithms(value) else { continue };
        // Each of several values holds for some job.
        let beside: Vec<(&Setting, Enabled<Protocol>)> = file
            .constants(&["NCCL_PROTO"])
            .filter(|(other, _)| other.is_beside(setting))
            .filter_map(|(other, value)| Some((other, protocols(value).ok()?)))
            .collect();
        let alone = algo::unserved(&enabled, &Enabled::new());
        if !alone.is_empty() {
            broken_by_algorithms.push(setting.line);
            hits.push(Hit::new(setting.line, broken(setting, &alone, options.version)));
            continue;
        }
        for (other, protocols) in beside {
            let together = algo::unserved(&enabled, &protocols);
            if !together.is_empty() {
                let line = setting.line.max(other.line);
                hits.push(Hit::new(line, broken(setting, &together, options.version)));
            }
        }
    }
}

fn broken(setting: &Setting, collectives: &[Collective], version: Option<Version>) -> Wrong {
    let names: Vec<&str> = collectives.iter().map(|collective| collective.nccl_name()).collect();
    let what = match version {
        Some(version) if !version.at_least(2, 24) => "NCCL changes the algorithm without a word, or fails, for",
        _ => "calls fail since 2.24 of",
    };
    let message =
        format!("{}={} serves not all: {what} {}", setting.name, setting.value.escape_debug(), names.join(", "));
    let list = setting.value.split([';', ':']).next().unwrap_or_default().to_ascii_lowercase();
    (message, format!("write it per collective, such as allreduce:{}", list.escape_debug()))
}

fn for_all(setting: &Setting, options: &Options<'_>) -> Option<Wrong> {
    let value = of(setting, "NCCL_ALGO")?;
    let enabled = algorithms(value).ok()?;
    let is_old = options.version.is_some_and(|version| !version.at_least(2, 24));
    let is_bare = !value.split(';').next().unwrap_or_default().contains(':');
    if is_old || !is_bare || !algo::unserved(&enabled, &Enabled::new()).is_empty() {
        return None;
    }
    let message = format!("NCCL_ALGO={} holds for all collectives", value.escape_debug());
    Some((message, format!("name the collective that was measured, such as allreduce:{}", value.to_ascii_lowercase())))
}

fn unknown(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let error = match of(setting, "NCCL_ALGO") {
        Some(value) => algorithms(value).err(),
        None => protocols(of(setting, "NCCL_PROTO")?).err(),
    }?;
    let value = &setting.value;
    let fix = match value {
        _ if value.contains([' ', '\t']) => "remove the blanks".to_owned(),
        _ if value.eq_ignore_ascii_case("collnet") => "since 2.14 it is CollNetDirect and CollNetChain".to_owned(),
        _ => "write entries as allreduce:tree,ring;allgather:ring".to_owned(),
    };
    Some((format!("{}: {error}", setting.name), fix))
}

fn new_grammar(setting: &Setting, options: &Options<'_>) -> Option<Wrong> {
    let version = options.version.filter(|version| !version.at_least(2, 24))?;
    let value = of(setting, "NCCL_ALGO").or_else(|| of(setting, "NCCL_PROTO"))?;
    value.contains([':', ';']).then(|| {
        let message = format!("NCCL {version} does not read lists by collective, and ignores what it does not know");
        (message, "write one list, or use a tuner file".to_owned())
    })
}

fn later_algorithm(setting: &Setting, options: &Options<'_>) -> Option<Wrong> {
    let version = options.version?;
    let value = of(setting, "NCCL_ALGO")?;
    // An inverted list names what is not wanted.
    let since = |algorithm: Algorithm| {
        let cells = crate::matrix::NCCL.iter().filter(|cell| cell.algorithm == algorithm);
        cells.map(|cell| cell.since).min().filter(|since| version < *since)
    };
    let entries = value.split(';').map(|entry| entry.rsplit(':').next().unwrap_or_default());
    let named = entries.filter(|list| !list.starts_with('^')).flat_map(|list| list.split(','));
    let mut found = named.filter_map(|name| {
        let algorithm = Algorithm::ALL.iter().copied().find(|a| a.nccl_name().eq_ignore_ascii_case(name))?;
        Some((algorithm, since(algorithm)?))
    });
    let (algorithm, since) = found.next()?;
    let (name, major, minor) = (algorithm.nccl_name(), since.major, since.minor);
    Some((format!("{name} is there since NCCL {major}.{minor}, and the jobs have {version}"), "remove it".to_owned()))
}

/// The lists of a value, without their collectives.
fn lists(value: &str) -> impl Iterator<Item = &str> {
    value.split(';').map(|entry| entry.rsplit(':').next().unwrap_or_default())
}

fn ll128_named(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let value = of(setting, "NCCL_PROTO")?;
    let mut plain = lists(value).filter(|list| !list.starts_with('^')).flat_map(|list| list.split(','));
    plain.any(|name| name.trim().eq_ignore_ascii_case("LL128")).then(|| {
        let message = "naming LL128 skips NCCL's test whether it is safe: wrong results are possible".to_owned();
        (message, "leave the variable out: NCCL takes LL128 where it is safe".to_owned())
    })
}

fn ll128_inverted(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let value = of(setting, "NCCL_PROTO")?;
    protocols(value).ok()?;
    let mut inverted = lists(value).filter_map(|list| list.strip_prefix('^'));
    inverted.any(|list| !list.split(',').any(|name| name.eq_ignore_ascii_case("LL128"))).then(|| {
        let message =
            format!("NCCL_PROTO={} enables LL128 without NCCL's test whether it is safe", value.escape_debug());
        let fix = if value.to_ascii_lowercase().contains("simple") { "write LL" } else { "write Simple" };
        (message, format!("{fix}, or {},LL128", value.escape_debug()))
    })
}

/// Lower and upper bounds of the same thing.
const BOUNDS: &[(&[&str], &[&str])] = &[
    (&["NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS"], &["NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"]),
    (&["NCCL_MIN_P2P_NCHANNELS"], &["NCCL_MAX_P2P_NCHANNELS"]),
];

fn reversed(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    for (lower, upper) in BOUNDS {
        for (min, min_text) in file.constants(lower) {
            for (max, max_text) in file.constants(upper).filter(|(max, _)| max.is_beside(min)) {
                let (Ok(low), Ok(high)) = (min_text.parse::<i64>(), max_text.parse::<i64>()) else { continue };
                if high < low {
                    let message = format!("{}={low} is above {}={high}", min.name, max.name);
                    hits.push(Hit::new(min.line.max(max.line), (message, "set both alike, or only one".to_owned())));
                }
            }
        }
    }
}

fn above_32(setting: &Setting, options: &Options<'_>) -> Option<Wrong> {
    let version = options.version.filter(|version| !version.at_least(2, 25))?;
    let is_bound = BOUNDS.iter().any(|(low, high)| low.iter().chain(*high).any(|name| *name == setting.name));
    let count = setting.constant()?.parse::<i64>().ok()?;
    (is_bound && 32 < count).then(|| {
        let message = format!("{}={count}: NCCL {version} has 32 channels at most", setting.name);
        (message, "write 32 or less".to_owned())
    })
}

fn buffsize(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    const PLAUSIBLE: std::ops::RangeInclusive<u64> = 64 << 10..=64 << 20;
    let bytes: u64 = of(setting, "NCCL_BUFFSIZE")?.parse().ok()?;
    // Smaller and larger ones still are out of the domain.
    let is_in_domain = crate::knob::knob(&setting.name)?.check(&setting.value).is_ok();
    if !is_in_domain || bytes.is_power_of_two() && PLAUSIBLE.contains(&bytes) {
        return None;
    }
    let what = match bytes {
        _ if bytes < *PLAUSIBLE.start() => "tiny",
        _ if *PLAUSIBLE.end() < bytes => "huge, and is taken for each channel and peer",
        _ => "no power of two",
    };
    Some((
        format!("NCCL_BUFFSIZE={bytes} is {what}"),
        "leave it out (4194304), or measure powers of two beside it".to_owned(),
    ))
}

fn nvls_forced(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let value = of(setting, "NCCL_NVLS_ENABLE").or_else(|| of(setting, "NCCL_MNNVL_ENABLE"))?;
    (value == "1").then(|| {
        let message = format!("{}=1 fails the start where it cannot be set up", setting.name);
        (message, "leave it out: the default takes it where it is there".to_owned())
    })
}
