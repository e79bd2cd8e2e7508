//! Puts this thread where an HCA is: on a machine with several sockets, memory of the other one is slower than a fast link.

use std::{fs, path::Path};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::verbs::SYSFS;

/// Lets the thread run on the CPUs of the HCA's NUMA node alone, and so has memory that it touches first come from there.
/// Where the node is not known, or this process may not run there, all stays as it was.
pub(super) fn move_to(hca: &str) {
    let path = Path::new(SYSFS).join(hca).join("device/local_cpulist");
    let cpus = fs::read_to_string(path).map(|list| cpus(&list)).unwrap_or_default();
    let mut set = CpuSet::new();
    cpus.into_iter().filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    if set.count() > 0 {
        // It is a matter of speed alone.
        sched_setaffinity(None, &set).ok();
    }
}

/// The CPUs of a list such as `0-3,8`; nothing of what is none.
fn cpus(list: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse().ok()?..=to.trim().parse::<usize>().ok()?.min(CpuSet::MAX_CPU))
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        for (list, expected) in
            [("0-3,8\n", &[0, 1, 2, 3, 8][..]), ("5", &[5]), ("", &[]), ("x-3,7", &[7]), ("4-2", &[])]
        {
            assert_eq!(cpus(list), expected, "{list:?}");
        }
        assert!(cpus("0-99999999999").len() <= CpuSet::MAX_CPU + 1);
    }
}
