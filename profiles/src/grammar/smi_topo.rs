//! The table of `nvidia-smi topo -m` (and `-mp`): devices by devices, one word for each pair.
//!
//! Source: outputs of drivers 384 to 570 in public issues (NVIDIA/nccl #246, #933, #1264, #1505). The header is underlined by
//! escape sequences on a terminal, older drivers name HCAs in it and newer ones number them (`NIC0`) and have a legend, and
//! copies from web pages have blanks where the program prints tabs. So words are what counts here, not columns.

use std::collections::BTreeMap;

use super::without_escapes;
use crate::{
    diagnostic::Diagnostic,
    nearest::hint,
    topology::{Gpu, GpuPath, Hca, Machine, by_number},
    vocab::PcieDistance,
};

/// Most devices of a table. The largest machines have 16 GPUs, and some forty functions of HCAs.
const MOST_DEVICES: usize = 512;

/// What to do about a text that is something else.
const NEXT_STEP: &str = "give the output of `nvidia-smi topo -m`, or a file that NCCL wrote for NCCL_TOPO_DUMP_FILE";

/// What the header may have behind the devices.
const TAIL_WORDS: [&str; 3] = ["CPU", "NUMA", "GPU"];

/// A word between two devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Itself,
    Path(GpuPath),
    Unknown,
}

/// Reads a table. The second part is what is odd in it.
///
/// # Errors
/// The line at which it shows that there is no such table, with the next step.
pub fn parse(text: &str, file: &str) -> Result<(Machine, Vec<Diagnostic>), Diagnostic> {
    let lines: Vec<String> = text.lines().map(without_escapes).collect();
    let Some((at, header)) = lines.iter().enumerate().find_map(|(at, line)| Some((at, Header::of(line)?))) else {
        return Err(Diagnostic::error(file, 1, format!("no table of GPUs: {NEXT_STEP}")));
    };
    if header.devices.len() > MOST_DEVICES {
        let why = format!("a table of {} devices: {MOST_DEVICES} at most are read", header.devices.len());
        return Err(Diagnostic::error(file, at + 1, why));
    }
    let mut table = Table { header, file, rows: BTreeMap::new(), numa: BTreeMap::new(), odd: Vec::new() };
    let mut legend = BTreeMap::new();
    for (at, line) in lines.iter().enumerate().skip(at + 1) {
        if Header::of(line).is_some() {
            table.warn(at, "another table begins here: only the first one is read");
            break;
        }
        match legend_entry(line) {
            Some((number, name)) => drop(legend.insert(number, name)),
            None => table.row(at, line),
        }
    }
    if table.rows.is_empty() {
        return Err(Diagnostic::error(file, at + 1, format!("a table without rows: {NEXT_STEP}")));
    }
    table.check_rows(at);
    table.odd.sort_by_key(|diagnostic| diagnostic.line);
    Ok(table.into_machine(&legend))
}

/// `  NIC0: mlx5_0`.
fn legend_entry(line: &str) -> Option<(String, String)> {
    let (number, name) = line.trim().split_once(':')?;
    is_numbered(number, "NIC").then(|| (number.to_owned(), name.trim().to_owned()))
}

fn is_numbered(word: &str, name: &str) -> bool {
    word.strip_prefix(name).is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// What the columns are.
struct Header {
    devices: Vec<String>,
    has_cpus: bool,
    has_numa: bool,
}

impl Header {
    /// A line that begins with a GPU which is followed by no word of a pair.
    fn of(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let first = words.first()?;
        // `GPU0:` and the like stand in other listings.
        if !is_numbered(first, "GPU") || words.get(1).is_some_and(|word| cell(word).is_some()) {
            return None;
        }
        let devices: Vec<String> =
            words.iter().take_while(|word| !TAIL_WORDS.contains(word)).map(|word| (*word).to_owned()).collect();
        let tail = words[devices.len()..].join(" ");
        // A line of prose may begin with a GPU, too.
        let is_header = devices.iter().skip(1).all(|device| is_device(device));
        is_header.then(|| Self {
            devices,
            has_cpus: tail.contains("CPU Affinity"),
            has_numa: tail.contains("NUMA Affinity"),
        })
    }

    fn place(&self, device: &str) -> Option<usize> {
        self.devices.iter().position(|known| known == device)
    }
}

/// A GPU, a numbered NIC, or the name of an HCA, which has a digit in it.
fn is_device(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_digit())
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// What a word says of a pair; `None` where it is no such word.
fn cell(word: &str) -> Option<Cell> {
    if let Some(count) = word.strip_prefix("NV").and_then(|count| count.parse().ok()) {
        return Some(Cell::Path(GpuPath::NvLinks(count)));
    }
    Some(match word {
        "X" => Cell::Itself,
        "N/A" => Cell::Unknown,
        // Drivers before 390 called it after the socket.
        "SOC" => Cell::Path(GpuPath::Pcie(PcieDistance::Sys)),
        word => Cell::Path(GpuPath::Pcie(PcieDistance::ALL.iter().copied().find(|d| d.nccl_name() == word)?)),
    })
}

struct Table<'f> {
    header: Header,
    file: &'f str,
    /// Cells of each row, by the place of its device.
    rows: BTreeMap<usize, Vec<Cell>>,
    numa: BTreeMap<usize, u32>,
    odd: Vec<Diagnostic>,
}

impl Table<'_> {
    fn warn(&mut self, at: usize, why: impl Into<String>) {
        self.odd.push(Diagnostic::warning(self.file, at + 1, why));
    }

    /// Takes in a line if it is a row: it begins with a device, and a word of a pair follows.
    fn row(&mut self, at: usize, line: &str) {
        let mut words = line.split_whitespace();
        let (Some(device), Some(second)) = (words.next(), line.split_whitespace().nth(1)) else { return };
        if !is_device(device) || cell(second).is_none() {
            return;
        }
        let Some(place) = self.header.place(device) else {
            return self.warn(at, format!("a row of {device}, which is not in the header"));
        };
        if self.rows.contains_key(&place) {
            return self.warn(at, format!("a second row of {device}: the first one counts"));
        }
        let width = self.header.devices.len();
        let words: Vec<&str> = words.collect();
        if words.len() < width {
            let why = format!("the row of {device} has {} of {width} words: what it lacks is not known", words.len());
            self.warn(at, why);
        }
        let mut cells = Vec::with_capacity(width);
        for word in words.iter().take(width) {
            cells.push(cell(word).unwrap_or_else(|| {
                let known = PcieDistance::ALL.iter().map(|distance| distance.nccl_name());
                let why = format!("unknown word `{}` in the row of {device}{}", word.escape_debug(), hint(word, known));
                self.odd.push(Diagnostic::warning(self.file, at + 1, why));
                Cell::Unknown
            }));
        }
        cells.resize(width, Cell::Unknown);
        self.rows.insert(place, cells);
        if let Some(numa) = self.numa_of(words.get(width..).unwrap_or_default()) {
            self.numa.insert(place, numa);
        }
    }

    /// The NUMA node among the words behind the pairs. CPUs can be missing, as in a container; then there is one word less.
    fn numa_of(&self, tail: &[&str]) -> Option<u32> {
        let is_list = |word: &&str| word.contains(['-', ',']);
        let numa = match (self.header.has_cpus, self.header.has_numa) {
            (_, false) => return None,
            (true, true) if tail.len() > 1 => tail.get(1),
            (true, true) => None,
            (false, true) => tail.first(),
        };
        numa.filter(|word| !is_list(word))?.parse().ok()
    }

    fn check_rows(&mut self, header: usize) {
        let is_missing = |place: &usize| !self.rows.contains_key(place);
        let gpus = (0..self.header.devices.len()).filter(|place| is_numbered(&self.header.devices[*place], "GPU"));
        let missing: Vec<&str> = gpus.filter(is_missing).map(|place| self.header.devices[place].as_str()).collect();
        if !missing.is_empty() {
            let why = format!("no row of {}: was the output cut off?", missing.join(", "));
            self.warn(header, why);
        }
    }

    /// What either row says of a pair.
    fn path(&self, a: usize, b: usize) -> Option<GpuPath> {
        let said = |row: usize, column: usize| match self.rows.get(&row)?.get(column)? {
            Cell::Path(path) => Some(*path),
            Cell::Itself | Cell::Unknown => None,
        };
        said(a, b).or_else(|| said(b, a))
    }

    fn into_machine(self, legend: &BTreeMap<String, String>) -> (Machine, Vec<Diagnostic>) {
        let devices = &self.header.devices;
        let is_gpu = |place: &usize| is_numbered(&devices[*place], "GPU");
        let (gpus, mut hcas): (Vec<usize>, Vec<usize>) = (0..devices.len()).partition(is_gpu);
        let name = |place: usize| legend.get(&devices[place]).unwrap_or(&devices[place]);
        hcas.sort_by(|a, b| by_number(name(*a), name(*b)));
        let pcie = |path| if let GpuPath::Pcie(distance) = path { Some(distance) } else { None };
        let to_hcas = |gpu: &usize| hcas.iter().map(|hca| self.path(*gpu, *hca).and_then(pcie)).collect();
        let to_gpus = |gpu: &usize| gpus.iter().map(|other| self.path(*gpu, *other)).collect();
        let machine = Machine {
            numa_nodes: None,
            to_hcas: gpus.iter().map(to_hcas).collect(),
            gpu_paths: gpus.iter().map(to_gpus).collect(),
            gpus: gpus.iter().map(|gpu| Gpu { numa: self.numa.get(gpu).copied(), ..Gpu::default() }).collect(),
            hcas: hcas.iter().map(|hca| Hca { name: name(*hca).clone(), ..Hca::default() }).collect(),
            interfaces: Vec::new(),
            notes: Vec::new(),
        };
        (machine, self.odd)
    }
}

#[cfg(test)]
#[path = "smi_topo_tests.rs"]
mod tests;
