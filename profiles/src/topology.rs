//! The devices of one machine and how far they are from each other, whoever told: an agent, `nvidia-smi topo -m`, or an
//! NCCL topology file. It judges nothing.

use std::{cmp::Ordering, fmt, iter::Peekable, net::IpAddr, str::Chars};

use serde::{Deserialize, Serialize};

use crate::vocab::PcieDistance;

/// GPUs and HCAs of a machine. What the source does not tell is empty or absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// NUMA nodes that have CPUs.
    pub numa_nodes: Option<u32>,
    /// GPUs by their numbers.
    pub gpus: Vec<Gpu>,
    /// HCAs by name, `mlx5_2` before `mlx5_10`.
    pub hcas: Vec<Hca>,
    /// From each GPU to each HCA, in their orders.
    pub to_hcas: Vec<Vec<Option<PcieDistance>>>,
    /// From each GPU to each GPU; a GPU has no way to itself. Empty where nobody told of NVLinks.
    pub gpu_paths: Vec<Vec<Option<GpuPath>>>,
    /// Network interfaces that are up and have an address, in kernel order; empty where the source does not tell of them.
    pub interfaces: Vec<Interface>,
    /// What one has to know of the source to read the matrix right.
    pub notes: Vec<String>,
}

/// A GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Its model.
    pub model: String,
    /// PCI address.
    pub address: String,
    /// NUMA node.
    pub numa: Option<u32>,
    /// Its PCIe link.
    pub link: PcieLink,
}

/// An HCA.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hca {
    /// Its name, such as `mlx5_0`; its PCI address where the source has no names.
    pub name: String,
    /// PCI address.
    pub address: String,
    /// NUMA node.
    pub numa: Option<u32>,
    /// Its PCIe link.
    pub link: PcieLink,
    /// Its ports by number.
    pub ports: Vec<Port>,
    /// Names of its network devices.
    pub nets: Vec<String>,
}

/// A port of an HCA.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Port {
    /// From 1.
    pub number: u16,
    /// In the kernel's words, such as `ACTIVE` or `DOWN Polling`.
    pub state: String,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// Such as `400 Gb/s`.
    pub rate: String,
}

/// A network interface that is up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Kernel name.
    pub name: String,
    /// Whether it is the loopback.
    pub is_loopback: bool,
    /// Its addresses.
    pub addresses: Vec<Address>,
}

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Bits of it that name the network, where the source tells.
    pub prefix: Option<u8>,
}

impl Address {
    /// The network that it is in, as its first address and its bits; `None` where that is not known.
    pub fn network(&self) -> Option<(IpAddr, u8)> {
        let prefix = self.prefix?;
        let host_bits = |bits: u8| bits.checked_sub(prefix).map(u32::from);
        let first = match self.ip {
            // A shift by the whole width leaves no bit that names the network.
            IpAddr::V4(ip) => {
                IpAddr::V4((u32::MAX.checked_shl(host_bits(32)?).unwrap_or_default() & u32::from(ip)).into())
            }
            IpAddr::V6(ip) => {
                IpAddr::V6((u128::MAX.checked_shl(host_bits(128)?).unwrap_or_default() & u128::from(ip)).into())
            }
        };
        Some((first, prefix))
    }
}

impl Port {
    /// Whether it is known to be down.
    pub fn is_down(&self) -> bool {
        !self.state.is_empty() && !self.state.starts_with("ACTIVE")
    }
}

impl Hca {
    /// Whether all its ports are known to be down.
    pub fn is_down(&self) -> bool {
        !self.ports.is_empty() && self.ports.iter().all(Port::is_down)
    }
}

/// The way between two GPUs of a node, as `nvidia-smi topo -m` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GpuPath {
    /// So many bonded NVLinks, straight or through switches.
    NvLinks(u32),
    /// PCI only.
    Pcie(PcieDistance),
}

impl fmt::Display for GpuPath {
    /// `NV18`, `SYS`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NvLinks(count) => f.pad(&format!("NV{count}")),
            Self::Pcie(distance) => f.pad(distance.nccl_name()),
        }
    }
}

/// A PCIe link as it is now, and as the device could have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieLink {
    /// Now. An idle GPU slows its link down.
    pub current: Option<Lanes>,
    /// At most; what the slot could do is not in it.
    pub most: Option<Lanes>,
}

impl PcieLink {
    /// Whether it has fewer lanes than the device has.
    pub fn is_narrow(&self) -> bool {
        self.current.zip(self.most).is_some_and(|(current, most)| current.count < most.count)
    }

    /// Whether its lanes are slower than the device's.
    pub fn is_slow(&self) -> bool {
        self.current.zip(self.most).is_some_and(|(current, most)| current.mtps < most.mtps)
    }
}

impl fmt::Display for PcieLink {
    /// `32 GT/s x16`, `16 GT/s x8 of 32 GT/s x16`; `?` where it is not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match (self.current, self.most) {
            (Some(current), Some(most)) if current != most => format!("{current} of {most}"),
            (Some(lanes), _) => lanes.to_string(),
            (None, Some(most)) => format!("? of {most}"),
            (None, None) => "?".to_owned(),
        };
        f.pad(&text)
    }
}

/// Lanes of a PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    /// Rate of each in megatransfers per second: 32,000 of generation 5.
    pub mtps: u32,
    /// How many.
    pub count: u8,
}

impl Lanes {
    /// Reads the kernel's two texts, such as `32.0 GT/s PCIe` (in older kernels `8 GT/s`) and `16`. `None` where it does not
    /// know: it says `Unknown`, and 0, 63 or 255 lanes (Linux `drivers/pci/pci.c`, `pcie_get_speed_cap`; a width field of
    /// ones is a device that does not answer).
    pub fn read(speed: &str, width: &str) -> Option<Self> {
        /// The widest link of the PCI Express Base Specification.
        const MOST_LANES: u8 = 32;
        let number = speed.split_whitespace().next()?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let tenths: u32 = fraction.get(..1)?.parse().ok()?;
        let mtps = whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(tenths * 100)?;
        let count: u8 = width.trim().parse().ok()?;
        (mtps > 0 && (1..=MOST_LANES).contains(&count)).then_some(Self { mtps, count })
    }
}

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, tenths) = (self.mtps / 1000, self.mtps % 1000 / 100);
        if tenths == 0 {
            write!(f, "{whole} GT/s x{}", self.count)
        } else {
            write!(f, "{whole}.{tenths} GT/s x{}", self.count)
        }
    }
}

/// The order of names that people mean: numbers in them count as numbers.
pub fn by_number(a: &str, b: &str) -> Ordering {
    let (mut rest_a, mut rest_b) = (a.chars().peekable(), b.chars().peekable());
    loop {
        let order = match (rest_a.peek(), rest_b.peek()) {
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (x, y) = (digits(&mut rest_a), digits(&mut rest_b));
                x.len().cmp(&y.len()).then(x.cmp(&y))
            }
            (None, None) => return a.cmp(b),
            _ => rest_a.next().cmp(&rest_b.next()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// The digits at the front, without leading zeros.
fn digits(text: &mut Peekable<Chars<'_>>) -> String {
    let mut found = String::new();
    while let Some(digit) = text.next_if(char::is_ascii_digit) {
        found.push(digit);
    }
    found.trim_start_matches('0').to_owned()
}

/// `400 Gb/s` of 400,000 Mbit/s.
pub(crate) fn rate(mbps: u32) -> String {
    if mbps < 1000 { format!("{mbps} Mb/s") } else { format!("{} Gb/s", f64::from(mbps) / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_as_kernels_write_them() {
        for (speed, width, shown) in [
            ("32.0 GT/s PCIe", "16", "32 GT/s x16"),
            ("8 GT/s", "8\n", "8 GT/s x8"),
            ("2.5 GT/s PCIe", "1", "2.5 GT/s x1"),
            ("64.0 GT/s PCIe", "4", "64 GT/s x4"),
            ("Unknown", "16", "?"),
            ("Unknown speed", "0", "?"),
            ("32.0 GT/s PCIe", "63", "?"),
            ("32.0 GT/s PCIe", "255", "?"),
            ("", "", "?"),
            ("5.", "1", "?"),
            ("99999999 GT/s", "1", "?"),
        ] {
            let link = PcieLink { current: Lanes::read(speed, width), most: None };
            assert_eq!(link.to_string(), shown, "{speed} {width}");
        }
        let lanes = |mtps, count| Some(Lanes { mtps, count });
        let link = PcieLink { current: lanes(16_000, 8), most: lanes(32_000, 16) };
        assert_eq!(
            (link.to_string().as_str(), link.is_narrow(), link.is_slow()),
            ("16 GT/s x8 of 32 GT/s x16", true, true)
        );
        let idle = PcieLink { current: lanes(2_500, 16), most: lanes(32_000, 16) };
        assert_eq!((idle.is_narrow(), idle.is_slow()), (false, true));
        assert_eq!(PcieLink { current: None, most: lanes(8_000, 4) }.to_string(), "? of 8 GT/s x4");
        assert_eq!((rate(400_000), rate(2_500), rate(100)), ("400 Gb/s".into(), "2.5 Gb/s".into(), "100 Mb/s".into()));
    }

    #[test]
    fn addresses_know_their_network_where_the_prefix_is_known() {
        let network = |ip: &str, prefix| {
            let address = Address { ip: ip.parse().unwrap(), prefix };
            address.network().map(|(first, bits)| format!("{first}/{bits}"))
        };
        for (ip, prefix, expected) in [
            ("10.1.2.3", Some(24), Some("10.1.2.0/24")),
            ("10.1.2.3", Some(32), Some("10.1.2.3/32")),
            ("10.1.2.3", Some(0), Some("0.0.0.0/0")),
            ("10.1.2.3", Some(33), None),
            ("10.1.2.3", None, None),
            ("fd00:0:0:1::2", Some(64), Some("fd00:0:0:1::/64")),
            ("fd00::2", Some(0), Some("::/0")),
        ] {
            assert_eq!(network(ip, prefix).as_deref(), expected, "{ip} {prefix:?}");
        }
    }

    #[test]
    fn names_are_in_the_order_that_people_mean() {
        let mut names = ["mlx5_10", "mlx5_2", "mlx5_bond_0", "mlx5_0", "rdmap9s0", "rdmap80s0", "mlx5_02", "ib"];
        names.sort_by(|a, b| by_number(a, b));
        assert_eq!(names, ["ib", "mlx5_0", "mlx5_02", "mlx5_2", "mlx5_10", "mlx5_bond_0", "rdmap9s0", "rdmap80s0"]);
    }

    proptest::proptest! {
        #[test]
        fn the_order_is_one(a in "[a-b0-2_]{0,6}", b in "[a-b0-2_]{0,6}", c in "[a-b0-2_]{0,6}") {
            let mut names = [a, b, c];
            names.sort_by(|a, b| by_number(a, b));
            let [a, b, c] = &names;
            proptest::prop_assert!(by_number(a, c).is_le() && by_number(a, b).is_le() && by_number(b, c).is_le());
            proptest::prop_assert_eq!(by_number(a, b), by_number(b, a).reverse());
        }

        #[test]
        fn any_link_is_taken(speed in "\\PC{0,20}|[0-9.]{0,12} GT/s", width in "\\PC{0,8}|[0-9]{0,4}") {
            let lanes = Lanes::read(&speed, &width);
            proptest::prop_assert!(lanes.is_none_or(|lanes| lanes.count > 0));
        }
    }
}
