//! What is known of a GPU beyond its place. Words and numbers are those of `nvidia-smi`.

use std::fmt;

use gdrtune_profiles::topology::PcieLink;
use serde::{Deserialize, Serialize};

/// Details of a GPU. An empty text or an absent value is what nobody told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDetails {
    /// PCI address, such as `0000:19:00.0`.
    pub address: String,
    /// Such as `GPU-8f1c2b6e-...`.
    pub uuid: String,
    /// Its model.
    pub model: String,
    /// Its architecture, such as `Hopper`.
    pub architecture: String,
    /// Its PCIe link as the driver tells; [`super::Place::link`] is what the kernel tells.
    pub link: PcieLink,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Size of the BAR1 aperture in bytes: what other devices can reach of the memory at a time.
    pub bar1_bytes: Option<u64>,
    /// CUDA compute capability, major and minor.
    pub compute_capability: Option<(u8, u8)>,
    /// Whether persistence mode is on.
    pub persistence: Option<bool>,
    /// Whether ECC is on; absent, too, for memory without it.
    pub ecc: Option<bool>,
    /// Whether MIG is on; absent, too, for GPUs without it.
    pub mig: Option<bool>,
    /// `Default`, `Exclusive_Process`, `Prohibited`.
    pub compute_mode: String,
    /// Its clocks.
    pub clocks: GpuClocks,
    /// What holds the clocks down now.
    pub clock_limits: Option<ClockLimits>,
    /// Windows' driver model, which a GPU in WSL has; empty on Linux.
    pub driver_model: String,
    /// State of its registration with the fabric manager, such as `Completed`; empty where it has no NVSwitches.
    pub fabric_state: String,
    /// Whether its memory can be exported as a dma-buf, as far as one can tell without CUDA.
    pub dmabuf: DmaBuf,
}

/// Clocks in MHz.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuClocks {
    /// Of the multiprocessors now; low on an idle GPU.
    pub sm: Option<u32>,
    /// Of the memory now.
    pub memory: Option<u32>,
    /// Of the multiprocessors at most.
    pub sm_most: Option<u32>,
    /// Of the memory at most.
    pub memory_most: Option<u32>,
}

/// Whether a GPU's memory can be exported as a dma-buf, which takes the place of the peer memory module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaBuf {
    /// `None` where what is known does not decide it.
    pub possible: Option<bool>,
    /// Why it is thought so, in a sentence without a period.
    pub why: String,
}

/// What holds a GPU's clocks down: NVML's bits (`nvml.h`, `nvmlClocksEventReason*`, before driver 535 `nvmlClocksThrottleReason*`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockLimits(pub u64);

impl ClockLimits {
    /// NVML's bits, and `nvidia-smi`'s words.
    pub const NAMES: [(u64, &'static str); 9] = [
        (0x1, "gpu_idle"),
        (0x2, "applications_clocks_setting"),
        (0x4, "sw_power_cap"),
        (0x8, "hw_slowdown"),
        (0x10, "sync_boost"),
        (0x20, "sw_thermal_slowdown"),
        (0x40, "hw_thermal_slowdown"),
        (0x80, "hw_power_brake_slowdown"),
        (0x100, "display_clocks_setting"),
    ];

    /// Those that mean a fault of power or cooling: the three of the hardware and the driver's thermal one.
    pub const FAULTS: u64 = 0x8 | 0x20 | 0x40 | 0x80;

    /// Names of those that are active.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| name)
    }

    /// Those that mean a fault.
    #[must_use]
    pub fn faults(self) -> Self {
        Self(self.0 & Self::FAULTS)
    }
}

impl fmt::Display for ClockLimits {
    /// `sw_power_cap hw_slowdown`; `none` where nothing holds them down.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        f.pad(&if names.is_empty() { "none".to_owned() } else { names.join(" ") })
    }
}
