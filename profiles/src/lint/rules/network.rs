//! Rules about HCAs, interfaces, distances, and transports that are switched off.

use super::{Check, Options, Rule, Setting, Wrong};
use crate::grammar::{
    hca::HcaList,
    ifname::{self, InterfaceList},
};

pub(super) const RULES: &[Rule] = &[
    Rule::warning(
        "hca-prefix",
        "names in NCCL_IB_HCA without `=`",
        "A name is a prefix then: mlx5_1 also means mlx5_10 to mlx5_19.",
        "NCCL src/misc/utils.cc; NVIDIA/nccl issue 236",
        Check::Setting(|setting, _| hca_prefix(setting, false)),
    ),
    Rule::warning(
        "hca-exclude-prefix",
        "excluded names in NCCL_IB_HCA without `=`",
        "^mlx5_1 also excludes mlx5_10 to mlx5_19.",
        "NCCL src/misc/utils.cc; NVIDIA/nccl issues 236, 1412",
        Check::Setting(|setting, _| hca_prefix(setting, true)),
    ),
    Rule::error(
        "hca-list",
        "a list in NCCL_IB_HCA that NCCL reads otherwise",
        "The modifiers come as ^=, never as =^; blanks count; more than 32 items are dropped without a word.",
        "NCCL src/transport/net_ib/init.cc",
        Check::Setting(hca_list),
    ),
    Rule::warning(
        "hca-rails",
        "rails or planes in NCCL_IB_HCA for an NCCL before 2.30 (with --nccl-version)",
        "They are read since 2.30 only.",
        "NCCL src/transport/net_ib/init.cc",
        Check::Setting(hca_rails),
    ),
    Rule::warning(
        "interface-prefix",
        "an interface with a number at its end, without `=`",
        "A name is a prefix then: eth1 also means eth10, and eth0 also eth0.100.",
        "NCCL src/misc/utils.cc; NVIDIA/nccl issues 286, 913",
        Check::Setting(|setting, _| interface_prefix(setting, false)),
    ),
    Rule::note(
        "interface-exclude-prefix",
        "an excluded interface with a number at its end, without `=`",
        "^eth1 also excludes eth10.",
        "NCCL src/misc/utils.cc",
        Check::Setting(|setting, _| interface_prefix(setting, true)),
    ),
    Rule::error(
        "interface-list",
        "a list of interfaces that NCCL reads otherwise",
        "The modifiers come as ^=, never as =^; blanks count; more than 16 names are dropped without a word.",
        "NCCL src/os/linux.cc",
        Check::Setting(interface_list),
    ),
    Rule::warning(
        "interface-local",
        "the loopback, or a container's bridge, as the interface",
        "Other nodes cannot be reached through it.",
        "NVIDIA/nccl issues 913, 1581",
        Check::Setting(interface_local),
    ),
    Rule::warning(
        "transport-disabled",
        "a transport that is switched off",
        "These are left over from looking for an error, and cost most of the bandwidth.",
        "NCCL docs/userguide/source/env.rst; NVIDIA/nccl issue 1199",
        Check::Setting(disabled),
    ),
    Rule::warning(
        "level-digit",
        "a digit for NCCL_NET_GDR_LEVEL or NCCL_P2P_LEVEL",
        "The manual discourages digits: what they mean changes with the path types, and NVL has none.",
        "NCCL docs/userguide/source/env.rst, NCCL_P2P_LEVEL",
        Check::Setting(|setting, _| level_digit(setting)),
    ),
    Rule::warning(
        "gdr-level-extreme",
        "NCCL_NET_GDR_LEVEL=SYS or LOC",
        "SYS sends GPUDirect RDMA across sockets, which is often slower than through memory, and does not enable what is missing; LOC switches it off.",
        "NVIDIA/nccl issues 1151, 1188, 1295; Mellanox/nv_peer_memory issue 50",
        Check::Setting(gdr_level),
    ),
    Rule::warning(
        "gid-index-fixed",
        "NCCL_IB_GID_INDEX with a number",
        "It differs by HCA, node and pod, and may change while a node is up; NCCL finds it by itself since 2.21.",
        "NVIDIA/nccl issues 718, 769, 1131, 1333",
        Check::Setting(gid_index),
    ),
    Rule::warning(
        "net-mismatch-ignored",
        "NCCL_IGNORE_NET_MISMATCH=1",
        "Nodes with other numbers of NICs then start and can hang.",
        "NCCL src/init.cc; NVIDIA/nccl issue 2428",
        Check::Setting(mismatch),
    ),
    Rule::warning(
        "graph-file",
        "NCCL_GRAPH_FILE",
        "It holds the graph of one set of nodes and GPUs, and breaks runs on any other.",
        "NVIDIA/nccl issue 1008",
        Check::Setting(graph_file),
    ),
    Rule::warning(
        "debug-log",
        "NCCL_DEBUG=INFO or TRACE without a file for it",
        "Every rank then writes to standard output, which costs time and fills buffers.",
        "NVIDIA/aicr issue 422",
        Check::File(debug_log),
    ),
    Rule::warning(
        "debug-file-shared",
        "NCCL_DEBUG_FILE without %p or %h",
        "All processes write over the same file.",
        "NCCL docs/userguide/source/env.rst, NCCL_DEBUG_FILE",
        Check::Setting(debug_file),
    ),
];

/// The list of HCAs, where it can be read.
fn hcas(setting: &Setting) -> Option<Result<HcaList, String>> {
    let value = setting.constant().filter(|value| setting.name == "NCCL_IB_HCA" && !value.is_empty())?;
    (!value.contains(['"', '\'', '$'])).then(|| HcaList::parse(value).map_err(|error| error.to_string()))
}

fn hca_prefix(setting: &Setting, is_excluding: bool) -> Option<Wrong> {
    let list = hcas(setting)?.ok().filter(|list| list.is_excluding == is_excluding)?;
    let name = list.trap()?;
    let verb = if is_excluding { "excludes" } else { "means" };
    let message = format!("{name} without `=` also {verb} every HCA whose name begins so");
    Some((message, format!("write NCCL_IB_HCA={}", HcaList { is_exact: true, ..list.clone() })))
}

fn hca_list(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let cause = hcas(setting)?.err()?;
    Some((format!("NCCL_IB_HCA: {cause}"), "write [^][=]hca[:port][,hca[:port]], without blanks".to_owned()))
}

fn hca_rails(setting: &Setting, options: &Options<'_>) -> Option<Wrong> {
    let version = options.version.filter(|version| !version.at_least(2, 30))?;
    hcas(setting)?.ok()?.names_rails().then(|| {
        let message = format!("rails and planes are read since NCCL 2.30, and the jobs have {version}");
        (message, "write hca:port only".to_owned())
    })
}

fn interfaces(setting: &Setting) -> Option<Result<InterfaceList, String>> {
    let is_list = matches!(setting.name.as_str(), "NCCL_SOCKET_IFNAME" | "NCCL_OOB_NET_IFNAME");
    let value = setting.constant().filter(|value| is_list && !value.is_empty())?;
    (!value.contains(['"', '\'', '$'])).then(|| InterfaceList::parse(value).map_err(|error| error.to_string()))
}

fn interface_prefix(setting: &Setting, is_excluding: bool) -> Option<Wrong> {
    let list = interfaces(setting)?.ok()?;
    let name = list.trap().filter(|_| list.is_excluding == is_excluding)?;
    let verb = if is_excluding { "excludes" } else { "means" };
    let message = format!("{name} without `=` also {verb} every interface whose name begins so");
    Some((message, format!("write {}={}", setting.name, InterfaceList { is_exact: true, ..list.clone() })))
}

fn interface_list(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let cause = interfaces(setting)?.err()?;
    Some((format!("{}: {cause}", setting.name), "write [^][=]name[,name], without blanks".to_owned()))
}

fn interface_local(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let list = interfaces(setting)?.ok().filter(|list| !list.is_excluding)?;
    let name = list.names.iter().find(|name| ifname::is_local(name))?;
    Some((
        format!("other nodes are not reached through {name}"),
        "name the interface that connects the nodes".to_owned(),
    ))
}

fn disabled(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let what = match (setting.name.as_str(), setting.constant()?) {
        ("NCCL_P2P_DISABLE", "1") | ("NCCL_P2P_LEVEL", "LOC") => "direct transfers between GPUs",
        ("NCCL_SHM_DISABLE", "1") => "shared memory between GPUs of a node",
        ("NCCL_IB_DISABLE", "1") => "InfiniBand and RoCE",
        _ => return None,
    };
    Some((format!("{} switches off {what}", setting.name), "remove it, and mend what it hides".to_owned()))
}

/// Whether a distance is given as a digit.
pub(super) fn is_level_digit(setting: &Setting) -> bool {
    let is_level = matches!(setting.name.as_str(), "NCCL_NET_GDR_LEVEL" | "NCCL_P2P_LEVEL");
    is_level && !setting.value.is_empty() && setting.value.bytes().all(|b| b.is_ascii_digit())
}

fn level_digit(setting: &Setting) -> Option<Wrong> {
    // env.rst, "Integer Values (Legacy)"; above 4 is SYS.
    const LEVELS: &[&str] = &["LOC", "PIX", "PXB", "PHB", "SYS"];
    if !is_level_digit(setting) || !setting.is_constant {
        return None;
    }
    let digit: usize = setting.value.parse().unwrap_or(usize::MAX);
    let level = LEVELS[digit.min(LEVELS.len() - 1)];
    let message = format!("{}={} means another distance in another release", setting.name, setting.value);
    Some((message, format!("write {level}, or leave it out")))
}

fn gdr_level(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let level = setting.constant().filter(|_| setting.name == "NCCL_NET_GDR_LEVEL")?;
    let what = match level.to_ascii_uppercase().as_str() {
        "SYS" => "sends GPUDirect RDMA across sockets, whatever that costs",
        "LOC" => "switches GPUDirect RDMA off",
        _ => return None,
    };
    Some((format!("NCCL_NET_GDR_LEVEL={level} {what}"), "measure with and without it, or leave it out".to_owned()))
}

fn gid_index(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let index = setting.constant().filter(|_| setting.name == "NCCL_IB_GID_INDEX")?;
    (index.parse::<i64>().is_ok_and(|index| 0 <= index)).then(|| {
        let message = format!("GID index {index} need not be the right one for every HCA and node");
        (message, "leave it out: NCCL finds it since 2.21 (NCCL_IB_ADDR_RANGE narrows it down)".to_owned())
    })
}

fn mismatch(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let value = setting.constant().filter(|_| setting.name == "NCCL_IGNORE_NET_MISMATCH")?;
    (value == "1").then(|| {
        let message = "nodes with other numbers of NICs start, and can hang".to_owned();
        (message, "write 0, so that such a job fails at once".to_owned())
    })
}

fn graph_file(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    (setting.name == "NCCL_GRAPH_FILE" && !setting.value.is_empty()).then(|| {
        let message = "a graph file breaks runs on other nodes than it was made on".to_owned();
        (message, "remove it, unless it is made anew for each job".to_owned())
    })
}

fn debug_log(file: &super::LintFile<'_>, _: &Options<'_>, hits: &mut Vec<super::Hit>) {
    let has_file = |setting: &Setting| {
        file.settings.iter().any(|other| other.name == "NCCL_DEBUG_FILE" && other.is_beside(setting))
    };
    for (setting, level) in file.constants(&["NCCL_DEBUG"]) {
        let is_loud = ["INFO", "TRACE"].iter().any(|loud| level.eq_ignore_ascii_case(loud));
        if is_loud && !has_file(setting) {
            let message = format!("NCCL_DEBUG={} makes every rank write to standard output", level.escape_debug());
            let fix = "write WARN, or send it to NCCL_DEBUG_FILE=/path/nccl.%h.%p.log".to_owned();
            hits.push(super::Hit::new(setting.line, (message, fix)));
        }
    }
}

fn debug_file(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let path = setting.constant().filter(|_| setting.name == "NCCL_DEBUG_FILE")?;
    let is_device = path.starts_with("/dev/") || path.is_empty();
    (!is_device && !path.contains("%p") && !path.contains("%h")).then(|| {
        let message = "every process writes over the same log file".to_owned();
        (message, format!("put %h and %p into the name: {}.%h.%p", path.escape_debug()))
    })
}
