//! NCCL's topology files: what it writes for `NCCL_TOPO_DUMP_FILE`, and what sites give it by `NCCL_TOPO_FILE`.
//!
//! Source: NCCL `src/graph/xml.cc` (`ncclTopoGetXmlFromSys`, which leaves a switch's downstream ports out) and
//! `src/graph/topo.cc` (`ncclTopoAddPci`, `ncclTopoAddNvLinks`). A dump has `<gpu>` and `<net>` below their PCI functions; a
//! file of a site may have nothing but PCI functions with their classes, as Azure's `ndv5-topo.xml` does.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::xml::{self, Element};
use crate::{
    diagnostic::Diagnostic,
    topology::{Gpu, GpuPath, Hca, Lanes, Machine, PcieLink, Port, by_number, rate},
    vocab::PcieDistance,
};

/// PCI base classes of GPUs: display controllers and processing accelerators.
const GPU_CLASSES: [&str; 2] = ["0x03", "0x12"];
/// PCI base class of network controllers.
const NET_CLASS: &str = "0x02";
/// PCI class of GPUs at the far end of an NVLink (NCCL `src/graph/topo.cc`, `ncclTopoAddNvLinks`): what is none leads to
/// NVSwitches.
const GPU_TARGET: &str = "0x03";

/// NCCL has no NODE: what shares a CPU but no switch is PHB.
const PHB_NOTE: &str =
    "NCCL's topology files do not tell PHB from NODE: devices of one NUMA node that share no switch are shown as PHB";

/// A file without NVLinks may be of a machine that has some: clouds' files leave them to NCCL.
const NVLINK_NOTE: &str = "NVLinks are not known: the file names none";

/// Reads a file. The second part is what is odd in it.
///
/// # Errors
/// The line at which it shows that the file is none, with the next step.
pub fn parse(text: &str, file: &str) -> Result<(Machine, Vec<Diagnostic>), Diagnostic> {
    let (elements, odd) = xml::parse(text, file)?;
    let root = elements.first().ok_or_else(|| Diagnostic::error(file, 1, "no element"))?;
    match root.name {
        "system" => {}
        "graphs" => {
            let why = "these are NCCL's graphs, not its topology: have it written for NCCL_TOPO_DUMP_FILE";
            return Err(Diagnostic::error(file, root.line, why));
        }
        name => {
            let why =
                format!("the first element is <{}>: NCCL's topology files begin with <system>", name.escape_debug());
            return Err(Diagnostic::error(file, root.line, why));
        }
    }
    let mut tree = Tree { elements: &elements, file, odd };
    let (gpus, nets) = (tree.gpus(), tree.nets());
    if gpus.is_empty() && nets.is_empty() {
        let why = "neither GPUs nor network devices are in it: have NCCL write it on such a machine";
        return Err(Diagnostic::error(file, root.line, why));
    }
    let (machine, mut odd) = (tree.machine(&gpus, nets), tree.odd);
    odd.sort_by_key(|diagnostic| diagnostic.line);
    Ok((machine, odd))
}

/// Where a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seat {
    /// The `<cpu>` above.
    cpu: Option<usize>,
    /// The bridges above, from the CPU down.
    bridges: Vec<usize>,
    /// The PCI function; a network device may have none.
    function: Option<usize>,
}

impl Seat {
    fn distance(&self, other: &Self) -> Option<PcieDistance> {
        if self.cpu? != other.cpu? {
            return Some(PcieDistance::Sys);
        }
        // Without a function of its own it is somewhere at this CPU.
        self.function.and(other.function)?;
        let shared = self.bridges.iter().zip(&other.bridges).take_while(|(a, b)| a == b).count();
        Some(match shared {
            0 => PcieDistance::Phb,
            _ if shared == self.bridges.len() && shared == other.bridges.len() => PcieDistance::Pix,
            _ => PcieDistance::Pxb,
        })
    }
}

/// A GPU with its place and its NVLinks.
struct FoundGpu {
    gpu: Gpu,
    seat: Seat,
    dev: Option<u32>,
    /// NVLinks to other GPUs, by address.
    straight: BTreeMap<String, u32>,
    /// NVLinks to switches.
    switched: u32,
}

struct Tree<'t, 'f> {
    elements: &'t [Element<'t>],
    file: &'f str,
    odd: Vec<Diagnostic>,
}

impl Tree<'_, '_> {
    fn warn(&mut self, at: usize, why: impl Into<String>) {
        let line = self.elements.get(at).map_or(1, |element| element.line);
        self.odd.push(Diagnostic::warning(self.file, line, why));
    }

    /// The elements above one, the nearest first.
    fn above(&self, at: usize) -> impl Iterator<Item = usize> {
        let parent = |at: &usize| self.elements.get(*at).and_then(|element| element.parent);
        std::iter::successors(parent(&at), parent)
    }

    fn is(&self, at: usize, name: &str) -> bool {
        self.elements.get(at).is_some_and(|element| element.name == name)
    }

    /// The place of `at`, or of what is in it.
    fn seat(&self, at: usize) -> Seat {
        let mut functions: Vec<usize> =
            std::iter::once(at).chain(self.above(at)).filter(|above| self.is(*above, "pci")).collect();
        functions.reverse();
        let function = functions.pop();
        Seat { cpu: self.above(at).find(|above| self.is(*above, "cpu")), bridges: functions, function }
    }

    fn number<T: std::str::FromStr>(&mut self, at: usize, attribute: &str) -> Option<T> {
        let text = self.elements.get(at)?.get(attribute)?;
        let number = text.trim().parse().ok();
        if number.is_none() {
            self.warn(at, format!("{attribute}=\"{}\" is not a number of ours", text.escape_debug()));
        }
        number
    }

    fn numa(&self, seat: &Seat) -> Option<u32> {
        // -1 where there are no NUMA nodes.
        self.elements.get(seat.cpu?)?.get("numaid")?.trim().parse().ok()
    }

    fn address(&self, seat: &Seat) -> String {
        let function = seat.function.and_then(|at| self.elements.get(at));
        function.and_then(|function| function.get("busid")).unwrap_or_default().to_ascii_lowercase()
    }

    fn link(&self, seat: &Seat) -> PcieLink {
        let read = |function: &Element<'_>| Lanes::read(function.get("link_speed")?, function.get("link_width")?);
        // NCCL writes what the device and its port can do, which is not what they do now (`src/graph/xml.cc`, `max_link_*`).
        PcieLink { current: None, most: seat.function.and_then(|at| read(self.elements.get(at)?)) }
    }

    /// PCI functions of a class that have none of these elements below them: a site's file names no devices.
    fn bare_functions(&self, classes: &[&str], device: &str) -> Vec<usize> {
        let has_device: BTreeSet<usize> =
            (0..self.elements.len()).filter(|at| self.is(*at, device)).flat_map(|at| self.above(at)).collect();
        let is_bare = |at: &usize| {
            let class = self.elements[*at].get("class").unwrap_or_default();
            self.is(*at, "pci") && classes.iter().any(|base| class.starts_with(base)) && !has_device.contains(at)
        };
        (0..self.elements.len()).filter(is_bare).collect()
    }

    /// GPUs in CUDA's order: by their `dev`, or where it is not told, by address.
    fn gpus(&mut self) -> Vec<FoundGpu> {
        let named = (0..self.elements.len()).filter(|at| self.is(*at, "gpu"));
        let all: Vec<usize> = named.chain(self.bare_functions(&GPU_CLASSES, "gpu")).collect();
        let mut found: Vec<FoundGpu> = all.into_iter().map(|at| self.gpu(at)).collect();
        found.sort_by(|a, b| match (a.dev, b.dev) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.gpu.address.cmp(&b.gpu.address),
        });
        found
    }

    fn gpu(&mut self, at: usize) -> FoundGpu {
        let seat = self.seat(at);
        if seat.function.is_none() {
            self.warn(at, "a GPU without a <pci> above it: how far it is from anything is not known");
        }
        let numbers = seat.function.and_then(|at| {
            let hex = |name: &str| Some(self.elements.get(at)?.get(name)?.trim_start_matches("0x"));
            Some(format!("{}:{}", hex("vendor")?, hex("device")?))
        });
        let capability = self.elements[at].get("sm").map(|sm| format!("sm_{sm}"));
        let model: Vec<String> = numbers.into_iter().chain(capability).collect();
        let gpu = Gpu {
            model: model.join(" "),
            address: self.address(&seat),
            numa: self.numa(&seat),
            link: self.link(&seat),
        };
        let mut found = FoundGpu { gpu, seat, dev: self.number(at, "dev"), straight: BTreeMap::new(), switched: 0 };
        let links = (0..self.elements.len()).filter(|link| self.is(*link, "nvlink"));
        for link in links.filter(|link| self.elements[*link].parent == Some(at)).collect::<Vec<_>>() {
            self.nvlink(link, &mut found);
        }
        found
    }

    fn nvlink(&mut self, at: usize, gpu: &mut FoundGpu) {
        let count: u32 = self.number(at, "count").unwrap_or_default();
        let element = &self.elements[at];
        let target = element.get("target").unwrap_or_default().to_ascii_lowercase();
        // Without a class it is of an NCCL that knew no switches.
        if element.get("tclass").is_none_or(|class| class.starts_with(GPU_TARGET)) {
            let links = gpu.straight.entry(target).or_default();
            *links = links.saturating_add(count);
        } else {
            gpu.switched = gpu.switched.saturating_add(count);
        }
    }

    /// Network devices by name; several ports of one are one.
    fn nets(&mut self) -> Vec<(Hca, Seat)> {
        let mut found: Vec<(Hca, Seat)> = Vec::new();
        for at in (0..self.elements.len()).filter(|at| self.is(*at, "net")).collect::<Vec<_>>() {
            let Some(name) = self.elements[at].get("name") else {
                self.warn(at, "a network device without a name is left out");
                continue;
            };
            let (number, speed) = (self.number(at, "port").unwrap_or_default(), self.number(at, "speed"));
            let port = Port { number, rate: speed.map(rate).unwrap_or_default(), ..Port::default() };
            if let Some((hca, _)) = found.iter_mut().find(|(hca, _)| hca.name == name) {
                hca.ports.push(port);
            } else {
                let seat = self.seat(at);
                found.push((self.hca(name.to_owned(), &seat, vec![port]), seat));
            }
        }
        for at in self.bare_functions(&[NET_CLASS], "net") {
            let seat = self.seat(at);
            found.push((self.hca(self.address(&seat), &seat, Vec::new()), seat));
        }
        found.sort_by(|(a, _), (b, _)| by_number(&a.name, &b.name));
        found
    }

    fn hca(&self, name: String, seat: &Seat, ports: Vec<Port>) -> Hca {
        Hca { name, address: self.address(seat), numa: self.numa(seat), link: self.link(seat), ports, nets: Vec::new() }
    }

    fn machine(&self, gpus: &[FoundGpu], nets: Vec<(Hca, Seat)>) -> Machine {
        let to_hcas: Vec<Vec<Option<PcieDistance>>> =
            gpus.iter().map(|gpu| nets.iter().map(|(_, net)| gpu.seat.distance(net)).collect()).collect();
        let has_nvlinks = self.elements.iter().any(|element| element.name == "nvlink");
        let paths = |gpu: &FoundGpu| gpus.iter().map(|other| path(gpu, other)).collect();
        let has_phb = to_hcas.iter().flatten().any(|distance| *distance == Some(PcieDistance::Phb));
        let notes = [(has_phb, PHB_NOTE), (!has_nvlinks && gpus.len() > 1, NVLINK_NOTE)];
        let cpus = self.elements.iter().filter(|element| element.name == "cpu").count() as u32;
        Machine {
            numa_nodes: (cpus > 0).then_some(cpus),
            gpu_paths: if has_nvlinks { gpus.iter().map(paths).collect() } else { Vec::new() },
            gpus: gpus.iter().map(|found| found.gpu.clone()).collect(),
            hcas: nets.into_iter().map(|(hca, _)| hca).collect(),
            to_hcas,
            interfaces: Vec::new(),
            notes: notes.iter().filter(|(is_so, _)| *is_so).map(|(_, note)| (*note).to_owned()).collect(),
        }
    }
}

/// NVLinks where there are any, as many as both have; else the way over PCI.
fn path(gpu: &FoundGpu, other: &FoundGpu) -> Option<GpuPath> {
    if gpu.seat.function == other.seat.function {
        return None;
    }
    let straight = |from: &FoundGpu, to: &FoundGpu| from.straight.get(&to.gpu.address).copied().unwrap_or_default();
    let links = straight(gpu, other).max(straight(other, gpu));
    match links.max(gpu.switched.min(other.switched)) {
        0 => gpu.seat.distance(&other.seat).map(GpuPath::Pcie),
        links => Some(GpuPath::NvLinks(links)),
    }
}

#[cfg(test)]
#[path = "nccl_topo_tests.rs"]
mod tests;
