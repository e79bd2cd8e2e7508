//! Rules about settings that do not go together, in one file or between ranks.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, Hit, LintFile, Options, Rule, Setting, Wrong};
use crate::{
    knob,
    lint::{Kind, file::Reach},
};

pub(super) const RULES: &[Rule] = &[
    Rule::warning(
        "set-twice",
        "a variable that is set again to something else",
        "The last one wins; in nccl.conf the first.",
        "NCCL src/misc/param.cc, setEnvFile",
        Check::File(twice),
    ),
    Rule::warning(
        "conflicting-settings",
        "two variables of which one makes the other useless",
        "Where P2P or verbs are off, nothing asks for their distance or HCAs; of old and new channel bounds the tighter wins.",
        "NCCL docs/userguide/source/env.rst",
        Check::File(conflicts),
    ),
    Rule::error(
        "too-many-sockets",
        "NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD above 64",
        "64 sockets are the most per connection.",
        "NCCL src/transport/net_socket.cc, MAX_SOCKETS",
        Check::File(sockets),
    ),
    Rule::warning(
        "tuner-overridden",
        "NCCL_ALGO or NCCL_PROTO beside a tuner plugin",
        "What they do not list is taken away before the plugin is asked.",
        "NCCL src/enqueue.cc; NVIDIA/nccl issue 1661",
        Check::File(tuner_overridden),
    ),
    Rule::note(
        "tuner-not-named",
        "NCCL_TUNER_CONFIG_FILE without NCCL_TUNER_PLUGIN",
        "Without a plugin nobody reads the file, and that is no error.",
        "aws/aws-ofi-nccl issue 472; NVIDIA/nccl issues 1538, 1732",
        Check::File(tuner_not_named),
    ),
    Rule::warning(
        "tuner-plugin-stub",
        "NVIDIA's `basic` tuner plugin, or its example plugin in 2.26 and 2.27 (with --nccl-version)",
        "Basic forces ring, simple and one channel on every call; the example reads its CSV since 2.28.",
        "NCCL plugins/tuner/basic and plugins/tuner/example",
        Check::Setting(tuner_stub),
    ),
    Rule::warning(
        "subsystems-without-log",
        "NCCL_DEBUG_SUBSYS where NCCL_DEBUG is below INFO",
        "Subsystems choose among INFO lines.",
        "NCCL docs/userguide/source/env.rst, NCCL_DEBUG_SUBSYS",
        Check::File(subsystems),
    ),
    Rule::warning(
        "host-id-fixed",
        "the same NCCL_HOSTID for all processes",
        "Nodes with equal ids are taken for one node, and shared memory between them fails.",
        "NCCL src/misc/utils.cc, getHostHash",
        Check::File(host_id),
    ),
    Rule::warning(
        "conf-file-in-conf",
        "NCCL_CONF_FILE in nccl.conf",
        "It is asked for before any such file is read.",
        "NCCL src/misc/param.cc, initEnvFunc",
        Check::File(conf_in_conf),
    ),
    Rule::error(
        "differs-by-rank",
        "dumps of ranks that differ where all must agree",
        "Ranks that decide differently wait for each other without end.",
        "NVIDIA/nccl issues 1136, 1184, 1478, 2428",
        Check::Files(differs),
    ),
    Rule::error(
        "value-by-rank",
        "a value made of the rank where all must agree",
        "Ranks that decide differently wait for each other without end, or rings cannot be built.",
        "NVIDIA/nccl issue 1478",
        Check::Setting(by_rank),
    ),
];

fn twice(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    let mut last: BTreeMap<(&str, usize, Option<&str>), &Setting> = BTreeMap::new();
    for setting in file.settings.iter().filter(|setting| setting.is_for_all()) {
        let key = (setting.name.as_str(), setting.block, setting.rank.as_deref());
        // Where it begins with the old value, or keeps it, it is no slip.
        let is_other = setting.is_constant && setting.reach != Reach::Kept;
        if let Some(before) = last.get(&key).filter(|before| is_other && before.value != setting.value) {
            let winner = if file.kind == Kind::NcclConf { "the first wins" } else { "this one wins" };
            let message = format!("{} is set in line {} already, and {winner}", setting.name, before.line);
            hits.push(Hit::new(setting.line, (message, "keep one of them".to_owned())));
        }
        last.insert(key, setting);
    }
}

fn conflicts(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    for (idx, setting) in file.settings.iter().enumerate() {
        let Some(knob) = knob::knob(&setting.name) else { continue };
        let is_off = |setting: &Setting| setting.name.ends_with("_DISABLE") && setting.value == "0";
        let mut before = file.settings[..idx].iter().filter(|other| knob.conflicts.contains(&other.name.as_str()));
        if let Some(other) = before.find(|other| other.is_beside(setting) && !is_off(other) && !is_off(setting)) {
            let message = format!("{} and {} (line {}) do not go together", setting.name, other.name, other.line);
            hits.push(Hit::new(setting.line, (message, "keep one of them".to_owned())));
        }
    }
}

fn sockets(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    /// NCCL `src/transport/net_socket.cc`, `MAX_SOCKETS`.
    const MOST: u64 = 64;
    for (threads, count) in file.constants(&["NCCL_SOCKET_NTHREADS"]) {
        for (sockets, each) in file.constants(&["NCCL_NSOCKS_PERTHREAD"]) {
            let (Ok(count), Ok(each)) = (count.parse::<u64>(), each.parse::<u64>()) else { continue };
            if threads.is_beside(sockets) && MOST < count.saturating_mul(each) {
                let message = format!("{count} threads of {each} sockets are more than the {MOST} that NCCL takes");
                hits.push(Hit::new(threads.line.max(sockets.line), (message, "lower one of them".to_owned())));
            }
        }
    }
}

fn named<'a>(file: &'a LintFile<'_>, names: &'static [&'static str]) -> impl Iterator<Item = &'a Setting> {
    file.settings.iter().filter(move |setting| names.contains(&setting.name.as_str()))
}

const TUNER: &[&str] = &["NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE"];

fn tuner_overridden(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    let Some(tuner) = named(file, TUNER).find(|setting| setting.value != "none") else { return };
    for setting in named(file, &["NCCL_ALGO", "NCCL_PROTO"]).filter(|setting| setting.is_beside(tuner)) {
        let message = format!("{} goes before the tuner of line {}", setting.name, tuner.line);
        hits.push(Hit::new(setting.line, (message, format!("remove {}", setting.name))));
    }
}

fn tuner_not_named(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    if named(file, &["NCCL_TUNER_PLUGIN"]).next().is_some() {
        return;
    }
    for setting in named(file, &["NCCL_TUNER_CONFIG_FILE"]) {
        let message = "no plugin is named that reads the rules".to_owned();
        hits.push(Hit::new(
            setting.line,
            (message, "set NCCL_TUNER_PLUGIN, and look for its line in NCCL's log".to_owned()),
        ));
    }
}

fn tuner_stub(setting: &Setting, options: &Options<'_>) -> Option<Wrong> {
    let plugin = setting.constant().filter(|_| setting.name == "NCCL_TUNER_PLUGIN")?;
    let base = plugin.rsplit('/').next().unwrap_or_default();
    let name = base.strip_prefix("libnccl-tuner-").unwrap_or(base).trim_end_matches(".so");
    let is_stub = |version: crate::version::Version| !version.at_least(2, 28);
    match name {
        "basic" => Some((
            "the basic plugin forces ring, simple and one channel on every call".to_owned(),
            "take another plugin, such as the one that gdrtune install brings".to_owned(),
        )),
        "example" if options.version.is_some_and(is_stub) => Some((
            "the example plugin of this NCCL reads no rules".to_owned(),
            "take that of 2.28 or later, or the one that gdrtune install brings".to_owned(),
        )),
        _ => None,
    }
}

fn subsystems(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    for subsystems in named(file, &["NCCL_DEBUG_SUBSYS"]) {
        let mut quiet = file.constants(&["NCCL_DEBUG"]).filter(|(debug, level)| {
            debug.is_beside(subsystems) && ["WARN", "VERSION"].iter().any(|quiet| level.eq_ignore_ascii_case(quiet))
        });
        if let Some((debug, level)) = quiet.next() {
            let message = format!("NCCL_DEBUG_SUBSYS does nothing with NCCL_DEBUG={level} (line {})", debug.line);
            hits.push(Hit::new(subsystems.line, (message, "remove it".to_owned())));
        }
    }
}

fn host_id(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    if file.is_dump {
        return;
    }
    for (setting, _) in file.constants(&["NCCL_HOSTID"]).filter(|(setting, _)| setting.is_for_all()) {
        let message = "every node then has this id, and they are taken for one".to_owned();
        hits.push(Hit::new(setting.line, (message, "leave it out, or make it of the host's name".to_owned())));
    }
}

fn conf_in_conf(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    for setting in named(file, &["NCCL_CONF_FILE"]).filter(|_| file.kind == Kind::NcclConf) {
        let message = "NCCL asks for this before it reads the file".to_owned();
        hits.push(Hit::new(setting.line, (message, "set it in the environment".to_owned())));
    }
}

/// What may well differ between ranks.
const MAY_DIFFER: &[&str] = &[
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_HOSTID",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE",
];

/// The environment of one process: where it was read, and what it sets, by name with value and line.
struct Process<'a> {
    file_idx: usize,
    label: String,
    settings: BTreeMap<&'a str, (&'a str, usize)>,
}

fn differs(files: &[LintFile<'_>], hits: &mut Vec<(usize, Hit)>) {
    let mut processes: Vec<Process<'_>> = Vec::new();
    for (file_idx, file) in files.iter().enumerate().filter(|(_, file)| file.is_dump) {
        let ranks: BTreeSet<Option<&str>> = file.settings.iter().map(|setting| setting.rank.as_deref()).collect();
        // A dump without any of NCCL's variables differs from one that has some.
        let ranks = if ranks.is_empty() { BTreeSet::from([None]) } else { ranks };
        for rank in ranks {
            let own = file.settings.iter().filter(|setting| setting.rank.as_deref() == rank);
            let settings = own.map(|setting| (setting.name.as_str(), (setting.value.as_str(), setting.line))).collect();
            let label = rank.map_or(file.name.to_owned(), |rank| format!("rank {rank}"));
            processes.push(Process { file_idx, label, settings });
        }
    }
    let Some((first, others)) = processes.split_first() else { return };
    for other in others {
        let names: BTreeSet<&str> = first.settings.keys().chain(other.settings.keys()).copied().collect();
        for name in names.into_iter().filter(|name| !MAY_DIFFER.contains(name)) {
            let (ours, theirs) = (other.settings.get(name), first.settings.get(name));
            if ours.map(|(value, _)| value) == theirs.map(|(value, _)| value) {
                continue;
            }
            let shown = |value: Option<&(&str, usize)>| {
                value.map_or("not set".to_owned(), |(value, _)| format!("`{}`", value.escape_debug()))
            };
            let message = format!("{name} is {} here, and {} in {}", shown(ours), shown(theirs), first.label);
            let line = ours.map_or(1, |(_, line)| *line);
            hits.push((other.file_idx, Hit::new(line, (message, "set it alike for every rank".to_owned()))));
        }
    }
}

fn by_rank(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    const RANKS: &[&str] = &[
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "LOCAL_RANK",
        "PMI_RANK",
        "PMIX_RANK",
        "OMPI_COMM_WORLD_RANK",
        "$RANK",
        "{RANK",
    ];
    const ALIKE: &[&str] = &[
        "NCCL_ALGO",
        "NCCL_PROTO",
        "NCCL_MIN_CTAS",
        "NCCL_MAX_CTAS",
        "NCCL_MIN_NCHANNELS",
        "NCCL_MAX_NCHANNELS",
        "NCCL_IB_HCA",
        "NCCL_NTHREADS",
        "NCCL_BUFFSIZE",
        "NCCL_NVLS_ENABLE",
    ];
    let is_by_rank = !setting.is_constant && RANKS.iter().any(|rank| setting.value.contains(rank));
    (is_by_rank && ALIKE.contains(&setting.name.as_str())).then(|| {
        let message = format!("{} must be alike for all ranks, and is made of the rank", setting.name);
        (message, "write one value for all ranks; NCCL itself gives each GPU its NICs".to_owned())
    })
}
