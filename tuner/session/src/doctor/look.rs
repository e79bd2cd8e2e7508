//! Gathers the facts of hosts: starts their agents, reads what they have, lets them try each other, and ends them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gdrtune_fleet::{FleetConfig, hosts::Host};
use gdrtune_wire::SessionKey;
use tokio::runtime::Handle;

use super::{Facts, Node, Unusable, live};
use crate::{
    cluster::link::FleetLink,
    connect::{self, ConnectError, Register},
};

/// What is looked at beside the inventories.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Whether nodes try to connect to each other.
    pub connections: bool,
    /// Whether nodes are asked for the time.
    pub clocks: bool,
    /// Time for each of these.
    pub timeout: Duration,
}

/// Looks at hosts. One that fails does not keep the others from being looked at. Blocks; not for a tokio thread.
///
/// # Errors
/// [`ConnectError`] where no agent could be started for a reason that lies here, or the user wants no more.
pub fn look(
    runtime: &Handle,
    config: FleetConfig,
    hosts: &[Host],
    plan: Look,
    interrupted: &dyn Fn() -> bool,
) -> Result<Facts, ConnectError> {
    let register = Register { recorder: None, numbers: &[] };
    let gathered = connect::gather(runtime, config, hosts, register, interrupted)?;
    let failures = gathered.fleet.failures().iter();
    let mut unusable: Vec<(usize, Unusable)> = failures
        .map(|(node, error)| {
            let what = format!("{}: {}", error.kind.label(), error.detail);
            (*node, Unusable { host: error.host.clone(), what, fix: error.hint.clone() })
        })
        .collect();
    let missing = gathered.missing.map(|refusal| refusal.hosts).unwrap_or_default();
    for (node, why) in missing {
        if !unusable.iter().any(|(known, _)| *known == node) {
            unusable.push((node, lost(hosts, node, &why)));
        }
    }
    // Places in the fleet, of the nodes that are there, in rising order.
    let there: Vec<usize> = gathered
        .inventories
        .iter()
        .enumerate()
        .filter(|(node, inventory)| inventory.is_some() && !unusable.iter().any(|(known, _)| known == node))
        .map(|(node, _)| node)
        .collect();
    let name = |node: usize| hosts.get(node).map_or_else(String::new, |host| host.name.clone());
    let inventories = gathered.inventories.into_iter().enumerate();
    let mut nodes: Vec<Node> = inventories
        .filter(|(node, _)| there.contains(node))
        .filter_map(|(node, inventory)| Some(Node::new(name(node), inventory?)))
        .collect();
    let mut link = FleetLink::of(&gathered.fleet, &gathered.events, there.clone());
    let mut talk =
        live::Talk { link: &mut link, nodes: nodes.len(), limit: plan.timeout, interrupted, lost: Vec::new() };
    let not_asked = || "not asked for".to_owned();
    let mut clocks = if plan.clocks { Ok(talk.clocks(now_us)) } else { Err(not_asked()) };
    let mut contacts = if !plan.connections {
        Err(not_asked())
    } else if nodes.len() < 2 {
        Err("fewer than two nodes".to_owned())
    } else {
        let addresses: Vec<_> =
            nodes.iter().map(|node| node.interfaces.interfaces.iter().map(|(_, address)| *address).collect()).collect();
        let key = SessionKey(rand::random());
        Ok(talk.contacts(&addresses, &live::plan(nodes.len(), rand::random()), &key))
    };
    let gone = talk.lost;
    runtime.block_on(gathered.fleet.shutdown());
    if interrupted() {
        return Err(ConnectError::Interrupted);
    }
    // Who was lost meanwhile is out of all that follows.
    let is_gone = |place: usize| gone.iter().any(|(node, _)| *node == place);
    for (place, why) in &gone {
        if let Some(node) = there.get(*place) {
            unusable.push((*node, lost(hosts, *node, why)));
        }
    }
    if !gone.is_empty() {
        let kept: Vec<usize> = (0..nodes.len()).filter(|place| !is_gone(*place)).collect();
        let place = |old: usize| kept.iter().position(|kept| *kept == old);
        nodes = keep(nodes, &is_gone);
        clocks = clocks.map(|clocks| keep(clocks, &is_gone));
        contacts = contacts.map(|contacts| {
            let moved = contacts.into_iter().filter_map(|contact| {
                Some(super::Contact { from: place(contact.from)?, to: place(contact.to)?, ..contact })
            });
            moved.collect()
        });
    }
    unusable.sort_by_key(|(node, _)| *node);
    Ok(Facts { nodes, unusable: unusable.into_iter().map(|(_, host)| host).collect(), contacts, clocks })
}

fn keep<T>(all: Vec<T>, is_gone: &dyn Fn(usize) -> bool) -> Vec<T> {
    all.into_iter().enumerate().filter(|(place, _)| !is_gone(*place)).map(|(_, item)| item).collect()
}

fn lost(hosts: &[Host], node: usize, why: &str) -> Unusable {
    let host = hosts.get(node).map_or_else(String::new, |host| host.name.clone());
    let fix = "look at that host's memory, load and log (dmesg); then once more".to_owned();
    Unusable { host, what: format!("lost: {why}"), fix }
}

#[expect(clippy::disallowed_methods, reason = "how far clocks are apart is what is asked for; nothing waits for it")]
fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
