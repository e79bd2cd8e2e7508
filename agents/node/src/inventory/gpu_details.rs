//! Details of GPUs: what `nvidia-smi` says, and what files tell where it says nothing.

use gdrtune_profiles::grammar::smi_log::{SmiGpu, SmiLog};
use gdrtune_wire::{ClockLimits, DmaBuf, Gpu, GpuClocks, GpuDetails, NvidiaModule};

use super::{
    Reader,
    nvidia_smi::{self, Answer},
};

/// Architectures of which all GPUs have one compute capability (CUDA programming guide, table of compute capabilities), for drivers that do
/// not tell it.
const CAPABILITIES: [(&str, (u8, u8)); 3] = [("Turing", (7, 5)), ("Ada Lovelace", (8, 9)), ("Hopper", (9, 0))];

/// The first of the `resource` file's lines that is BAR1 of an NVIDIA GPU: BAR0 has the registers, and has 32 bits.
const BAR1_LINE: usize = 1;

/// What exporting memory as a dma-buf needs (NVIDIA GPU Operator documentation, "`GPUDirect` RDMA and `GPUDirect` Storage").
mod dmabuf_needs {
    /// Driver.
    pub(super) const DRIVER: u32 = 515;
    /// Linux, major and minor.
    pub(super) const KERNEL: (u32, u32) = (5, 12);
    /// Compute capability: Turing.
    pub(super) const CAPABILITY: (u8, u8) = (7, 5);
}

impl Reader<'_> {
    /// Details by the GPUs' numbers: of those that `nvidia-smi` names, else of those that were `placed`.
    pub(super) fn gpu_details(
        &mut self,
        placed: &[Gpu],
        answer: Option<&Answer>,
        log: Option<&SmiLog>,
    ) -> Vec<GpuDetails> {
        let rows = answer.map(|answer| answer.gpus.as_slice()).unwrap_or_default();
        let logged = log.map(|log| log.gpus.as_slice()).unwrap_or_default();
        if !rows.is_empty() {
            let by_uuid = |uuid: &str| logged.iter().find(|gpu| gpu.get("uuid") == Some(uuid));
            return rows.iter().map(|row| self.told(row, by_uuid(&row.uuid), placed)).collect();
        }
        let by_address = |gpu: &Gpu| logged.iter().find(|told| told.address().as_deref() == Some(&gpu.place.address));
        placed.iter().map(|gpu| self.placed(gpu, by_address(gpu))).collect()
    }

    /// One that `nvidia-smi` names.
    fn told(&mut self, row: &nvidia_smi::Gpu, log: Option<&SmiGpu>, placed: &[Gpu]) -> GpuDetails {
        let mut details = log.map(logged).unwrap_or_default();
        details.uuid.clone_from(&row.uuid);
        details.model.clone_from(&row.model);
        details.compute_capability = row.capability.or(details.compute_capability);
        if details.address.is_empty() {
            let is_it = |gpu: &&Gpu| self.driver_says(&gpu.place.address).1 == row.uuid;
            details.address = placed.iter().find(is_it).map(|gpu| gpu.place.address.clone()).unwrap_or_default();
        }
        self.with_bar1(details)
    }

    /// One that only files, and perhaps a recorded log, tell of.
    fn placed(&mut self, gpu: &Gpu, log: Option<&SmiGpu>) -> GpuDetails {
        let mut details = log.map(logged).unwrap_or_default();
        details.address.clone_from(&gpu.place.address);
        details.model.clone_from(&gpu.model);
        if details.uuid.is_empty() {
            details.uuid = self.driver_says(&gpu.place.address).1;
        }
        self.with_bar1(details)
    }

    fn with_bar1(&self, mut details: GpuDetails) -> GpuDetails {
        details.bar1_bytes = details.bar1_bytes.or_else(|| self.bar1(&details.address));
        details
    }

    /// Size of BAR1: each line of `resource` has a region's first and last address and its flags.
    fn bar1(&self, address: &str) -> Option<u64> {
        if address.is_empty() {
            return None;
        }
        let text = self.try_text(&format!("sys/bus/pci/devices/{address}/resource")).ok()?;
        let mut ends = text.lines().nth(BAR1_LINE)?.split_whitespace();
        let mut end = || u64::from_str_radix(ends.next()?.trim_start_matches("0x"), 16).ok();
        let (first, last) = (end()?, end()?);
        last.checked_sub(first)?.checked_add(1).filter(|size| *size > 1)
    }
}

/// What the log says of a GPU.
fn logged(gpu: &SmiGpu) -> GpuDetails {
    let text = |path: &str| gpu.get(path).unwrap_or_default().to_owned();
    let architecture = text("product_architecture");
    let known = CAPABILITIES.iter().find(|(name, _)| *name == architecture).map(|(_, capability)| *capability);
    GpuDetails {
        address: gpu.address().unwrap_or_default(),
        uuid: text("uuid"),
        model: text("product_name"),
        link: gpu.link(),
        memory_bytes: gpu.bytes("fb_memory_usage/total"),
        bar1_bytes: gpu.bytes("bar1_memory_usage/total"),
        compute_capability: known,
        persistence: gpu.is_on("persistence_mode"),
        ecc: gpu.is_on("ecc_mode/current_ecc"),
        mig: gpu.is_on("mig_mode/current_mig"),
        compute_mode: text("compute_mode"),
        clocks: GpuClocks {
            sm: gpu.mhz("clocks/sm_clock"),
            memory: gpu.mhz("clocks/mem_clock"),
            sm_most: gpu.mhz("max_clocks/sm_clock"),
            memory_most: gpu.mhz("max_clocks/mem_clock"),
        },
        clock_limits: gpu.clock_limits().map(|names| names.into_iter().fold(ClockLimits::default(), with_limit)),
        driver_model: text("driver_model/current_dm"),
        fabric_state: text("fabric/state"),
        architecture,
        dmabuf: DmaBuf::default(),
    }
}

fn with_limit(limits: ClockLimits, name: &str) -> ClockLimits {
    // Older drivers have it in the singular.
    let name = if name == "display_clock_setting" { "display_clocks_setting" } else { name };
    let bit = ClockLimits::NAMES.iter().find(|(_, known)| *known == name).map_or(0, |(bit, _)| *bit);
    ClockLimits(limits.0 | bit)
}

/// Whether memory can be exported as a dma-buf. Only CUDA knows (`CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED`), and an agent does not load it.
pub(super) fn dmabuf(gpu: &GpuDetails, module: Option<&NvidiaModule>, kernel: &str) -> DmaBuf {
    let no = |why: String| DmaBuf { possible: Some(false), why };
    let unknown = |why: &str| DmaBuf { possible: None, why: why.to_owned() };
    let Some(module) = module else { return unknown("what NVIDIA's kernel module is cannot be read") };
    if !module.open {
        return no("the kernel module is the proprietary one, and only the open one exports memory".to_owned());
    }
    let numbers = |text: &str| {
        let mut parts = text.split(['.', '-']).map(|part| part.parse::<u32>().ok());
        Some((parts.next()??, parts.next().flatten().unwrap_or_default()))
    };
    let (least_major, least_minor) = dmabuf_needs::KERNEL;
    match (numbers(&module.version), numbers(kernel)) {
        (Some((driver, _)), _) if driver < dmabuf_needs::DRIVER => {
            no(format!("driver {} is older than {}", module.version, dmabuf_needs::DRIVER))
        }
        (_, Some(linux)) if linux < dmabuf_needs::KERNEL => {
            no(format!("Linux {kernel} is older than {least_major}.{least_minor}"))
        }
        (Some(_), Some(_)) => match gpu.compute_capability {
            Some(capability) if capability < dmabuf_needs::CAPABILITY => {
                no(format!("compute capability {}.{} is below 7.5", capability.0, capability.1))
            }
            Some(_) => {
                DmaBuf { possible: Some(true), why: format!("open kernel module {} on Linux {kernel}", module.version) }
            }
            None => unknown("the GPU's compute capability is not known"),
        },
        _ => unknown("versions of driver and kernel cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dmabuf_is_judged_by_what_nvidia_documents() {
        let module = |version: &str, open| Some(NvidiaModule { version: version.to_owned(), open });
        let new = "6.8.0-45-generic";
        for (capability, module, kernel, possible, why) in [
            (
                Some((9, 0)),
                module("550.54.15", true),
                new,
                Some(true),
                "open kernel module 550.54.15 on Linux 6.8.0-45-generic",
            ),
            (Some((9, 0)), module("550.54.15", false), new, Some(false), "proprietary"),
            (Some((9, 0)), module("510.47", true), new, Some(false), "driver 510.47 is older than 515"),
            (Some((9, 0)), module("550.54.15", true), "5.4.0-1", Some(false), "Linux 5.4.0-1 is older than 5.12"),
            (Some((9, 0)), module("550.54.15", true), "5.12.0", Some(true), "open"),
            (Some((7, 0)), module("550.54.15", true), new, Some(false), "compute capability 7.0"),
            (None, module("550.54.15", true), new, None, "compute capability"),
            (Some((9, 0)), module("TempVersion", true), new, None, "versions"),
            (Some((9, 0)), None, new, None, "cannot be read"),
        ] {
            let gpu = GpuDetails { compute_capability: capability, ..GpuDetails::default() };
            let told = dmabuf(&gpu, module.as_ref(), kernel);
            assert_eq!(told.possible, possible, "{told:?}");
            assert!(told.why.contains(why), "{told:?}");
        }
    }
}
