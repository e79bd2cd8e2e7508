//! Which local interfaces carry data. Pure but for the list of interfaces that it is given.
//!
//! The syntax is `NCCL_SOCKET_IFNAME`'s: `[^][=]name[,name]*`; `^` excludes, `=` wants whole names, otherwise a name is a
//! prefix. Unlike NCCL, an exclusion never adds the loopback: it carries data only where it is named, or where there is
//! nothing else.

use super::{config::IFNAME_VARIABLE, interfaces::LocalInterface};
use crate::engine::EngineError;

/// NCCL's own limit (`MAX_IFS`, `src/include/socket.h`).
const MAX_INTERFACES: usize = 16;

/// Names that never carry data unless asked for: bridges to containers and virtual machines of this host.
const NOT_BY_DEFAULT: [&str; 2] = ["docker", "virbr"];

/// A parsed value of the variable.
struct Filter<'a> {
    is_exclusion: bool,
    is_exact: bool,
    names: Vec<&'a str>,
}

impl<'a> Filter<'a> {
    fn parse(text: &'a str) -> Self {
        let (is_exclusion, text) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (is_exact, text) = text.strip_prefix('=').map_or((false, text), |rest| (true, rest));
        Self { is_exclusion, is_exact, names: text.split(',').filter(|name| !name.is_empty()).collect() }
    }

    fn names(&self, interface: &str) -> bool {
        let is_named = |name: &&str| if self.is_exact { interface == *name } else { interface.starts_with(name) };
        self.names.iter().any(is_named)
    }
}

/// The interfaces that carry data, in kernel order; never empty.
pub(super) fn bind(all: &[LocalInterface], value: Option<&str>) -> Result<Vec<LocalInterface>, EngineError> {
    let filter = Filter::parse(value.unwrap_or_default());
    let is_default = |interface: &&LocalInterface| {
        value.is_some() || !NOT_BY_DEFAULT.iter().any(|prefix| interface.name.starts_with(prefix))
    };
    let by_name = !filter.is_exclusion && !filter.names.is_empty();
    let mut bound: Vec<_> = if by_name {
        all.iter().filter(|interface| filter.names(&interface.name)).collect()
    } else {
        let allowed = all.iter().filter(|interface| !filter.names(&interface.name)).filter(is_default);
        let (loopback, other): (Vec<_>, Vec<_>) = allowed.partition(|interface| interface.is_loopback);
        if other.is_empty() { loopback } else { other }
    };
    if bound.is_empty() {
        let known = all.iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(EngineError::Setting {
            name: IFNAME_VARIABLE,
            value: value.unwrap_or_default().to_owned(),
            why: format!("it leaves no interface that is up with an IPv4 address; this host has {known}"),
        });
    }
    bound.truncate(MAX_INTERFACES);
    Ok(bound.into_iter().cloned().collect())
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
        let expected = "NCCL_SOCKET_IFNAME==ib0 cannot be used: it leaves no interface that is up with an IPv4 address; \
                        this host has lo, eth0";
        assert_eq!(bound(&["lo", "eth0"], Some("=ib0")), Err(expected.into()));
    }
}
