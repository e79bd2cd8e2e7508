//! Memory: limits, huge pages, what the kernel does to it by itself.

use gdrtune_wire::{HugePages, Memlock, MemorySettings};

use super::LiveSystem;
use crate::inventory::{Reader, field};

/// What is mounted where.
const MOUNTS: &str = "proc/self/mounts";

fn is_of_shm(line: &str) -> bool {
    line.split_whitespace().nth(1) == Some("/dev/shm")
}

/// What a record keeps of a file of these: what is looked for in it. Other mounts tell of servers and users.
pub(super) fn kept(path: &str, text: &str) -> Option<String> {
    (path == MOUNTS).then(|| text.lines().filter(|line| is_of_shm(line)).flat_map(|line| [line, "\n"]).collect())
}

impl Reader<'_> {
    /// `Max locked memory         8388608              unlimited            bytes`.
    pub(super) fn memlock(&mut self) -> Option<Memlock> {
        let text = self.value("proc/self/limits")?;
        let mut words = field(&text, "Max locked memory")?.split_whitespace();
        let mut limit = || match words.next()? {
            "unlimited" => Some(None),
            number => Some(Some(number.parse().ok()?)),
        };
        Some(Memlock { soft: limit()?, hard: limit()? })
    }

    pub(super) fn memory(&mut self, live: &LiveSystem, memory_bytes: u64) -> MemorySettings {
        const POOLS: &str = "sys/kernel/mm/hugepages";
        let pool = |name: &String, reader: &mut Self| {
            let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let mut count = |file: &str| reader.number(&format!("{POOLS}/{name}/{file}"));
            Some(HugePages {
                bytes: kib.checked_mul(1024)?,
                total: count("nr_hugepages")?,
                free: count("free_hugepages")?,
            })
        };
        let mut huge_pages: Vec<HugePages> = self.names(POOLS).iter().filter_map(|name| pool(name, self)).collect();
        huge_pages.sort_by_key(|pool| pool.bytes);
        let shm = live.shm.map(|(total, _)| total).or_else(|| self.mounted_shm(memory_bytes));
        MemorySettings {
            huge_pages,
            transparent_huge_pages: self.transparent_huge_pages(),
            numa_balancing: self.number::<u32>("proc/sys/kernel/numa_balancing").map(|on| on != 0),
            shm_bytes: shm,
            shm_free_bytes: live.shm.map(|(_, free)| free),
        }
    }

    /// The word in brackets: `always [madvise] never`.
    fn transparent_huge_pages(&mut self) -> String {
        let text = self.value("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        chosen.map(|(word, _)| word.to_owned()).unwrap_or_default()
    }

    /// What `/dev/shm` was mounted with; half of the memory where nothing is said (Linux `Documentation/filesystems/tmpfs.rst`).
    fn mounted_shm(&mut self, memory_bytes: u64) -> Option<u64> {
        let text = self.value(MOUNTS)?;
        // The last one hides those before it.
        let line = text.lines().rev().find(|line| is_of_shm(line))?;
        let options = line.split_whitespace().nth(3)?;
        match options.split(',').find_map(|option| option.strip_prefix("size=")) {
            None => (memory_bytes > 0).then_some(memory_bytes / 2),
            Some(size) => {
                let (digits, unit) = size.split_at(size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len()));
                let unit: u64 = match unit {
                    "" => 1,
                    "k" => 1 << 10,
                    "m" => 1 << 20,
                    "g" => 1 << 30,
                    _ => return None,
                };
                digits.parse::<u64>().ok()?.checked_mul(unit)
            }
        }
    }
}
