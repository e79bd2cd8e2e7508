//! What is known of a node as a whole, from files.

mod container;
mod cpu;
mod kernel;
mod ld_cache;
mod libraries;
mod memory;
mod tools;

use std::{collections::BTreeSet, ffi::OsStr, path::Path};

use gdrtune_profiles::grammar::smi_log::SmiLog;
use gdrtune_wire::{Iommu, Module, System, Topology};

use super::Reader;

/// What no file says of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LiveSystem {
    /// Variables of this process.
    pub(super) variables: Vec<(String, String)>,
    /// Bytes of `/dev/shm`, and those that are free.
    pub(super) shm: Option<(u64, u64)>,
}

impl LiveSystem {
    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Bytes of a file system, and those that are free for users.
pub(super) fn file_system(path: &Path) -> Option<(u64, u64)> {
    let told = rustix::fs::statvfs(path).ok()?;
    Some((told.f_blocks.checked_mul(told.f_frsize)?, told.f_bavail.checked_mul(told.f_frsize)?))
}

/// What a record keeps of a file that has more in it than is looked for; of others, all.
pub(super) fn kept(path: &str, bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let of_text = kernel::kept(path, &text).or_else(|| memory::kept(path, &text)).map(String::into_bytes);
    of_text.or_else(|| libraries::kept(path, bytes)).unwrap_or_else(|| bytes.to_vec())
}

impl Reader<'_> {
    /// Everything but details of devices. `memory_bytes` is what the machine has.
    pub(super) fn system(
        &mut self,
        topology: &Topology,
        live: &LiveSystem,
        log: Option<&SmiLog>,
        memory_bytes: u64,
    ) -> System {
        let kernel = self.try_text("proc/sys/kernel/osrelease").unwrap_or_default();
        let modules = self.modules(&kernel);
        let container = self.container(live, memory_bytes);
        System {
            nvidia_module: self.nvidia_module(),
            cuda: log.map(|log| log.cuda.clone()).unwrap_or_default(),
            fabric: self.fabric(&container),
            ofed: self.ofed(),
            kernel_parameters: self.kernel_parameters(),
            iommu: self.iommu(topology),
            memlock: self.memlock(),
            memory: self.memory(live, memory_bytes),
            cpu: self.cpu_details(),
            libraries: self.libraries(live),
            library_path: live.variable("LD_LIBRARY_PATH").unwrap_or_default().to_owned(),
            tools: tools::tools(live.variable("PATH").map(OsStr::new)),
            storage: self.storage(live, &modules),
            modules,
            container,
        }
    }

    /// Groups (Linux `Documentation/ABI/testing/sysfs-kernel-iommu_groups`), and how those of our devices translate.
    fn iommu(&mut self, topology: &Topology) -> Iommu {
        const FOLDER: &str = "sys/kernel/iommu_groups";
        let groups = self.path(FOLDER).is_dir().then(|| self.names(FOLDER).len() as u32);
        let places = topology.gpus.iter().map(|gpu| &gpu.place).chain(topology.hcas.iter().map(|hca| &hca.place));
        let addresses: Vec<&str> =
            places.map(|place| place.address.as_str()).filter(|address| !address.is_empty()).collect();
        let mut types = BTreeSet::new();
        for address in addresses {
            let group = self.linked_name(&format!("sys/bus/pci/devices/{address}/iommu_group"));
            if !group.is_empty() {
                types.extend(self.value(&format!("{FOLDER}/{group}/type")));
            }
        }
        Iommu { groups, types: types.into_iter().collect() }
    }
}

/// A loaded module's version.
fn version<'m>(modules: &'m [Module], name: &str) -> Option<&'m str> {
    modules.iter().find(|module| module.loaded && module.name == name).map(|module| module.version.as_str())
}

#[cfg(test)]
mod tests;
