//! What differs between the hosts of a run. Pure.
//!
//! All ranks of a communicator must come to the same decisions, and each makes them from its own node's variables and devices.
//! Where these differ, NCCL hangs, fails, or computes something else on each rank, most of the time without saying why. Versions
//! of NCCL are compared where they are known: by the workers (`cluster`).

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use gdrtune_fleet::hosts::{Host, fold};
use gdrtune_profiles::{
    grammar::{hca::HcaList, nccl_conf},
    size::Size,
    vocab::Engine,
};
use gdrtune_wire::{HcaPort, Inventory};

/// Variables of NCCL that may differ from node to node: names of that node's devices and files, and what only prints.
/// (NCCL user guide, `env.rst`; of all others, each rank acts on its own value.)
const MAY_DIFFER: &[&str] = &[
    "NCCL_CONF_FILE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_HOSTID",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_RAS_ADDR",
    "NCCL_RAS_ENABLE",
    "NCCL_SET_THREAD_NAME",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_FILE",
];

/// Which HCAs NCCL may use.
const HCA_VARIABLE: &str = "NCCL_IB_HCA";

/// What `GDRTUNE_GPU` names is not counted by the node's GPUs.
const GPU_VARIABLE: &str = "GDRTUNE_GPU";

/// Something that is not the same on all hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What: `NCCL_ALGO`, `the NVIDIA driver`.
    pub what: String,
    /// Hosts, folded, and what each of them has; the most frequent first.
    pub values: Vec<(String, String)>,
    /// Whether NCCL hangs or breaks on it.
    pub is_grave: bool,
}

impl fmt::Display for Difference {
    /// `NCCL_ALGO differs: node[01-03]: Ring; node04: Tree (in /etc/nccl.conf)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.values.iter().map(|(hosts, value)| format!("{hosts}: {value}")).collect();
        write!(f, "{} differs: {}", self.what, values.join("; "))
    }
}

/// The nodes that are compared.
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'a> {
    /// What measures.
    pub engine: Engine,
    /// Whether several ranks may share a GPU.
    pub emulate_nodes: bool,
    /// The hosts.
    pub hosts: &'a [Host],
    /// Ranks on each.
    pub slots: &'a [u32],
    /// What each has.
    pub inventories: &'a [Inventory],
}

/// What differs, the grave first.
pub fn compare(nodes: &Nodes<'_>) -> Vec<Difference> {
    let settings: Vec<Settings> = nodes.inventories.iter().map(|node| effective(node, nodes.engine)).collect();
    let hosts = nodes.hosts.iter().map(|host| host.name.as_str());
    let mut found = variables(&hosts.zip(&settings).collect::<Vec<_>>());
    if nodes.engine == Engine::Nccl {
        found.extend(gpus(nodes));
        found.extend(hcas(nodes, &settings));
        found.extend(nodes.differ("the NVIDIA driver", false, |node| named(&node.driver)));
    }
    found.extend(nodes.differ("the CPU", false, |node| format!("{} x {}", node.cpus, named(&node.cpu_model))));
    // A difference of a few reserved pages is none.
    found.extend(nodes.differ("the memory", false, |node| Size(node.memory_bytes >> 33 << 33).to_string()));
    found.sort_by_key(|difference| !difference.is_grave);
    found
}

impl Nodes<'_> {
    fn differ(&self, what: &str, is_grave: bool, value: impl Fn(&Inventory) -> String) -> Option<Difference> {
        self.differing(what, is_grave, self.inventories.iter().map(value))
    }

    /// A difference, where the hosts' values are not all equal.
    fn differing(&self, what: &str, is_grave: bool, values: impl Iterator<Item = String>) -> Option<Difference> {
        let values = by_value(self.hosts.iter().map(|host| host.name.as_str()).zip(values));
        (values.len() > 1).then(|| Difference { what: what.to_owned(), values, is_grave })
    }
}

/// Hosts, folded, by what they have: the most frequent first, then in rank order.
pub(crate) fn by_value<'a>(values: impl Iterator<Item = (&'a str, String)>) -> Vec<(String, String)> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (host, value) in values {
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, hosts)) => hosts.push(host),
            None => groups.push((value, vec![host])),
        }
    }
    groups.sort_by_key(|(_, hosts)| Reverse(hosts.len()));
    groups.into_iter().map(|(value, hosts)| (fold(&hosts), value)).collect()
}

fn named(text: &str) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

/// NCCL's variables of a node, with the file where they are from; nothing for the environment.
pub type Settings = BTreeMap<String, (String, Option<String>)>;

/// What NCCL sees: the environment comes first, then the files in their order. Our own engine reads no files.
pub fn effective(node: &Inventory, engine: Engine) -> Settings {
    let is_nccl = |name: &str| name.starts_with("NCCL_");
    let of_environment = node.site_env.iter().map(|(name, value)| (name, value, None));
    let mut settings = Settings::new();
    for (name, value, from) in of_environment.filter(|(name, ..)| is_nccl(name)) {
        settings.insert(name.to_owned(), (value.to_owned(), from));
    }
    let files = node.nccl_confs.iter().filter(|_| engine == Engine::Nccl);
    for file in files {
        let (environment, _) = nccl_conf::parse(&file.text, &file.path);
        for (name, value) in environment.iter().filter(|(name, _)| is_nccl(name)) {
            let from = Some(file.path.clone());
            settings.entry(name.to_owned()).or_insert_with(|| (value.to_owned(), from));
        }
    }
    settings
}

/// Variables that are not the same on all hosts.
pub(crate) fn variables(nodes: &[(&str, &Settings)]) -> Vec<Difference> {
    let mut names: Vec<&String> = nodes.iter().flat_map(|(_, settings)| settings.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differ = |name: &String| {
        let of = |node: &Settings| node.get(name).map(|(value, _)| value.clone());
        let first = nodes.first().and_then(|(_, settings)| of(settings));
        if nodes.iter().all(|(_, settings)| of(settings) == first) {
            return None;
        }
        let words = |node: &Settings| match node.get(name) {
            None => "not set".to_owned(),
            Some((value, None)) => value.clone(),
            Some((value, Some(file))) => format!("{value} (in {file})"),
        };
        let values = by_value(nodes.iter().map(|(host, settings)| (*host, words(settings))));
        let is_grave = !MAY_DIFFER.contains(&name.as_str());
        (values.len() > 1).then(|| Difference { what: name.clone(), values, is_grave })
    };
    names.into_iter().filter_map(differ).collect()
}

/// Fewer GPUs than ranks keep a node's ranks from starting; otherwise another number or model is only odd.
fn gpus(nodes: &Nodes<'_>) -> Option<Difference> {
    let words = |node: &Inventory| {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        node.gpus.iter().for_each(|model| *counts.entry(model).or_default() += 1);
        let counts: Vec<String> = counts.iter().map(|(model, count)| format!("{count} x {model}")).collect();
        named(&counts.join(", "))
    };
    let is_short = |(node, &ranks): (&Inventory, &u32)| {
        let is_counted = !nodes.emulate_nodes && !node.gpus.is_empty() && node.site_env.get(GPU_VARIABLE).is_none();
        is_counted && node.gpus.len() < ranks as usize
    };
    let is_grave = nodes.inventories.iter().zip(nodes.slots).any(is_short);
    nodes.differ("the set of GPUs", is_grave, words)
}

/// Ports that NCCL would use. Where they are named, other ones on some node hang what is connected rail by rail.
fn hcas(nodes: &Nodes<'_>, settings: &[Settings]) -> Option<Difference> {
    let is_named = settings.iter().any(|node| node.contains_key(HCA_VARIABLE));
    let words = |(node, settings): (&Inventory, &Settings)| {
        let list = settings.get(HCA_VARIABLE).and_then(|(text, _)| HcaList::parse(text).ok());
        let is_used =
            |port: &&HcaPort| port.is_active() && list.as_ref().is_none_or(|list| list.matches(&port.hca, port.port));
        let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for port in node.hca_ports.iter().filter(is_used) {
            *counts.entry((&port.link_layer, &port.rate)).or_default() += 1;
        }
        let kinds: Vec<String> =
            counts.iter().map(|((link, rate), count)| format!("{count} x {link} {rate}")).collect();
        if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
    };
    let what =
        if is_named { "the set of active HCA ports that NCCL_IB_HCA names" } else { "the set of active HCA ports" };
    nodes.differing(what, is_named, nodes.inventories.iter().zip(settings).map(words))
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Environment;
    use gdrtune_wire::ConfFile;

    use super::*;

    fn node(site: &[(&str, &str)]) -> Inventory {
        let site_env = site.iter().fold(Environment::new(), |all, (name, value)| all.with(*name, *value));
        let gpus = vec!["NVIDIA H200".to_owned(); 8];
        let port = |hca: u32| HcaPort {
            hca: format!("mlx5_{hca}"),
            port: 1,
            link_layer: "InfiniBand".to_owned(),
            rate: "400 Gb/sec (4X NDR)".to_owned(),
            state: "ACTIVE".to_owned(),
            phys_state: "LinkUp".to_owned(),
        };
        let hca_ports = (0..4).map(port).collect();
        Inventory { site_env, gpus, hca_ports, driver: "550.54".into(), ..Inventory::default() }
    }

    fn conf(text: &str) -> Inventory {
        let file = ConfFile { path: "/etc/nccl.conf".into(), text: text.into() };
        Inventory { nccl_confs: vec![file], ..node(&[]) }
    }

    /// What differs between three nodes, of which the last is another.
    fn differences(engine: Engine, usual: &Inventory, other: Inventory) -> Vec<String> {
        let hosts: Vec<Host> = (1..=3).map(|number| Host::named(format!("node{number:02}"))).collect();
        let inventories = [usual.clone(), usual.clone(), other];
        let nodes = Nodes { engine, emulate_nodes: false, hosts: &hosts, slots: &[8, 8, 8], inventories: &inventories };
        let mark = |difference: &Difference| if difference.is_grave { "!" } else { "" };
        compare(&nodes).iter().map(|difference| format!("{}{difference}", mark(difference))).collect()
    }

    fn without(mut node: Inventory, change: impl Fn(&mut Inventory)) -> Inventory {
        change(&mut node);
        node
    }

    #[test]
    fn what_hangs_nccl_is_grave_and_the_rest_is_odd() {
        let plain = node(&[]);
        let less_hca = |node: Inventory| without(node, |node| node.hca_ports.truncate(3));
        let down = without(node(&[]), |node| node.hca_ports[1].state = "DOWN".into());
        // An array of them is large for a stack.
        for (usual, other, expected) in vec![
            (&plain, node(&[]), &[][..]),
            (&node(&[("NCCL_ALGO", "Ring")]), node(&[("NCCL_ALGO", "Ring")]), &[]),
            (
                &node(&[("NCCL_ALGO", "Ring")]),
                plain.clone(),
                &["!NCCL_ALGO differs: node[01-02]: Ring; node03: not set"],
            ),
            (&plain, node(&[("NCCL_SOME_DAY", "1")]), &["!NCCL_SOME_DAY differs: node[01-02]: not set; node03: 1"]),
            (&plain, node(&[("NCCL_DEBUG", "INFO")]), &["NCCL_DEBUG differs: node[01-02]: not set; node03: INFO"]),
            (&plain, node(&[("GDRTUNE_GPU", "4"), ("CUDA_VISIBLE_DEVICES", "4")]), &[]),
            (
                &conf("NCCL_NET=IB\n"),
                conf("NCCL_NET=Socket\n"),
                &["!NCCL_NET differs: node[01-02]: IB (in /etc/nccl.conf); node03: Socket (in /etc/nccl.conf)"],
            ),
            // The same from elsewhere is the same; comments are nothing.
            (&conf("# a\nNCCL_NET=IB\n"), node(&[("NCCL_NET", "IB")]), &[]),
            (
                &plain,
                without(node(&[]), |node| node.gpus.truncate(7)),
                &["!the set of GPUs differs: node[01-02]: 8 x NVIDIA H200; node03: 7 x NVIDIA H200"],
            ),
            (
                &plain,
                without(node(&[]), |node| node.gpus.push("NVIDIA H200".into())),
                &["the set of GPUs differs: node[01-02]: 8 x NVIDIA H200; node03: 9 x NVIDIA H200"],
            ),
            (
                &plain,
                less_hca(node(&[])),
                &["the set of active HCA ports differs: node[01-02]: 4 x InfiniBand 400 Gb/sec (4X NDR); node03: \
                   3 x InfiniBand 400 Gb/sec (4X NDR)"],
            ),
            (
                &node(&[("NCCL_IB_HCA", "=mlx5_0,mlx5_1")]),
                without(down, |node| node.site_env = Environment::new().with("NCCL_IB_HCA", "=mlx5_0,mlx5_1")),
                &[
                    "!the set of active HCA ports that NCCL_IB_HCA names differs: node[01-02]: 2 x InfiniBand 400 Gb/sec (4X \
                   NDR); node03: 1 x InfiniBand 400 Gb/sec (4X NDR)",
                ],
            ),
            // The fourth is not named, so nobody misses it.
            (&node(&[("NCCL_IB_HCA", "=mlx5_0,mlx5_1")]), less_hca(node(&[("NCCL_IB_HCA", "=mlx5_0,mlx5_1")])), &[]),
            (
                &plain,
                without(node(&[]), |node| node.driver = "550.90".into()),
                &["the NVIDIA driver differs: node[01-02]: 550.54; node03: 550.90"],
            ),
            (
                &plain,
                without(node(&[("NCCL_PROTO", "LL")]), |node| node.cpus = 4),
                &[
                    "!NCCL_PROTO differs: node[01-02]: not set; node03: LL",
                    "the CPU differs: node[01-02]: 0 x unknown; node03: 4 x unknown",
                ],
            ),
        ] {
            assert_eq!(differences(Engine::Nccl, usual, other), expected);
        }
    }

    #[test]
    fn our_own_engine_reads_no_files_and_no_gpus() {
        let other = without(conf("NCCL_NET=IB\n"), |node| node.gpus.clear());
        assert_eq!(differences(Engine::Native, &node(&[]), other), Vec::<String>::new());
        let other = node(&[("NCCL_ALGO", "Tree")]);
        let found = differences(Engine::Native, &node(&[]), other);
        assert_eq!(found, ["!NCCL_ALGO differs: node[01-02]: not set; node03: Tree"]);
    }
}
