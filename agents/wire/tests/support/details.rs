//! Arbitrary details of devices and of a node.

use std::net::Ipv6Addr;

use gdrtune_wire::*;
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::{place, text};

/// Of GPUs, adapters, their ports, network devices, bridges and the node.
pub(super) type Details =
    (Vec<GpuDetails>, Vec<HcaDetails>, Vec<PortDetails>, Vec<NetDetails>, Vec<PcieBridge>, System);

pub(super) fn details() -> impl Strategy<Value = Details> {
    (vec(gpu(), 0..3), vec(hca(), 0..3), vec(port(), 0..3), vec(net(), 0..3), vec(bridge(), 0..3), system())
}

fn maybe_u32() -> impl Strategy<Value = Option<u32>> {
    option::of(any::<u32>())
}

fn maybe_bool() -> impl Strategy<Value = Option<bool>> {
    option::of(any::<bool>())
}

fn maybe_u64() -> impl Strategy<Value = Option<u64>> {
    option::of(any::<u64>())
}

fn gpu() -> impl Strategy<Value = GpuDetails> {
    let texts = (text(), text(), text(), text(), text(), text(), text());
    let numbers =
        (maybe_u64(), maybe_u64(), option::of(any::<(u8, u8)>()), option::of(any::<u64>().prop_map(ClockLimits)));
    let flags = (maybe_bool(), maybe_bool(), maybe_bool());
    let clocks = (maybe_u32(), maybe_u32(), maybe_u32(), maybe_u32())
        .prop_map(|(sm, memory, sm_most, memory_most)| GpuClocks { sm, memory, sm_most, memory_most });
    let dmabuf = (maybe_bool(), text()).prop_map(|(possible, why)| DmaBuf { possible, why });
    (texts, numbers, flags, clocks, dmabuf, place()).prop_map(
        |(texts, numbers, (persistence, ecc, mig), clocks, dmabuf, place)| {
            let (address, uuid, model, architecture, compute_mode, driver_model, fabric_state) = texts;
            let (memory_bytes, bar1_bytes, compute_capability, clock_limits) = numbers;
            GpuDetails {
                address,
                uuid,
                model,
                architecture,
                link: place.link,
                memory_bytes,
                bar1_bytes,
                compute_capability,
                persistence,
                ecc,
                mig,
                compute_mode,
                clocks,
                clock_limits,
                driver_model,
                fabric_state,
                dmabuf,
            }
        },
    )
}

fn function() -> impl Strategy<Value = PciFunction> {
    prop_oneof![
        Just(PciFunction::Plain),
        any::<(u32, u32)>().prop_map(|(virtual_functions, most)| PciFunction::Physical { virtual_functions, most }),
        text().prop_map(|of| PciFunction::Virtual { of }),
    ]
}

fn hca() -> impl Strategy<Value = HcaDetails> {
    let control =
        (maybe_bool(), maybe_u32(), maybe_u32()).prop_map(|(relaxed_ordering, payload_bytes, read_request_bytes)| {
            PcieControl { relaxed_ordering, payload_bytes, read_request_bytes }
        });
    (vec(text(), 9), function(), control).prop_map(|(texts, function, pcie)| {
        let [hca, firmware, board, kind, vendor, device, node_guid, driver, bond] =
            texts.try_into().unwrap_or_default();
        HcaDetails { hca, firmware, board, kind, vendor, device, node_guid, driver, function, bond, pcie }
    })
}

fn port() -> impl Strategy<Value = PortDetails> {
    let kinds = option::of(select(vec![GidKind::InfiniBandOrRoceV1, GidKind::RoceV2]));
    let gid = (any::<u16>(), any::<[u8; 16]>(), kinds, text()).prop_map(|(index, octets, kind, net)| Gid {
        index,
        gid: Ipv6Addr::from(octets),
        kind,
        net,
    });
    let counter = (text(), any::<u64>()).prop_map(|(name, value)| Counter { name, value });
    let numbers = (maybe_u32(), maybe_u32(), maybe_u32(), maybe_u32());
    let lists = (vec(gid, 0..3), vec(text(), 0..3), vec(counter, 0..3));
    let roce = (option::of(any::<u8>()), text(), option::of(any::<u8>()));
    (text(), any::<u16>(), numbers, lists, roce).prop_map(
        |(hca, port, (active_mtu, max_mtu, lid, sm_lid), (gids, nets, counters), roce)| {
            let (traffic_class, default_roce_mode, default_roce_tos) = roce;
            PortDetails {
                hca,
                port,
                active_mtu,
                max_mtu,
                lid,
                sm_lid,
                gids,
                nets,
                counters,
                traffic_class,
                default_roce_mode,
                default_roce_tos,
            }
        },
    )
}

fn net() -> impl Strategy<Value = NetDetails> {
    let kind = prop_oneof![
        Just(NetKind::Device),
        text().prop_map(NetKind::Bond),
        option::of(any::<u16>()).prop_map(NetKind::Vlan),
        Just(NetKind::Bridge),
        text().prop_map(NetKind::Virtual),
    ];
    let priorities = || option::of(vec(any::<u8>(), 0..3));
    let lossless = (text(), priorities(), priorities(), priorities())
        .prop_map(|(trust, pfc, ecn_notifies, ecn_reacts)| Lossless { trust, pfc, ecn_notifies, ecn_reacts });
    (text(), kind, text(), vec(text(), 0..3), function(), lossless).prop_map(
        |(name, kind, master, lower, function, lossless)| NetDetails { name, kind, master, lower, function, lossless },
    )
}

fn bridge() -> impl Strategy<Value = PcieBridge> {
    let kinds = [BridgeKind::RootPort, BridgeKind::Upstream, BridgeKind::Downstream, BridgeKind::Other];
    let texts = (text(), text(), text(), text());
    (texts, place(), option::of(select(kinds.to_vec())), maybe_bool(), maybe_bool()).prop_map(
        |((address, above, vendor, device), place, kind, acs_redirects, routes_atomics)| PcieBridge {
            address,
            above,
            vendor,
            device,
            link: place.link,
            kind,
            acs_redirects,
            routes_atomics,
        },
    )
}

fn system() -> impl Strategy<Value = System> {
    let module = (text(), any::<bool>(), text()).prop_map(|(name, loaded, version)| Module { name, loaded, version });
    let nvidia_module = (text(), any::<bool>()).prop_map(|(version, open)| NvidiaModule { version, open });
    let fabric =
        (any::<u32>(), maybe_bool()).prop_map(|(nvswitches, manager_runs)| Fabric { nvswitches, manager_runs });
    let ofed = (text(), text()).prop_map(|(version, source)| Ofed { version, source });
    let iommu = (maybe_u32(), vec(text(), 0..2)).prop_map(|(groups, types)| Iommu { groups, types });
    let memlock = (maybe_u64(), maybe_u64()).prop_map(|(soft, hard)| Memlock { soft, hard });
    let driver = (vec(module, 0..3), option::of(nvidia_module), fabric, option::of(ofed), iommu, option::of(memlock));
    let machine = (memory(), cpu(), container());
    let files =
        (vec(library(), 0..3), vec((text(), text()).prop_map(|(name, path)| Tool { name, path }), 0..3), storage());
    (driver, machine, files, (text(), vec(text(), 0..3), text())).prop_map(|(driver, machine, files, rest)| {
        let (modules, nvidia_module, fabric, ofed, iommu, memlock) = driver;
        let (memory, cpu, container) = machine;
        let (libraries, tools, storage) = files;
        let (cuda, kernel_parameters, library_path) = rest;
        System {
            modules,
            nvidia_module,
            cuda,
            fabric,
            ofed,
            kernel_parameters,
            iommu,
            memlock,
            memory,
            cpu,
            container,
            libraries,
            library_path,
            tools,
            storage,
        }
    })
}

fn memory() -> impl Strategy<Value = MemorySettings> {
    let pool = any::<(u64, u64, u64)>().prop_map(|(bytes, total, free)| HugePages { bytes, total, free });
    (vec(pool, 0..3), text(), maybe_bool(), maybe_u64(), maybe_u64()).prop_map(
        |(huge_pages, transparent_huge_pages, numa_balancing, shm_bytes, shm_free_bytes)| MemorySettings {
            huge_pages,
            transparent_huge_pages,
            numa_balancing,
            shm_bytes,
            shm_free_bytes,
        },
    )
}

fn cpu() -> impl Strategy<Value = CpuDetails> {
    let numbers = (maybe_u32(), maybe_u32(), maybe_u32(), maybe_u32());
    (text(), maybe_bool(), text(), vec(text(), 0..3), numbers).prop_map(
        |(vendor, smt, driver, governors, (sockets, least_khz, most_khz, hardware_most_khz))| CpuDetails {
            vendor,
            sockets,
            smt,
            driver,
            governors,
            least_khz,
            most_khz,
            hardware_most_khz,
        },
    )
}

fn container() -> impl Strategy<Value = Container> {
    (text(), maybe_u64(), maybe_u64(), vec(text(), 0..3), maybe_bool()).prop_map(
        |(kind, memory_bytes, cpu_milli, rdma_devices, ipc_lock)| Container {
            kind,
            memory_bytes,
            cpu_milli,
            rdma_devices,
            ipc_lock,
        },
    )
}

fn library() -> impl Strategy<Value = Library> {
    let kinds = [
        LibraryKind::Nccl,
        LibraryKind::NcclNet,
        LibraryKind::NcclTuner,
        LibraryKind::Cuda,
        LibraryKind::Verbs,
        LibraryKind::Cufile,
    ];
    let sources =
        [LibrarySource::LibraryPath, LibrarySource::LoaderCache, LibrarySource::UsualFolder, LibrarySource::Python];
    (select(kinds.to_vec()), text(), text(), text(), select(sources.to_vec()))
        .prop_map(|(kind, path, version, cuda, found)| Library { kind, path, version, cuda, found })
}

fn storage() -> impl Strategy<Value = Storage> {
    (text(), text(), maybe_bool()).prop_map(|(nvidia_fs, cufile_json, compatible)| Storage {
        nvidia_fs,
        cufile_json,
        compatible,
    })
}
