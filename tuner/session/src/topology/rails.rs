//! Rails: an HCA of each node, by its name, which is how `NCCL_IB_HCA` names them for all nodes at once.

use std::collections::BTreeSet;

use gdrtune_profiles::topology::{Hca, by_number};

use super::{Group, Nearest};

/// The HCAs of one name, or of one position where names differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rail {
    /// The name; several where nodes name it differently.
    pub name: String,
    /// Nodes where it is not known to be down.
    pub hosts: Vec<String>,
    /// Nodes where its ports are down.
    pub down: Vec<String>,
    /// Nodes that have no such HCA.
    pub missing: Vec<String>,
    /// Rates of the ports that are not down. More than one, where nodes differ.
    pub rates: Vec<String>,
    /// GPUs of which it is a nearest HCA, on most nodes.
    pub gpus: Vec<usize>,
}

impl Rail {
    /// Whether every node has it, up, at one rate.
    pub fn is_whole(&self) -> bool {
        self.down.is_empty() && self.missing.is_empty() && self.rates.len() <= 1
    }
}

/// The rails, and what stands in their way.
pub(super) fn rails(groups: &[Group]) -> (Vec<Rail>, Vec<String>) {
    let names = |group: &Group| group.machine.hcas.iter().map(|hca| hca.name.clone()).collect::<BTreeSet<String>>();
    let with_hcas: Vec<&Group> = groups.iter().filter(|group| !group.machine.hcas.is_empty()).collect();
    let common = with_hcas.iter().map(|group| names(group)).reduce(|a, b| &a & &b).unwrap_or_default();
    let mut notes = Vec::new();
    if common.is_empty() && with_hcas.len() > 1 {
        let most = with_hcas.iter().map(|group| group.machine.hcas.len()).max().unwrap_or_default();
        notes.push(
            "no HCA has the same name on all nodes, so rails are by position: NCCL_IB_HCA takes one list of names for all \
             nodes: give them equal ones (rdma-core's 60-rdma-persistent-naming.rules)"
                .to_owned(),
        );
        return (
            (0..most).map(|at| rail(groups, &|group: &Group| (at < group.machine.hcas.len()).then_some(at))).collect(),
            notes,
        );
    }
    let mut all: Vec<String> = groups.iter().flat_map(names).collect::<BTreeSet<String>>().into_iter().collect();
    all.sort_by(|a, b| by_number(a, b));
    let of_name =
        |name: &String| rail(groups, &|group: &Group| group.machine.hcas.iter().position(|hca| hca.name == *name));
    (all.iter().map(of_name).collect(), notes)
}

/// The rail of whatever HCA `place` finds in a group.
fn rail(groups: &[Group], place: &dyn Fn(&Group) -> Option<usize>) -> Rail {
    let mut rail =
        Rail { name: String::new(), hosts: vec![], down: vec![], missing: vec![], rates: vec![], gpus: vec![] };
    let (mut names, mut rates) = (Vec::new(), BTreeSet::new());
    for group in groups {
        let Some((at, hca)) = place(group).and_then(|at| Some((at, group.machine.hcas.get(at)?))) else {
            rail.missing.extend(group.hosts.iter().cloned());
            continue;
        };
        if !names.contains(&hca.name) {
            names.push(hca.name.clone());
        }
        if hca.is_down() {
            rail.down.extend(group.hosts.iter().cloned());
            continue;
        }
        // The first group is the largest.
        if rail.hosts.is_empty() {
            let is_near = |nearest: &Option<Nearest>| nearest.as_ref().is_some_and(|near| near.hcas.contains(&at));
            let near = group.nearest.iter().enumerate().filter(|(_, nearest)| is_near(nearest));
            rail.gpus = near.map(|(gpu, _)| gpu).collect();
        }
        rail.hosts.extend(group.hosts.iter().cloned());
        rates.extend(rate(hca));
    }
    rail.name = names.join("/");
    rail.rates = rates.into_iter().collect();
    rail
}

/// Rates of the ports that are not down, as one text.
fn rate(hca: &Hca) -> Option<String> {
    let ports = hca.ports.iter().filter(|port| !port.is_down());
    let rates: Vec<String> = ports
        .map(|port| format!("{} {}", port.link_layer, port.rate).trim().to_owned())
        .filter(|r| !r.is_empty())
        .collect();
    (!rates.is_empty()).then(|| rates.join(" + "))
}
