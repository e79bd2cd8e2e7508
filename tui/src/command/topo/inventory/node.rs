//! The node as a whole: machine, memory, drivers, NCCL.

use gdrtune_profiles::vocab::Engine;
use gdrtune_session::homogeneity::effective;
use gdrtune_wire::{Inventory, Library, LibraryKind, LibrarySource, Memlock};
use serde_json::{Value, json};

use super::{Section, known, on_off, or_unknown, size, yes_no};
use crate::ui::text;

pub(super) fn machine(inventory: &Inventory) -> Section {
    let (system, cpu) = (&inventory.system, &inventory.system.cpu);
    let mut section = Section::new("Machine");
    section.fact("name", &*inventory.hostname);
    section.fact("kernel", format!("Linux {}, {}", or_unknown(&inventory.kernel), or_unknown(&inventory.arch)));
    let sockets = cpu.sockets.map_or("? sockets".to_owned(), |sockets| text::count(u64::from(sockets), "socket"));
    section.fact("CPUs", format!("{} of {sockets}, {}", count(inventory.cpus), or_unknown(&inventory.cpu_model)));
    section.fact("CPU vendor", &*cpu.vendor);
    section.fact("NUMA nodes", count(inventory.topology.numa_nodes));
    section.fact("hyper-threading", on_off(cpu.smt));
    let governors = if cpu.governors.is_empty() { "?".to_owned() } else { cpu.governors.join(" ") };
    section.fact("governor", format!("{governors} ({})", or_unknown(&cpu.driver)));
    let ghz = |khz: Option<u32>| known(khz.map(|khz| text::trim(f64::from(khz) / 1e6)));
    let (least, most, hardware) = (ghz(cpu.least_khz), ghz(cpu.most_khz), ghz(cpu.hardware_most_khz));
    section.fact("frequency", format!("{least} to {most} GHz, hardware {hardware} GHz"));
    let none = |list: &[String], words: &str| if list.is_empty() { words.to_owned() } else { list.join(" ") };
    let iommu = match system.iommu.groups {
        Some(0) => "off".to_owned(),
        None => "?".to_owned(),
        Some(groups) => format!("{groups} groups, of GPUs and HCAs: {}", none(&system.iommu.types, "?")),
    };
    section.fact("IOMMU", iommu);
    section.fact("kernel parameters", none(&system.kernel_parameters, "none that matters"));
    section
}

fn count(number: u32) -> String {
    known((number > 0).then_some(number))
}

pub(super) fn memory(inventory: &Inventory) -> Section {
    let (memory, container) = (&inventory.system.memory, &inventory.system.container);
    let mut section = Section::new("Memory and limits");
    section.fact("memory", known((inventory.memory_bytes > 0).then(|| size(inventory.memory_bytes))));
    section.fact("locked memory", known(inventory.system.memlock.map(memlock)));
    let free = memory.shm_free_bytes.map(|free| format!(", {} free", size(free))).unwrap_or_default();
    section.fact("/dev/shm", format!("{}{free}", known(memory.shm_bytes.map(size))));
    let pools =
        memory.huge_pages.iter().map(|pool| format!("{} of {}, {} free", pool.total, size(pool.bytes), pool.free));
    section.fact("huge pages", pools.collect::<Vec<_>>().join("; "));
    section.fact("transparent ones", &*memory.transparent_huge_pages);
    section.fact("NUMA balancing", on_off(memory.numa_balancing));
    let limit = |value: Option<String>| value.unwrap_or_else(|| "no limit".to_owned());
    let cpus = container.cpu_milli.map(|milli| format!("{} CPUs", milli as f64 / 1e3));
    section.fact("container", if container.kind.is_empty() { "none seen" } else { &*container.kind });
    section.fact("control group", format!("memory: {}, CPU: {}", limit(container.memory_bytes.map(size)), limit(cpus)));
    section.fact("CAP_IPC_LOCK", yes_no(container.ipc_lock));
    let devices = &container.rdma_devices;
    section.fact(
        "/dev/infiniband",
        if devices.is_empty() { "none".to_owned() } else { gdrtune_fleet::hosts::fold(devices) },
    );
    section
}

fn memlock(limit: Memlock) -> String {
    let word = |bytes: Option<u64>| bytes.map_or("unlimited".to_owned(), size);
    format!("{} (hard limit {})", word(limit.soft), word(limit.hard))
}

pub(super) fn drivers(inventory: &Inventory) -> Section {
    let system = &inventory.system;
    let mut section = Section::new("Drivers and libraries");
    section.fact("NVIDIA driver", if inventory.driver.is_empty() { "none" } else { &*inventory.driver });
    let module = |open| if open { "open" } else { "proprietary" };
    let module = system.nvidia_module.as_ref().map(|nvidia| format!("{}, {}", module(nvidia.open), nvidia.version));
    section.fact("kernel module", known(module));
    section.fact("CUDA", if system.cuda.is_empty() { "?".to_owned() } else { format!("up to {}", system.cuda) });
    let manager = match system.fabric.manager_runs {
        Some(true) => "fabric manager runs",
        Some(false) => "no fabric manager runs",
        None => "fabric manager ?",
    };
    let switches = system.fabric.nvswitches;
    section.fact("NVSwitches", if switches == 0 { "none seen".to_owned() } else { format!("{switches}, {manager}") });
    let ofed = system.ofed.as_ref().map(|ofed| format!("{} ({})", ofed.version, ofed.source));
    section.fact("OFED", ofed.unwrap_or_else(|| "none seen".to_owned()));
    let module = |is_loaded: bool| {
        let names: Vec<String> = system
            .modules
            .iter()
            .filter(|module| module.loaded == is_loaded)
            .map(|module| format!("{} {}", module.name, module.version).trim_end().to_owned())
            .collect();
        if names.is_empty() { "none that matters".to_owned() } else { names.join(", ") }
    };
    section.fact("modules loaded", module(true));
    section.fact("only installed", module(false));
    let storage = &system.storage;
    let fs = if storage.nvidia_fs.is_empty() { "not loaded" } else { &*storage.nvidia_fs };
    let json = if storage.cufile_json.is_empty() { "no cufile.json".to_owned() } else { storage.cufile_json.clone() };
    let compatible = storage.compatible.map(|on| format!(", compatible mode {}", on_off(Some(on)))).unwrap_or_default();
    section.fact("storage", format!("nvidia-fs {fs}, {json}{compatible}"));
    let tools: Vec<&str> = system.tools.iter().map(|tool| tool.name.as_str()).collect();
    section.fact("programs", if tools.is_empty() { "none that matters".to_owned() } else { tools.join(" ") });
    for library in system.libraries.iter().filter(|library| library.kind != LibraryKind::Nccl) {
        section.row(row(library));
    }
    section
}

fn row(library: &Library) -> [String; 4] {
    let kind = match library.kind {
        LibraryKind::Nccl => "NCCL",
        LibraryKind::NcclNet => "NCCL network plugin",
        LibraryKind::NcclTuner => "NCCL tuner plugin",
        LibraryKind::Cuda => "CUDA driver",
        LibraryKind::Verbs => "verbs",
        LibraryKind::Cufile => "cuFile",
    };
    let found = match library.found {
        LibrarySource::LibraryPath => "LD_LIBRARY_PATH",
        LibrarySource::LoaderCache => "loader's cache",
        LibrarySource::UsualFolder => "usual folder",
        LibrarySource::Python => "Python",
    };
    let cuda = if library.cuda.is_empty() { String::new() } else { format!(" for CUDA {}", library.cuda) };
    [kind.to_owned(), format!("{}{cuda}", or_unknown(&library.version)), found.to_owned(), library.path.clone()]
}

/// NCCL's libraries, and its settings with the place that each is from.
pub(super) fn nccl(inventory: &Inventory) -> Section {
    let mut section = Section::new("NCCL");
    let libraries = inventory.system.libraries.iter().filter(|library| library.kind == LibraryKind::Nccl);
    let rows: Vec<[String; 4]> = libraries.map(row).collect();
    section.fact("libraries", if rows.is_empty() { "none found".to_owned() } else { rows.len().to_string() });
    if !inventory.system.library_path.is_empty() {
        section.fact("LD_LIBRARY_PATH", &*inventory.system.library_path);
    }
    let settings = effective(inventory, Engine::Nccl);
    section.fact("settings", if settings.is_empty() { "none".to_owned() } else { settings.len().to_string() });
    for row in rows {
        section.row(row);
    }
    for (name, (value, file)) in settings {
        let from = file.unwrap_or_else(|| "environment".to_owned());
        section.row([format!("{name}={value}"), from]);
    }
    section
}

pub(super) fn nccl_json(inventory: &Inventory) -> Value {
    let setting =
        |(name, (value, file)): (String, (String, Option<String>))| json!({"name": name, "value": value, "file": file});
    effective(inventory, Engine::Nccl).into_iter().map(setting).collect()
}

pub(super) fn unreadable(inventory: &Inventory) -> Section {
    let mut section = Section::new("Not readable");
    for line in &inventory.unreadable {
        section.fact("-", line.as_str());
    }
    section
}
