//! What `nvidia-smi -q -x` prints: NVIDIA's driver and GPUs, as XML with an element a line.
//!
//! Elements come and go with the driver's version (`nvsmi_device_v8.dtd` to `v13`), so that values are kept by their path and the
//! reader asks for the names that it knows. Lists that grow with the machine and say nothing of it, such as clocks that a GPU
//! could have, are left out.

use std::collections::BTreeMap;

use crate::{
    diagnostic::Diagnostic,
    topology::{Lanes, PcieLink},
};

/// Elements whose contents are left out.
const LEFT_OUT: [&str; 4] = ["supported_clocks", "processes", "accounted_processes", "mig_devices"];

/// Elements of a line or more that are nobody else's business: who runs what, and what a GPU is sold by.
const PRIVATE: [&str; 3] = ["processes", "accounted_processes", "serial"];

/// Deepest nesting that is followed; the program prints six.
const MOST_DEPTH: usize = 32;

/// Megatransfers per second of a lane by generation, from 1 (PCI Express Base Specification).
const GENERATIONS: [u32; 7] = [2_500, 5_000, 8_000, 16_000, 32_000, 64_000, 128_000];

/// A driver and its GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SmiLog {
    /// Version of the driver; empty where it is not told.
    pub driver: String,
    /// CUDA version that the driver supports, such as `12.4`; empty where it is not told.
    pub cuda: String,
    /// The GPUs in the order of their numbers.
    pub gpus: Vec<SmiGpu>,
}

/// A GPU's values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SmiGpu {
    values: BTreeMap<String, String>,
}

impl SmiGpu {
    /// The value of an element by its path below `<gpu>`, such as `pci/pci_bus_id`; `None` where there is none, or it does not apply.
    pub fn get(&self, path: &str) -> Option<&str> {
        let value = self.values.get(path)?.as_str();
        (!value.is_empty() && !value.trim_matches(['[', ']']).eq_ignore_ascii_case("N/A")).then_some(value)
    }

    /// The PCI address as the kernel writes it: `0000:19:00.0` of the program's `00000000:19:00.0`.
    pub fn address(&self) -> Option<String> {
        let (domain, rest) = self.get("pci/pci_bus_id")?.split_once(':')?;
        let domain = u32::from_str_radix(domain, 16).ok()?;
        Some(format!("{domain:04x}:{}", rest.to_ascii_lowercase()))
    }

    /// A size in bytes: the program prints MiB.
    pub fn bytes(&self, path: &str) -> Option<u64> {
        self.get(path)?.strip_suffix("MiB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 20)
    }

    /// A frequency in MHz.
    pub fn mhz(&self, path: &str) -> Option<u32> {
        self.get(path)?.strip_suffix("MHz")?.trim().parse().ok()
    }

    /// Whether a mode is on.
    pub fn is_on(&self, path: &str) -> Option<bool> {
        match self.get(path)? {
            "Enabled" => Some(true),
            "Disabled" => Some(false),
            _ => None,
        }
    }

    /// Reasons that hold its clocks down, such as `sw_power_cap`; `None` where they are not told.
    pub fn clock_limits(&self) -> Option<Vec<&str>> {
        /// Since driver 535, and before.
        const PREFIXES: [&str; 2] =
            ["clocks_event_reasons/clocks_event_reason_", "clocks_throttle_reasons/clocks_throttle_reason_"];
        let told = |prefix: &&str| self.values.keys().any(|path| path.starts_with(*prefix));
        let prefix = PREFIXES.into_iter().find(told)?;
        let active = self.values.iter().filter(|(_, value)| *value == "Active");
        Some(active.filter_map(|(path, _)| path.strip_prefix(prefix)).collect())
    }

    /// Its PCIe link. What the slot could do is not in it, where this version tells it apart.
    pub fn link(&self) -> PcieLink {
        let generation = |name: &str| self.get(&format!("pci/pci_gpu_link_info/pcie_gen/{name}"));
        let width = |name: &str| self.get(&format!("pci/pci_gpu_link_info/link_widths/{name}"));
        let lanes = |generation: Option<&str>, width: Option<&str>| {
            let at = generation?.parse::<usize>().ok()?.checked_sub(1)?;
            Some(Lanes { mtps: *GENERATIONS.get(at)?, count: width?.strip_suffix('x')?.parse().ok()? })
        };
        let most = generation("max_device_link_gen").or_else(|| generation("max_link_gen"));
        PcieLink {
            current: lanes(generation("current_link_gen"), width("current_link_width")),
            most: lanes(most, width("max_link_width")),
        }
    }
}

/// Reads the program's output.
///
/// # Errors
/// It is no such output, or ends before its time.
pub fn parse(text: &str, file: &str) -> Result<SmiLog, Diagnostic> {
    let mut reader = Reader::default();
    for (number, line) in text.lines().enumerate() {
        reader.line(line.trim()).map_err(|why| Diagnostic::error(file, number + 1, why))?;
    }
    let last = text.lines().count().max(1);
    match reader {
        Reader { log: Some(log), path, .. } if path.is_empty() => Ok(log),
        Reader { log: Some(_), .. } => Err(Diagnostic::error(file, last, "it ends too early".to_owned())),
        _ => Err(Diagnostic::error(file, 1, "no <nvidia_smi_log>: this is no output of `nvidia-smi -q -x`".to_owned())),
    }
}

#[derive(Default)]
struct Reader<'t> {
    log: Option<SmiLog>,
    /// Names of the open elements.
    path: Vec<&'t str>,
}

impl<'t> Reader<'t> {
    fn line(&mut self, line: &'t str) -> Result<(), String> {
        let Some(tag) = line.strip_prefix('<') else { return Ok(()) };
        if tag.starts_with(['?', '!']) {
            return Ok(());
        }
        if let Some(name) = tag.strip_prefix('/') {
            return self.close(name.trim_end_matches('>'));
        }
        let (head, rest) = tag.split_once('>').ok_or("a tag does not end")?;
        let name = head.trim_end_matches('/').split_whitespace().next().unwrap_or_default();
        let is_empty = head.ends_with('/');
        match rest.rsplit_once("</") {
            Some((value, _)) => self.value(name, value),
            None if is_empty => {}
            None => self.open(name)?,
        }
        Ok(())
    }

    fn open(&mut self, name: &'t str) -> Result<(), String> {
        if self.path.len() == MOST_DEPTH {
            return Err(format!("more than {MOST_DEPTH} elements within each other"));
        }
        match (self.path.as_slice(), &mut self.log) {
            ([], log) if name == "nvidia_smi_log" => *log = Some(SmiLog::default()),
            (["nvidia_smi_log"], Some(log)) if name == "gpu" => log.gpus.push(SmiGpu::default()),
            _ => {}
        }
        self.path.push(name);
        Ok(())
    }

    fn close(&mut self, name: &str) -> Result<(), String> {
        let open = self.path.iter().rposition(|open| *open == name);
        self.path.truncate(open.ok_or_else(|| format!("</{}> closes what is not open", name.escape_debug()))?);
        Ok(())
    }

    fn value(&mut self, name: &str, value: &str) {
        let Some(log) = &mut self.log else { return };
        let value = unescape(value.trim());
        match self.path.as_slice() {
            ["nvidia_smi_log"] if name == "driver_version" => log.driver = value,
            ["nvidia_smi_log"] if name == "cuda_version" => log.cuda = value,
            ["nvidia_smi_log", "gpu", below @ ..] if !below.iter().any(|part| LEFT_OUT.contains(part)) => {
                let path: Vec<&str> = below.iter().copied().chain([name]).collect();
                if let Some(gpu) = log.gpus.last_mut() {
                    gpu.values.insert(path.join("/"), value);
                }
            }
            _ => {}
        }
    }
}

/// The entities of XML that names of models may have.
fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The output without processes and serial numbers; everything that [`parse`] keeps but these is in it.
pub fn without_private(text: &str) -> String {
    let mut inside: Option<&str> = None;
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        let ends = |name: &str| line.contains(&format!("</{name}>"));
        if let Some(name) = inside {
            inside = inside.filter(|_| !ends(name));
        } else if let Some(name) = PRIVATE.into_iter().find(|name| line.trim_start().starts_with(&format!("<{name}>")))
        {
            inside = Some(name).filter(|_| !ends(name));
        } else {
            kept.push_str(line);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As driver 555 prints it, shortened.
    const LOG: &str = r#"<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Mon Jul 15 13:41:56 2024</timestamp>
	<driver_version>555.42.06</driver_version>
	<cuda_version>12.5</cuda_version>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:01:00.0">
		<product_name>NVIDIA A&amp;B</product_name>
		<persistence_mode>Enabled</persistence_mode>
		<mig_mode>
			<current_mig>N/A</current_mig>
		</mig_mode>
		<mig_devices>
			None
		</mig_devices>
		<pci>
			<pci_bus_id>00000000:9A:00.0</pci_bus_id>
			<pci_gpu_link_info>
				<pcie_gen>
					<max_link_gen>4</max_link_gen>
					<current_link_gen>1</current_link_gen>
					<max_device_link_gen>5</max_device_link_gen>
				</pcie_gen>
				<link_widths>
					<max_link_width>16x</max_link_width>
					<current_link_width>8x</current_link_width>
				</link_widths>
			</pci_gpu_link_info>
		</pci>
		<clocks_event_reasons>
			<clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
			<clocks_event_reason_sw_power_cap>Not Active</clocks_event_reason_sw_power_cap>
			<clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>
		</clocks_event_reasons>
		<bar1_memory_usage>
			<total>32768 MiB</total>
		</bar1_memory_usage>
		<max_clocks>
			<sm_clock>2040 MHz</sm_clock>
		</max_clocks>
		<supported_clocks>
			<supported_mem_clock>
				<value>6251 MHz</value>
				<supported_graphics_clock>2040 MHz</supported_graphics_clock>
			</supported_mem_clock>
		</supported_clocks>
		<processes>
		</processes>
	</gpu>
	<gpu id="00000001:02:00.0">
		<pci>
			<pci_bus_id>00000001:02:00.0</pci_bus_id>
		</pci>
		<clocks_throttle_reasons>
			<clocks_throttle_reason_gpu_idle>Not Active</clocks_throttle_reason_gpu_idle>
		</clocks_throttle_reasons>
	</gpu>
</nvidia_smi_log>
"#;

    #[test]
    fn values_are_found_by_their_paths() {
        let log = parse(LOG, "log").unwrap();
        assert_eq!((log.driver.as_str(), log.cuda.as_str(), log.gpus.len()), ("555.42.06", "12.5", 2));
        let gpu = &log.gpus[0];
        assert_eq!((gpu.get("product_name"), gpu.address().as_deref()), (Some("NVIDIA A&B"), Some("0000:9a:00.0")));
        assert_eq!((gpu.is_on("persistence_mode"), gpu.is_on("mig_mode/current_mig")), (Some(true), None));
        assert_eq!(
            (gpu.bytes("bar1_memory_usage/total"), gpu.mhz("max_clocks/sm_clock")),
            (Some(32 << 30), Some(2040))
        );
        assert_eq!(gpu.link().to_string(), "2.5 GT/s x8 of 32 GT/s x16");
        assert_eq!(gpu.clock_limits(), Some(vec!["gpu_idle", "hw_slowdown"]));
        assert!(gpu.values.keys().all(|path| !path.contains("supported")), "{gpu:?}");
        let other = &log.gpus[1];
        assert_eq!((other.address().as_deref(), other.clock_limits()), (Some("0001:02:00.0"), Some(vec![])));
        assert_eq!((other.link().to_string().as_str(), other.bytes("bar1_memory_usage/total")), ("?", None));
        assert_eq!(SmiGpu::default().clock_limits(), None);
    }

    #[test]
    fn what_is_no_log_is_refused_with_its_place() {
        let deep = format!("<nvidia_smi_log>\n{}", "<a>\n".repeat(40));
        for (text, message) in [
            ("", "log:1: no <nvidia_smi_log>"),
            ("NVIDIA-SMI has failed\n", "log:1: no <nvidia_smi_log>"),
            ("<nvidia_smi_log>\n<gpu>\n", "log:2: it ends too early"),
            ("<nvidia_smi_log>\n</gpu>\n", "log:2: </gpu> closes what is not open"),
            ("<nvidia_smi_log\n", "log:1: a tag does not end"),
            (&deep, "log:33: more than 32 elements"),
        ] {
            let error = parse(text, "log").unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(cut in 0..LOG.len(), middle in "(?s)[<>/a-z \n]{0,40}|.{0,20}") {
            let text = format!("{}{middle}{}", LOG.get(..cut).unwrap_or(LOG), LOG.get(cut..).unwrap_or_default());
            proptest::prop_assert!(parse(&text, "log").is_ok_and(|log| log.gpus.len() <= 4) || parse(&text, "log").is_err());
        }
    }
}
