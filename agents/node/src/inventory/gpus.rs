//! GPUs and NVIDIA's driver. A machine without any is none the worse, so that leaves no note.

use gdrtune_profiles::grammar::smi_log::SmiLog;
use gdrtune_wire::Gpu;

use super::{
    Reader, field,
    nvidia_smi::Answer,
    pcie::{Seat, is_address},
};

/// What the driver says, a folder for each GPU by its PCI address.
const DRIVER_FOLDER: &str = "proc/driver/nvidia/gpus";

/// Every PCI device, by its address.
const PCI_FOLDER: &str = "sys/bus/pci/devices";

/// NVIDIA and AMD (`pci.ids`): others' GPUs run no collectives.
const VENDORS: [&str; 2] = ["0x10de", "0x1002"];

/// Display controllers and processing accelerators (PCI Code and ID Assignment Specification, base classes 03h and 12h).
const CLASSES: [&str; 2] = ["0x03", "0x12"];

impl Reader<'_> {
    /// Version of the loaded driver; `nvidia-smi`'s word where a container hides the module.
    pub(super) fn driver(&self, log: Option<&SmiLog>) -> String {
        let told = || log.map(|log| log.driver.clone()).unwrap_or_default();
        self.try_text("sys/module/nvidia/version").unwrap_or_else(|_| told())
    }

    /// Models of the GPUs: what `nvidia-smi` says, as it hides what this process may not use; else what the driver says.
    pub(super) fn gpu_models(&self, answer: Option<&Answer>) -> Vec<String> {
        let told = answer.map(|answer| answer.gpus.as_slice()).unwrap_or_default();
        if !told.is_empty() {
            return told.iter().map(|gpu| gpu.model.clone()).collect();
        }
        self.names(DRIVER_FOLDER).iter().map(|name| self.driver_says(name).0).collect()
    }

    /// The GPUs by PCI address, with their seats: those of the driver, less what `nvidia-smi` hides; where there is no
    /// driver, those on PCI.
    pub(super) fn gpus(&mut self, answer: Option<&Answer>) -> Vec<(Gpu, Seat)> {
        let told: Vec<(String, String, String)> = self
            .names(DRIVER_FOLDER)
            .into_iter()
            .map(|address| {
                let (model, uuid) = self.driver_says(&address);
                (address, model, uuid)
            })
            .collect();
        let rows = answer.map(|answer| answer.gpus.as_slice()).unwrap_or_default();
        // A driver that was never asked knows no UUIDs yet.
        let is_known = rows.iter().all(|row| told.iter().any(|(.., uuid)| *uuid == row.uuid));
        let is_shown = |uuid: &str| rows.is_empty() || !is_known || rows.iter().any(|row| row.uuid == *uuid);
        let mut gpus: Vec<(String, String)> =
            told.into_iter().filter(|(.., uuid)| is_shown(uuid)).map(|(address, model, _)| (address, model)).collect();
        if gpus.is_empty() && rows.is_empty() {
            gpus = self.on_pci();
        }
        let seated = |(address, model): (String, String), reader: &mut Self| {
            let seat = reader.seat(&format!("{PCI_FOLDER}/{}", address.to_ascii_lowercase()));
            (Gpu { model, place: seat.place.clone() }, seat)
        };
        gpus.into_iter().map(|gpu| seated(gpu, self)).collect()
    }

    /// Model and UUID.
    pub(super) fn driver_says(&self, address: &str) -> (String, String) {
        let text = self.try_text(&format!("{DRIVER_FOLDER}/{address}/information")).unwrap_or_default();
        let uuid = field(&text, "GPU UUID:").unwrap_or_default().to_owned();
        (field(&text, "Model:").unwrap_or("of an unknown model").to_owned(), uuid)
    }

    /// Addresses and PCI's numbers of what may be a GPU for computing.
    fn on_pci(&self) -> Vec<(String, String)> {
        let numbers = |address: &String| {
            let text = |name: &str| self.try_text(&format!("{PCI_FOLDER}/{address}/{name}")).unwrap_or_default();
            let (class, vendor) = (text("class"), text("vendor"));
            let is_gpu = CLASSES.iter().any(|base| class.starts_with(base)) && VENDORS.contains(&vendor.as_str());
            let number = |text: &str| text.trim_start_matches("0x").to_owned();
            is_gpu.then(|| format!("{}:{}", number(&vendor), number(&text("device"))))
        };
        let addresses = self.names(PCI_FOLDER).into_iter().filter(|name| is_address(name));
        addresses.filter_map(|address| numbers(&address).map(|numbers| (address, numbers))).collect()
    }
}
