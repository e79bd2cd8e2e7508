//! Which network interfaces NCCL takes for its sockets, and so for starting up.
//!
//! Source: NCCL `src/misc/socket.cc`, `ncclFindInterfaces`: those that `NCCL_SOCKET_IFNAME` names; else those called `ib...`; else all but
//! `docker...`, `lo...` and `virbr...`; else these, in this order. The first of them starts up, all of them carry data.

use std::net::{IpAddr, Ipv4Addr};

use gdrtune_profiles::grammar::ifname::{InterfaceList, MOST_INTERFACES};
use gdrtune_wire::{Interface, Inventory};

/// Taken only where there is nothing else, in this order.
const LAST: [&str; 3] = ["docker", "lo", "virbr"];

/// What NCCL takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Names and IPv4 addresses, in NCCL's order. Interfaces without an IPv4 address are left out, as NCCL does unless told
    /// to use IPv6.
    pub(super) interfaces: Vec<(String, Ipv4Addr)>,
    /// Whether `NCCL_SOCKET_IFNAME` names them.
    pub(super) is_named: bool,
    /// Whether there are some, whatever addresses they have.
    pub(super) is_any: bool,
}

pub(super) fn choose(inventory: &Inventory, variable: Option<&str>) -> Chosen {
    let all = &inventory.interfaces;
    let of = |is_taken: &dyn Fn(&str) -> bool| -> Vec<(String, Ipv4Addr)> {
        let taken = all.iter().filter(|interface| is_taken(&interface.name));
        taken.filter_map(|interface| Some((interface.name.clone(), ipv4(interface)?))).take(MOST_INTERFACES).collect()
    };
    if let Some(list) = variable.filter(|text| !text.is_empty()).map(InterfaceList::parse) {
        let Ok(list) = list else { return Chosen { interfaces: Vec::new(), is_named: true, is_any: false } };
        let is_any = all.iter().any(|interface| list.matches(&interface.name));
        return Chosen { interfaces: of(&|name| list.matches(name)), is_named: true, is_any };
    }
    let is_usual = |name: &str| !LAST.iter().any(|prefix| name.starts_with(prefix));
    let preferred = [of(&|name| name.starts_with("ib")), of(&is_usual)];
    let last = LAST.iter().map(|prefix| of(&|name| name.starts_with(prefix)));
    let first = preferred.into_iter().chain(last).find(|found| !found.is_empty());
    Chosen { interfaces: first.unwrap_or_default(), is_named: false, is_any: !all.is_empty() }
}

fn ipv4(interface: &Interface) -> Option<Ipv4Addr> {
    interface.addresses.iter().find_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str], variable: Option<&str>) -> String {
        let interface = |(number, name): (usize, &&str)| Interface {
            name: (*name).to_owned(),
            addresses: vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, number as u8))],
            prefixes: vec![24],
            loopback: *name == "lo",
            mtu: 1500,
            speed_mbps: None,
        };
        let inventory =
            Inventory { interfaces: names.iter().enumerate().map(interface).collect(), ..Inventory::default() };
        choose(&inventory, variable).interfaces.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn interfaces_are_those_that_nccl_takes() {
        let usual = ["lo", "docker0", "veth1", "eth0", "eth10", "ib0"];
        assert_eq!(chosen(&usual, None), "ib0");
        assert_eq!(chosen(&usual[..5], None), "veth1 eth0 eth10");
        assert_eq!(chosen(&usual[..2], None), "docker0");
        assert_eq!(chosen(&usual[..1], None), "lo");
        assert_eq!(chosen(&[], None), "");
        for (variable, taken) in [
            ("eth", "eth0 eth10"),
            ("=eth0", "eth0"),
            ("^docker,lo", "veth1 eth0 eth10 ib0"),
            ("eth7", ""),
            ("=^eth0", ""),
            ("", "ib0"),
        ] {
            assert_eq!(chosen(&usual, Some(variable)), taken, "{variable}");
        }
        let many: Vec<String> = (0..20).map(|number| format!("eth{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(chosen(&many, None).split(' ').count(), MOST_INTERFACES);
    }
}
