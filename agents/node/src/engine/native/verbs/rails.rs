//! Which ports of which HCAs carry data: `NCCL_IB_HCA`, in NCCL's syntax, over those that are active.

use std::{path::Path, sync::Arc};

use gdrtune_profiles::grammar::hca::HcaList;

use super::HCA_VARIABLE;
use crate::{
    engine::EngineError,
    verbs::{Device, Domain, Family, GidEntry, Port, SYSFS, Verbs, VerbsError},
};

/// NCCL's own limit (`MAX_IB_DEVS`, `src/transport/net_ib/common.h`).
const MAX_RAILS: usize = 32;

/// An active port, open.
pub(super) struct Rail {
    /// Such as `mlx5_0:1`.
    pub(super) name: String,
    pub(super) domain: Arc<Domain>,
    pub(super) port: u8,
    pub(super) attributes: Port,
    pub(super) gid: GidEntry,
}

/// Opens the active ports that the value selects, in the order of names and ports, and says why others are not.
///
/// # Errors
/// [`EngineError::Setting`] where the value is no list.
pub(super) fn bind(
    verbs: &Arc<Verbs>,
    names: &[String],
    value: Option<&str>,
) -> Result<(Vec<Rail>, Vec<String>), EngineError> {
    let list = value.map(HcaList::parse).transpose().map_err(|error| EngineError::Setting {
        name: HCA_VARIABLE,
        value: value.unwrap_or_default().to_owned(),
        why: error.to_string(),
    })?;
    let (mut rails, mut unusable) = (Vec::new(), Vec::new());
    let ports = ports(Path::new(SYSFS), names);
    for (name, port) in &ports {
        if list.as_ref().is_none_or(|list| list.matches(name, (*port).into())) && rails.len() < MAX_RAILS {
            match open(verbs, name, *port) {
                Ok(rail) => rails.push(rail),
                Err(error) => unusable.push(error.to_string()),
            }
        }
    }
    if rails.is_empty() && unusable.is_empty() {
        let all: Vec<String> = ports.iter().map(|(name, port)| format!("{name}:{port}")).collect();
        unusable.push(format!("no port of an HCA is left; this host has {}", all.join(", ")));
    }
    Ok((rails, unusable))
}

/// Names and ports, in an order that is the same on hosts with the same HCAs: `mlx5_2` comes before `mlx5_10`.
fn ports(sysfs: &Path, names: &[String]) -> Vec<(String, u8)> {
    let of = |name: &String| {
        let entries = std::fs::read_dir(sysfs.join(name).join("ports")).into_iter().flatten();
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        numbers.map(|port: u8| (name.clone(), port)).collect::<Vec<_>>()
    };
    let mut ports: Vec<(String, u8)> = names.iter().flat_map(of).collect();
    ports.sort_by(|a, b| (a.0.len(), a).cmp(&(b.0.len(), b)));
    ports
}

fn open(verbs: &Arc<Verbs>, name: &str, port: u8) -> Result<Rail, VerbsError> {
    let device = Device::open(verbs, name)?;
    let (attributes, gid) = device.usable_port(port, Family::default())?;
    Ok(Rail { name: format!("{name}:{port}"), domain: Domain::new(&device)?, port, attributes, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_in_the_order_of_their_numbers() {
        let root = tempfile::tempdir().unwrap();
        for port in ["mlx5_10/ports/1", "mlx5_2/ports/2", "mlx5_2/ports/1"] {
            std::fs::create_dir_all(root.path().join(port)).unwrap();
        }
        let names = ["mlx5_10", "mlx5_2", "gone"].map(str::to_owned);
        let found: Vec<String> =
            ports(root.path(), &names).into_iter().map(|(name, port)| format!("{name}:{port}")).collect();
        assert_eq!(found, ["mlx5_2:1", "mlx5_2:2", "mlx5_10:1"]);
    }
}
