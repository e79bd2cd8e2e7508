//! What cases change of a node.

use gdrtune_wire::*;

pub(super) fn set(node: &mut Inventory, name: &str, value: &str) {
    node.site_env = std::mem::take(&mut node.site_env).with(name, value);
}

pub(super) fn without_gpus(node: &mut Inventory) {
    node.gpus.clear();
    node.gpu_details.clear();
    node.driver.clear();
    node.topology.gpus.clear();
    node.topology.distances.clear();
    node.topology.gpu_paths.clear();
}

pub(super) fn without_hcas(node: &mut Inventory) {
    node.hca_ports.clear();
    node.hca_details.clear();
    node.port_details.clear();
    node.topology.hcas.clear();
    node.topology.distances.iter_mut().for_each(Vec::clear);
}

pub(super) fn library(node: &mut Inventory, kind: LibraryKind) -> &mut Library {
    node.system.libraries.iter_mut().find(|library| library.kind == kind).unwrap()
}

pub(super) fn used_gpu(node: &mut Inventory) {
    let devices = vec![UsedDevice::Gpu(1), UsedDevice::Hca("mlx5_0".into())];
    node.device_users.push(DeviceUser { pid: 4711, user: "ann".into(), command: "python3".into(), devices });
}
