//! CPUs: who made them, and who chooses their frequencies.

use std::collections::BTreeSet;

use gdrtune_wire::CpuDetails;

use crate::inventory::{Reader, field};

/// A folder for each CPU.
const FOLDER: &str = "sys/devices/system/cpu";

impl Reader<'_> {
    pub(super) fn cpu_details(&mut self) -> CpuDetails {
        let text = self.value("proc/cpuinfo").unwrap_or_default();
        let told = |name: &str| field(&text, name).map(|rest| rest.trim_start_matches(':').trim().to_owned());
        let policies: Vec<String> =
            self.names(&format!("{FOLDER}/cpufreq")).into_iter().filter(|name| name.starts_with("policy")).collect();
        let governors: BTreeSet<String> = policies
            .iter()
            .filter_map(|policy| self.value(&format!("{FOLDER}/cpufreq/{policy}/scaling_governor")))
            .collect();
        let mut khz = |name: &str| self.number(&format!("{FOLDER}/cpu0/cpufreq/{name}"));
        let (least_khz, most_khz) = (khz("scaling_min_freq"), khz("scaling_max_freq"));
        CpuDetails {
            vendor: told("vendor_id").or_else(|| told("CPU implementer")).unwrap_or_default(),
            sockets: self.sockets(),
            smt: self.number::<u8>(&format!("{FOLDER}/smt/active")).map(|on| on == 1),
            driver: self.value(&format!("{FOLDER}/cpu0/cpufreq/scaling_driver")).unwrap_or_default(),
            governors: governors.into_iter().collect(),
            least_khz,
            most_khz,
            hardware_most_khz: self.number(&format!("{FOLDER}/cpu0/cpufreq/cpuinfo_max_freq")),
        }
    }

    /// Packages of the CPUs that are on: one that is off has no such file.
    fn sockets(&mut self) -> Option<u32> {
        let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok());
        let cpus: Vec<String> = self.names(FOLDER).into_iter().filter(is_cpu).collect();
        let package = |cpu: &String| self.number::<i64>(&format!("{FOLDER}/{cpu}/topology/physical_package_id"));
        let packages: BTreeSet<i64> = cpus.iter().filter_map(package).collect();
        (!packages.is_empty()).then_some(packages.len() as u32)
    }
}
