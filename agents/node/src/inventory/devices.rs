//! Models of CPUs and GPUs, NVIDIA's driver, and the ports of RDMA adapters. What is not there is no fault and leaves no note.

use std::{ffi::OsStr, fs, path::Path};

use gdrtune_wire::HcaPort;

use super::{Reader, field, nvidia_smi::Answer};

impl Reader<'_> {
    /// Model of the first CPU, as all are in a node; some architectures name none.
    pub(super) fn cpu_model(&self) -> String {
        let text = self.try_text("proc/cpuinfo").unwrap_or_default();
        field(&text, "model name").map(|rest| rest.trim_start_matches(':').trim().to_owned()).unwrap_or_default()
    }

    /// Version of the loaded driver.
    pub(super) fn driver(&self) -> String {
        self.try_text("sys/module/nvidia/version").unwrap_or_default()
    }

    /// What `nvidia-smi` says, as it hides what this process may not use; else what the driver says.
    pub(super) fn gpus(&self, answer: Option<&Answer>) -> Vec<String> {
        let told = answer.map(|answer| answer.gpus.as_slice()).unwrap_or_default();
        if !told.is_empty() {
            return told.iter().map(|gpu| gpu.model.clone()).collect();
        }
        let folder = "proc/driver/nvidia/gpus";
        let model = |name: String| {
            let text = self.try_text(&format!("{folder}/{name}/information")).unwrap_or_default();
            field(&text, "Model:").unwrap_or("of an unknown model").to_owned()
        };
        names(&self.path(folder)).into_iter().map(model).collect()
    }

    /// Every port of every adapter.
    pub(super) fn hca_ports(&self) -> Vec<HcaPort> {
        let folder = "sys/class/infiniband";
        let mut found = Vec::new();
        for hca in names(&self.path(folder)) {
            let ports = format!("{folder}/{hca}/ports");
            let mut numbers: Vec<u16> =
                names(&self.path(&ports)).iter().filter_map(|number| number.parse().ok()).collect();
            numbers.sort_unstable();
            for port in numbers {
                let text = |name: &str| self.try_text(&format!("{ports}/{port}/{name}")).unwrap_or_default();
                // `4: ACTIVE` (Linux `drivers/infiniband/core/sysfs.c`, `state_show`).
                let is_active = text("state").starts_with("4:");
                let (link_layer, rate) = (text("link_layer"), text("rate"));
                found.push(HcaPort { hca: hca.clone(), port, link_layer, rate, is_active });
            }
        }
        found
    }
}

/// Names in a folder, sorted; none where there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().as_os_str().to_str().map(str::to_owned)).collect();
    names.sort_unstable_by(|a, b| OsStr::new(a).cmp(OsStr::new(b)));
    names
}
