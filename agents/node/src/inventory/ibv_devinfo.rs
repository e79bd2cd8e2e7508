//! MTUs of InfiniBand ports, which no file tells: what `ibv_devinfo` of rdma-core says, where it is installed.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    time::{Duration, Instant},
};

use super::program;
use crate::agent::process::ChildSpec;

const PROGRAM: &str = "ibv_devinfo";

/// Longest wait. It opens each adapter, which takes some milliseconds.
pub(super) const LIMIT: Duration = Duration::from_secs(2);

/// What it said of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PortMtu {
    pub(super) hca: String,
    pub(super) port: u16,
    /// In bytes.
    pub(super) active: Option<u32>,
    /// In bytes.
    pub(super) most: Option<u32>,
}

/// Asks the program; the second part is why it said nothing. `None` where there is no such program.
pub(super) fn ask(search_path: Option<&OsStr>, limit: Duration) -> Option<Result<Vec<PortMtu>, String>> {
    let program = program::find(PROGRAM, search_path?)?;
    let environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let spec = ChildSpec { program: &program, arguments: &[], environment: &environment };
    let text = program::run(&spec, Instant::now() + limit);
    Some(text.map(|text| parse(&text)).map_err(|why| format!("{}: {why}", program.display())))
}

/// `hca_id: mlx5_0`, below it `port: 1`, below that `max_mtu: 4096 (5)` and `active_mtu: 4096 (5)`, tabs between.
fn parse(text: &str) -> Vec<PortMtu> {
    let (mut ports, mut hca): (Vec<PortMtu>, &str) = (Vec::new(), "");
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        let bytes = || value.split_whitespace().next().and_then(|number| number.parse().ok());
        match (name.trim(), ports.last_mut()) {
            ("hca_id", _) => hca = value,
            ("port", _) => {
                let port = value.parse().unwrap_or_default();
                ports.push(PortMtu { hca: hca.to_owned(), port, ..PortMtu::default() });
            }
            ("active_mtu", Some(port)) => port.active = bytes(),
            ("max_mtu", Some(port)) => port.most = bytes(),
            _ => {}
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read() {
        let text = "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\
                    \t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t2048 (4)\n\nhca_id:\tmlx5_1\n\t\tport:\t1\n\t\t\tmax_mtu:\t\tinvalid MTU (0)\n";
        let port = |hca: &str, active, most| PortMtu { hca: hca.to_owned(), port: 1, active, most };
        assert_eq!(parse(text), [port("mlx5_0", Some(2048), Some(4096)), port("mlx5_1", None, None)]);
        assert_eq!(parse("No IB devices found\nactive_mtu: 1\n"), []);
        assert_eq!(ask(Some(OsStr::new("/nowhere")), LIMIT), None);
    }
}
