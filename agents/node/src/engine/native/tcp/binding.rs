//! Which local interfaces carry data. Pure but for the list of interfaces that it is given.
//!
//! The syntax is `NCCL_SOCKET_IFNAME`'s. Unlike in NCCL, an exclusion never adds the loopback: it carries data only where it is named, or where there is
//! nothing else.

use gdrtune_profiles::grammar::ifname::{InterfaceList, MOST_INTERFACES};

use super::{super::config::IFNAME_VARIABLE, interfaces::LocalInterface};
use crate::engine::EngineError;

/// Names that never carry data unless asked for: bridges to containers and virtual machines of this host.
const NOT_BY_DEFAULT: [&str; 2] = ["docker", "virbr"];

/// The interfaces that carry data, in kernel order; never empty.
pub(super) fn bind(all: &[LocalInterface], value: Option<&str>) -> Result<Vec<LocalInterface>, EngineError> {
    let refuse = |why: String| {
        let value = value.unwrap_or_default().to_owned();
        EngineError::Setting { name: IFNAME_VARIABLE, value, why }
    };
    let list = value.map(InterfaceList::parse).transpose().map_err(|error| refuse(error.to_string()))?;
    let is_allowed = |interface: &&LocalInterface| match &list {
        Some(list) => list.matches(&interface.name),
        None => !NOT_BY_DEFAULT.iter().any(|prefix| interface.name.starts_with(prefix)),
    };
    let mut bound: Vec<_> = all.iter().filter(is_allowed).cloned().collect();
    let is_by_name = list.is_some_and(|list| !list.is_excluding);
    if !is_by_name && bound.iter().any(|interface| !interface.is_loopback) {
        bound.retain(|interface| !interface.is_loopback);
    }
    if bound.is_empty() {
        let known = all.iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(refuse(format!("no interface is left that is up with an IPv4 address; this host has {known}")));
    }
    bound.truncate(MOST_INTERFACES);
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn bound(names: &[&str], value: Option<&str>) -> Result<String, String> {
        let interface = |name: &&str| LocalInterface {
            name: (*name).into(),
            address: Ipv4Addr::LOCALHOST,
            is_loopback: *name == "lo",
        };
        let all: Vec<_> = names.iter().map(interface).collect();
        let bound = bind(&all, value).map_err(|error| error.to_string())?;
        Ok(bound.iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn interfaces_are_selected_as_in_nccl() {
        let host = ["lo", "eth0", "eth1", "eth10", "docker0", "virbr0"];
        for (value, expected) in [
            (None, "eth0 eth1 eth10"),
            (Some("eth1"), "eth1 eth10"),
            (Some("=eth1"), "eth1"),
            (Some("=eth10,eth0"), "eth0 eth10"),
            (Some("^eth1"), "eth0 docker0 virbr0"),
            (Some("^=eth1"), "eth0 eth10 docker0 virbr0"),
            (Some("lo"), "lo"),
            (Some("docker"), "docker0"),
            (Some("=lo,eth0"), "lo eth0"),
            (Some("^eth,docker,virbr"), "lo"),
        ] {
            assert_eq!(bound(&host, value).as_deref(), Ok(expected), "{value:?}");
        }
    }

    #[test]
    fn the_loopback_serves_where_there_is_nothing_else() {
        assert_eq!(bound(&["lo", "docker0"], None).as_deref(), Ok("lo"));
    }

    #[test]
    fn a_filter_that_leaves_nothing_names_what_there_is() {
        let expected = "NCCL_SOCKET_IFNAME==ib0 cannot be used: no interface is left that is up with an IPv4 address; \
                        this host has lo, eth0";
        assert_eq!(bound(&["lo", "eth0"], Some("=ib0")), Err(expected.into()));
    }

    #[test]
    fn a_filter_that_is_none_is_refused() {
        let expected =
            "NCCL_SOCKET_IFNAME==^eth0 cannot be used: the modifiers are in the wrong order: write ^= and not =^";
        assert_eq!(bound(&["lo", "eth0"], Some("=^eth0")), Err(expected.into()));
    }
}
