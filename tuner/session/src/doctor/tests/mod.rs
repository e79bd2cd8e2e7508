//! Each check shows each of its outcomes: from nodes that are well, and from the same with one thing changed.

mod change;
mod gpus;
mod hcas;
mod nodes;
mod well;

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_wire::Inventory;

use super::*;
use well::well;

/// One look: what is changed of three nodes that are well, and what the check then says of them: status, hosts, and how the evidence
/// begins.
pub(super) type Case = (&'static str, &'static str, Change);

/// What is changed.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// What all nodes have.
    All(fn(&mut Inventory)),
    /// What the second node has.
    Second(fn(&mut Inventory)),
    /// What is known beside that.
    Facts(fn(&mut Facts)),
}

/// What is known of three nodes that are well.
pub(super) fn facts_of(change: Option<Change>) -> Facts {
    let mut inventories: Vec<Inventory> = (1..=3).map(well).collect();
    match change {
        Some(Change::All(change)) => inventories.iter_mut().for_each(change),
        Some(Change::Second(change)) => change(&mut inventories[1]),
        _ => {}
    }
    let nodes: Vec<Node> = inventories
        .into_iter()
        .zip(1..)
        .map(|(inventory, number)| Node::new(format!("n{number}"), inventory))
        .collect();
    let contact = |from: usize, to: usize, place| Contact { from, to, place, outcome: Ok(300) };
    let pairs = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)];
    let contacts = pairs.iter().flat_map(|(from, to)| [contact(*from, *to, 0), contact(*from, *to, 1)]).collect();
    let clocks = vec![Some(Clock { ahead_us: 40, error_us: 900 }); 3];
    let mut facts = Facts { nodes, unusable: Vec::new(), contacts: Ok(contacts), clocks: Ok(clocks) };
    if let Some(Change::Facts(change)) = change {
        change(&mut facts);
    }
    facts
}

/// `FAIL n2: GPU0: x8`.
fn said(finding: &Finding) -> String {
    format!("{} {}: {}", finding.status.name(), gdrtune_fleet::hosts::fold(&finding.hosts), finding.evidence)
}

fn cases() -> impl Iterator<Item = &'static Case> {
    gpus::CASES.iter().chain(hcas::CASES).chain(nodes::CASES)
}

/// What a check says of nodes that are well and of each that is not, the worst first.
fn looks(check: &Check) -> Vec<(Option<&'static Case>, Vec<Finding>)> {
    let changes = cases().filter(|(id, ..)| *id == check.id).map(Some);
    std::iter::once(None)
        .chain(changes)
        .map(|case| {
            let facts = facts_of(case.map(|(.., change)| *change));
            (case, examine(&facts, |other| other.id == check.id))
        })
        .collect()
}

#[test]
fn every_case_is_told() {
    let mut wrong = Vec::new();
    for check in checks() {
        for (case, findings) in looks(check) {
            let Some((id, expected, _)) = case else { continue };
            let all: Vec<String> = findings.iter().map(said).collect();
            // Nothing worse is said of them, either.
            let is_told = all.iter().any(|said| said.starts_with(expected));
            if !is_told || all.first().is_some_and(|worst| !expected.starts_with(&worst[..4])) {
                wrong.push(format!("{id}: expected {expected}\n  {}", all.join("\n  ")));
            }
            for finding in &findings {
                let is_fault = matches!(finding.status, Status::Warn | Status::Fail);
                assert_eq!(finding.fix.as_ref().is_some_and(|fix| !fix.is_empty()), is_fault, "{id}: {finding:?}");
                assert!(!finding.evidence.is_empty() && !finding.evidence.contains('\n'), "{id}: {finding:?}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: BTreeSet<&str> = checks().map(|check| check.id).collect();
    let unknown: Vec<&str> = cases().map(|(id, ..)| *id).filter(|id| !known.contains(id)).collect();
    assert_eq!(unknown, Vec::<&str>::new());
}

/// A check that cannot fail, or never passes, is none.
#[test]
fn every_check_has_shown_that_it_passes_fails_and_is_left_out() {
    let mut lacking = Vec::new();
    for check in checks() {
        let shown: BTreeSet<Status> =
            looks(check).iter().flat_map(|(_, findings)| findings.iter().map(|finding| finding.status)).collect();
        let has_fault = shown.contains(&Status::Warn) || shown.contains(&Status::Fail);
        for (is_shown, what) in [
            (shown.contains(&Status::Pass), "PASS"),
            (shown.contains(&Status::Skip), "SKIP"),
            (has_fault, "WARN or FAIL"),
        ] {
            if !is_shown {
                lacking.push(format!("{} {what}", check.id));
            }
        }
    }
    assert_eq!(lacking, Vec::<String>::new());
}

#[test]
fn nodes_that_are_well_pass() {
    let findings = examine(&facts_of(None), |_| true);
    let others: Vec<String> = findings
        .iter()
        .filter(|finding| finding.status != Status::Pass)
        .map(|finding| format!("{} {}", finding.id, said(finding)))
        .collect();
    assert_eq!(
        others,
        ["gdr-gdrcopy SKIP n[1-3]: NCCL_GDRCOPY_ENABLE is not 1", "hca-net-plugin SKIP n[1-3]: no HCA of AWS's EFA",]
    );
    assert!(findings.iter().all(|finding| finding.hosts == ["n1", "n2", "n3"]), "{findings:?}");
}

#[test]
fn nothing_known_is_nothing_passed() {
    let nobody = Facts { nodes: Vec::new(), unusable: Vec::new(), contacts: Err("x".into()), clocks: Err("x".into()) };
    let bare = vec![Node::recorded("a", Inventory::default()), Node::recorded("b", Inventory::default())];
    let bare = Facts { nodes: bare, ..nobody.clone() };
    for facts in [nobody, bare] {
        let findings = examine(&facts, |_| true);
        // What is not there is known, where it is known to be no setting.
        let passed: Vec<String> = findings
            .iter()
            .filter(|finding| finding.status != Status::Skip)
            .map(|finding| format!("{} {}", finding.id, said(finding)))
            .collect();
        assert_eq!(passed, Vec::<String>::new());
    }
}

#[test]
fn equal_findings_are_folded_and_the_worst_come_first() {
    let facts = facts_of(Some(Change::All(|node| {
        node.driver = if node.hostname == "n2" { "460.32".into() } else { "390.1".into() };
        node.system.memory.numa_balancing = Some(true);
    })));
    let findings =
        examine(&facts, |check| ["gpu-driver-version", "sys-numa-balancing", "gpu-class"].contains(&check.id));
    let all: Vec<String> = findings.iter().map(said).collect();
    assert_eq!(
        all,
        [
            "FAIL n[1,3]: driver 390.1",
            "FAIL n2: driver 460.32",
            "WARN n[1-3]: on",
            "PASS n[1-3]: GPU[0-1]: NVIDIA H100 80GB HBM3",
        ]
    );
}

/// Commands that can be pasted, with the devices at hand, and nothing that would spoil a site's own lists.
#[test]
fn fixes_name_the_devices() {
    let fixes = |id: &str, change: fn(&mut Inventory)| -> String {
        let findings = examine(&facts_of(Some(Change::Second(change))), |check| check.id == id);
        findings.into_iter().filter_map(|finding| finding.fix).collect::<Vec<_>>().join("\n")
    };
    let acs = fixes("gdr-acs", |n| {
        let usual = n.bridges[0].clone();
        n.bridges = vec![usual; 6];
        for (bus, bridge) in n.bridges.iter_mut().enumerate() {
            (bridge.address, bridge.acs_redirects) = (format!("0000:0{bus}:00.0"), Some(true));
        }
    });
    assert!(
        acs.ends_with(
            "`for b in 0000:00:00.0 0000:01:00.0 0000:02:00.0 0000:03:00.0 0000:04:00.0 0000:05:00.0; do sudo setpci -s \"$b\" \
             ECAP_ACS+0x6.w=0000; done`"
        ),
        "{acs}"
    );
    assert_eq!(
        fixes("roce-mtu", |n| n.topology.nets[2].mtu = 1500),
        "`sudo ip link set rail2 mtu 9000`, on all nodes and switches alike"
    );
    let limit = fixes("sys-memlock", |n| n.system.memlock = Some(gdrtune_wire::Memlock { soft: Some(1), hard: None }));
    assert!(
        limit.starts_with(r"`printf '* %s memlock unlimited\n' soft hard | sudo tee /etc/security/limits.d/"),
        "{limit}"
    );
    let counters =
        |id| fixes(id, |n| n.port_details.iter_mut().flat_map(|port| &mut port.counters).for_each(|c| c.value = 9));
    assert!(counters("hca-link-errors").contains(": `perfquery -C mlx5_0 -P 1; perfquery -C mlx5_1 -P 1; "));
    assert!(counters("roce-loss").contains(": `rdma statistic show link mlx5_2/1`; "));
    let down = fixes("hca-port-active", |n| n.hca_ports[2].state = "DOWN".into());
    assert!(down.starts_with("unused port: nothing to do") && !down.contains("NCCL_IB_HCA"), "{down}");
    let needed = fixes("hca-port-active", |n| n.hca_ports[0].state = "DOWN".into());
    assert!(needed.starts_with("bring it up: cable"), "{needed}");
    let phb =
        fixes("gdr-distance", |n| n.topology.distances[1] = vec![Some(gdrtune_profiles::vocab::PcieDistance::Node); 3]);
    assert!(phb.starts_with("NCCL_NET_GDR_LEVEL=PHB, where"), "{phb}");
    let vm = fixes("gdr-distance", |n| {
        n.topology.distances[1] = vec![Some(gdrtune_profiles::vocab::PcieDistance::Sys); 3];
        n.bridges.clear();
    });
    assert!(vm.contains("NCCL_TOPO_FILE") && vm.contains("NCCL_NET_GDR_LEVEL=SYS"), "{vm}");
}

/// `UPDATE_DOCS=1 cargo test` writes it.
#[test]
fn the_docs_list_the_checks_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mark = "<!-- made from the table of checks: UPDATE_DOCS=1 cargo test -p gdrtune-session --lib doctor -->\n";
    let (head, _) = text.split_once(mark).unwrap();
    let now = format!("{head}{mark}{}", markdown());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let is_same = std::fs::read_to_string(path).unwrap() == now;
    assert!(is_same, "UPDATE_DOCS=1 cargo test writes docs/doctor.md");
}

#[test]
fn ids_are_unique_of_their_group_and_every_check_is_explained() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for Group { name, checks, .. } in GROUPS {
        for check in *checks {
            *seen.entry(check.id).or_default() += 1;
            assert!(check.id.starts_with(&format!("{name}-")), "{}", check.id);
            assert!(
                check.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{}",
                check.id
            );
            assert!(check.about.ends_with(['.', ')']), "{}: {}", check.id, check.about);
            assert!(
                !check.title.ends_with('.') && !check.fix.ends_with('.') && !check.source.is_empty(),
                "{}",
                check.id
            );
            assert!(check.fix.matches('`').count().is_multiple_of(2), "{}: {}", check.id, check.fix);
            for text in [check.title, check.about, check.fix, check.source] {
                assert!(!text.contains(['\n', '|']), "{}: {text}", check.id);
            }
        }
    }
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    assert!(55 <= seen.len(), "{}", seen.len());
    assert!(check("gdr-path").is_some() && check("nonsense").is_none());
}
