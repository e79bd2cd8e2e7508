//! Devices: GPUs, HCAs with their ports, network devices, bridges.

use gdrtune_fleet::hosts::fold;
use gdrtune_wire::{
    BridgeKind, ClockLimits, GpuDetails, HcaDetails, HcaPort, Inventory, NetKind, PciFunction, PcieBridge, PortDetails,
};

use super::{Section, known, on_off, or_unknown, shared, size, yes_no};

/// Words that `shared` makes of each device's.
fn each<'d, D: 'd>(devices: &'d [D], name: impl Fn(usize, &D) -> String, value: impl Fn(&D) -> String) -> String {
    let pair = |(number, device): (usize, &'d D)| (name(number, device), value(device));
    shared(&devices.iter().enumerate().map(pair).collect::<Vec<_>>())
}

pub(super) fn gpus(inventory: &Inventory) -> Section {
    let gpus = inventory.gpu_details.as_slice();
    let mut section = Section::new(format!("GPUs ({})", gpus.len()));
    if gpus.is_empty() {
        return section;
    }
    let all = |value: &dyn Fn(&GpuDetails) -> String| each(gpus, |number, _| format!("GPU{number}"), value);
    let mhz = |now: Option<u32>, most: Option<u32>| format!("{} of {} MHz", known(now), known(most));
    let capability = |gpu: &GpuDetails| gpu.compute_capability.map(|(major, minor)| format!("{major}.{minor}"));
    section.fact("model", all(&|gpu| or_unknown(&gpu.model)));
    section.fact(
        "architecture",
        all(&|gpu| format!("{}, compute capability {}", or_unknown(&gpu.architecture), known(capability(gpu)))),
    );
    section.fact("memory", all(&|gpu| known(gpu.memory_bytes.map(size))));
    section.fact("BAR1", all(&|gpu| known(gpu.bar1_bytes.map(size))));
    section.fact("persistence", all(&|gpu| on_off(gpu.persistence)));
    section.fact("ECC", all(&|gpu| on_off(gpu.ecc)));
    section.fact("MIG", all(&|gpu| on_off(gpu.mig)));
    section.fact("compute mode", all(&|gpu| or_unknown(&gpu.compute_mode)));
    section.fact("SM clock", all(&|gpu| mhz(gpu.clocks.sm, gpu.clocks.sm_most)));
    section.fact("memory clock", all(&|gpu| mhz(gpu.clocks.memory, gpu.clocks.memory_most)));
    section.fact("held down by", all(&|gpu| known(gpu.clock_limits.map(limits))));
    section.fact("fabric", all(&|gpu| or_unknown(&gpu.fabric_state)));
    if gpus.iter().any(|gpu| !gpu.driver_model.is_empty()) {
        section.fact("driver model", all(&|gpu| or_unknown(&gpu.driver_model)));
    }
    section.fact("dma-buf", all(&|gpu| format!("{} ({})", yes_no(gpu.dmabuf.possible), gpu.dmabuf.why)));
    for (number, gpu) in gpus.iter().enumerate() {
        section.row([format!("GPU{number}"), or_unknown(&gpu.address), or_unknown(&gpu.uuid)]);
    }
    section
}

/// Faults first, as they matter.
fn limits(limits: ClockLimits) -> String {
    let faults = limits.faults();
    let others = ClockLimits(limits.0 & !ClockLimits::FAULTS);
    match (faults.0 != 0, others.0 != 0) {
        (true, true) => format!("{faults} {others}"),
        (true, false) => faults.to_string(),
        _ => others.to_string(),
    }
}

pub(super) fn hcas(inventory: &Inventory) -> Section {
    let hcas = inventory.hca_details.as_slice();
    let mut section = Section::new(format!("HCAs ({})", hcas.len()));
    if hcas.is_empty() {
        return section;
    }
    let all = |value: &dyn Fn(&HcaDetails) -> String| each(hcas, |_, hca| hca.hca.clone(), value);
    section.fact(
        "kind",
        all(&|hca| format!("{} ({}:{})", or_unknown(&hca.kind), or_unknown(&hca.vendor), or_unknown(&hca.device))),
    );
    section.fact("driver", all(&|hca| or_unknown(&hca.driver)));
    section.fact("firmware", all(&|hca| or_unknown(&hca.firmware)));
    section.fact("board", all(&|hca| or_unknown(&hca.board)));
    section.fact("function", all(&|hca| function(&hca.function)));
    section.fact("bond", all(&|hca| if hca.bond.is_empty() { "none".to_owned() } else { hca.bond.clone() }));
    section.fact("relaxed ordering", all(&|hca| on_off(hca.pcie.relaxed_ordering)));
    let bytes = |of: Option<u32>| known(of.map(|of| size(u64::from(of))));
    section.fact(
        "PCIe payload",
        all(&|hca| format!("{}, reads of {}", bytes(hca.pcie.payload_bytes), bytes(hca.pcie.read_request_bytes))),
    );
    let places = inventory.topology.hcas.as_slice();
    for (number, hca) in hcas.iter().enumerate() {
        let (address, nets) =
            places.get(number).map(|hca| (hca.place.address.as_str(), hca.nets.join(" "))).unwrap_or_default();
        section.row([hca.hca.clone(), or_unknown(address), or_unknown(&hca.node_guid), nets]);
    }
    section
}

fn function(function: &PciFunction) -> String {
    match function {
        PciFunction::Plain => "plain".to_owned(),
        PciFunction::Physical { virtual_functions, most } => {
            format!("{virtual_functions} of {most} VFs")
        }
        PciFunction::Virtual { of } => format!("VF of {of}"),
    }
}

pub(super) fn ports(inventory: &Inventory) -> Section {
    let ports: Vec<(&HcaPort, &PortDetails)> = inventory.hca_ports.iter().zip(&inventory.port_details).collect();
    let mut section = Section::new(format!("HCA ports ({})", ports.len()));
    if ports.is_empty() {
        return section;
    }
    let name = |port: &PortDetails| format!("{}:{}", port.hca, port.port);
    let all = |value: &dyn Fn(&HcaPort, &PortDetails) -> String| {
        each(&ports, |_, (_, details)| name(details), |(port, details)| value(port, details))
    };
    section.fact("state", all(&|port, _| format!("{} {}", or_unknown(&port.state), port.phys_state).trim().to_owned()));
    section.fact("link", all(&|port, _| format!("{} {}", or_unknown(&port.link_layer), or_unknown(&port.rate))));
    section.fact("MTU", all(&|_, port| format!("{} of {}", known(port.active_mtu), known(port.max_mtu))));
    section.fact(
        "subnet manager",
        all(&|_, port| known(port.sm_lid.map(|lid| if lid == 0 { "none".to_owned() } else { format!("LID {lid}") }))),
    );
    section.fact(
        "traffic class",
        all(&|_, port| port.traffic_class.map_or("not forced".to_owned(), |class| class.to_string())),
    );
    if ports.iter().any(|(_, port)| !port.default_roce_mode.is_empty()) {
        section.fact(
            "rdma_cm",
            all(&|_, port| format!("{}, TOS {}", or_unknown(&port.default_roce_mode), known(port.default_roce_tos))),
        );
    }
    for (port, details) in &ports {
        let lid = if port.link_layer == "Ethernet" { String::new() } else { format!("LID {}", known(details.lid)) };
        section.row([name(details), lid, details.nets.join(" "), counters(details)]);
    }
    for (_, port) in &ports {
        for gid in &port.gids {
            let kind = known(gid.kind);
            section.row([format!("{} GID {}", name(port), gid.index), gid.gid.to_string(), kind, gid.net.clone()]);
        }
    }
    section
}

/// Counters that counted something; the others say that all is well.
fn counters(port: &PortDetails) -> String {
    if port.counters.is_empty() {
        return "counters ?".to_owned();
    }
    let counted: Vec<String> = port
        .counters
        .iter()
        .filter(|counter| counter.value > 0)
        .map(|counter| format!("{} {}", counter.name, counter.value))
        .collect();
    if counted.is_empty() { "no errors".to_owned() } else { counted.join(", ") }
}

pub(super) fn nets(inventory: &Inventory) -> Section {
    let nets = inventory.topology.nets.iter().zip(&inventory.net_details);
    let mut section = Section::new(format!("Network devices ({})", inventory.net_details.len()));
    for (net, details) in nets {
        let speed = net.speed_mbps.map_or("?".to_owned(), |speed| format!("{} Gb/s", f64::from(speed) / 1e3));
        let mut said = vec![kind(&details.kind)];
        let more = [
            (!details.master.is_empty()).then(|| format!("in {}", details.master)),
            (!details.lower.is_empty()).then(|| format!("on {}", fold(&details.lower))),
            match &details.function {
                PciFunction::Physical { virtual_functions: 1.., .. } | PciFunction::Virtual { .. } => {
                    Some(function(&details.function))
                }
                _ => None,
            },
        ];
        said.extend(more.into_iter().flatten());
        section.row([
            net.name.clone(),
            or_unknown(&net.state),
            speed,
            format!("MTU {}", net.mtu),
            or_unknown(&net.driver),
            said.join(", "),
        ]);
        let lossless = lossless(details);
        if !lossless.is_empty() {
            section.row([String::new(), lossless]);
        }
    }
    section
}

fn kind(kind: &NetKind) -> String {
    match kind {
        NetKind::Device => "device".to_owned(),
        NetKind::Bond(mode) => format!("bond {mode}"),
        NetKind::Vlan(number) => format!("VLAN {}", known(*number)),
        NetKind::Bridge => "bridge".to_owned(),
        NetKind::Virtual(kind) => format!("virtual {kind}").trim_end().to_owned(),
    }
}

/// `trust dscp, PFC 3, ECN tells 3, ECN reacts 3`, as far as it is known.
fn lossless(details: &gdrtune_wire::NetDetails) -> String {
    let lossless = &details.lossless;
    let priorities = |name: &str, of: &Option<Vec<u8>>| {
        let of = of.as_ref()?;
        let list: Vec<String> = of.iter().map(u8::to_string).collect();
        Some(format!("{name} {}", if list.is_empty() { "none".to_owned() } else { list.join(",") }))
    };
    let told = [
        (!lossless.trust.is_empty()).then(|| format!("trust {}", lossless.trust)),
        priorities("PFC", &lossless.pfc),
        priorities("ECN tells", &lossless.ecn_notifies),
        priorities("ECN reacts", &lossless.ecn_reacts),
    ];
    told.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub(super) fn bridges(inventory: &Inventory) -> Section {
    let bridges = inventory.bridges.as_slice();
    let mut section = Section::new(format!("PCIe bridges above them ({})", bridges.len()));
    if bridges.is_empty() {
        return section;
    }
    let all = |value: &dyn Fn(&PcieBridge) -> String| each(bridges, |_, bridge| bridge.address.clone(), value);
    section.fact("ACS redirects", all(&|bridge| yes_no(bridge.acs_redirects)));
    section.fact("atomics", all(&|bridge| yes_no(bridge.routes_atomics)));
    let kind = |bridge: &PcieBridge| {
        known(bridge.kind.map(|kind| match kind {
            BridgeKind::RootPort => "root port",
            BridgeKind::Upstream => "switch, up",
            BridgeKind::Downstream => "switch, down",
            BridgeKind::Other => "other",
        }))
    };
    for bridge in bridges {
        let numbers =
            if bridge.vendor.is_empty() { known(None::<&str>) } else { format!("{}:{}", bridge.vendor, bridge.device) };
        let above =
            if bridge.above.is_empty() { "at a host bridge".to_owned() } else { format!("below {}", bridge.above) };
        section.row([bridge.address.clone(), numbers, kind(bridge), bridge.link.to_string(), above]);
    }
    section
}
