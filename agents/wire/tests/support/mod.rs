//! Arbitrary values of every message type.

mod details;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use gdrtune_profiles::{
    bindings::ceilings::{Failure, Memory},
    install::{Manifest, ManifestFile},
    topology::{GpuPath, Lanes, PcieLink},
    vocab::{Algorithm, Choice, Collective, DataType, Engine, Environment, PcieDistance, Point, Protocol, ReduceOp},
};
use gdrtune_wire::*;
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::select,
};

/// Any text, control characters and astral planes included, but short.
fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..20).prop_map(String::from_iter)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..200)
}

fn environment() -> impl Strategy<Value = Environment> {
    btree_map(text(), text(), 0..5).prop_map(Environment)
}

fn choice() -> impl Strategy<Value = Choice> {
    (select(Algorithm::ALL), select(Protocol::ALL), any::<u16>()).prop_map(|(algorithm, protocol, channels)| Choice {
        algorithm,
        protocol,
        channels,
    })
}

fn point() -> impl Strategy<Value = Point> {
    (select(Collective::ALL), any::<u64>()).prop_map(|(collective, bytes)| Point { collective, bytes })
}

fn key() -> impl Strategy<Value = SessionKey> {
    any::<[u8; 32]>().prop_map(SessionKey)
}

fn group() -> impl Strategy<Value = GroupId> {
    any::<u32>().prop_map(GroupId)
}

fn hello() -> impl Strategy<Value = Hello> {
    (any::<u32>(), text(), text(), text(), any::<u32>())
        .prop_map(|(protocol, build_id, hostname, boot_id, pid)| Hello { protocol, build_id, hostname, boot_id, pid })
}

fn item() -> impl Strategy<Value = Item> {
    let what = (point(), option::of(choice()), select(DataType::ALL), select(ReduceOp::ALL));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let how = (any::<u32>(), flags, any::<u32>(), any::<u32>(), any::<u64>());
    (what, how).prop_map(|((point, choice, data_type, op), (root, flags, warmup, iterations, lease_ms))| {
        let (in_place, graph, check) = flags;
        Item { point, choice, data_type, op, root, in_place, graph, check, warmup, iterations, lease_ms }
    })
}

fn script() -> impl Strategy<Value = Script> {
    (any::<u64>(), vec(item(), 0..8)).prop_map(|(id, items)| Script { id, items })
}

fn settings() -> impl Strategy<Value = Settings> {
    prop_oneof![
        Just(Settings::Site),
        environment().prop_map(Settings::Live),
        any::<u32>().prop_map(|bundle| Settings::Deployed { bundle }),
        text().prop_map(|folder| Settings::Installed { folder }),
    ]
}

fn start_group() -> impl Strategy<Value = StartGroup> {
    let who = (group(), any::<u32>(), any::<u32>(), vec(any::<u32>(), 0..10), select(Engine::ALL));
    let how = (settings(), key(), any::<u64>(), any::<u64>(), any::<[bool; 2]>());
    (who, how, vec(text(), 0..4), option::of(probe_setup())).prop_map(
        |(
            (group, world, nodes, ranks, engine),
            (settings, key, max_bytes, deadline_ms, flags),
            worker_command,
            probe,
        )| {
            StartGroup {
                group,
                world,
                nodes,
                ranks,
                engine,
                settings,
                key,
                max_bytes,
                deadline_ms,
                emulate_nodes: flags[0],
                register_buffers: flags[1],
                worker_command,
                probe,
            }
        },
    )
}

fn probe_setup() -> impl Strategy<Value = ProbeSetup> {
    let memory = prop_oneof![Just(Memory::Host), any::<u32>().prop_map(Memory::Gpu)];
    let way = (text(), any::<u16>(), memory).prop_map(|(hca, port, memory)| ProbeWay { hca, port, memory });
    vec(way, 0..4).prop_map(|ways| ProbeSetup { ways })
}

fn probe_outcome() -> impl Strategy<Value = ProbeOutcome> {
    let rate = (any::<u64>(), number()).prop_map(|(bytes, gbs)| ProbeRate { bytes, gbs });
    let failures = [Failure::Device, Failure::Connect, Failure::Transfer, Failure::Timeout, Failure::Wrong];
    prop_oneof![
        (vec(rate, 0..4), number()).prop_map(|(rates, latency_us)| ProbeOutcome::Measured { rates, latency_us }),
        (select(failures.to_vec()), text()).prop_map(|(failure, why)| ProbeOutcome::Failed { failure, why }),
    ]
}

fn probe_step() -> impl Strategy<Value = ProbeStep> {
    (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(number, way, time_ms, lease_ms)| ProbeStep {
        number,
        way,
        time_ms,
        lease_ms,
    })
}

fn worker_init() -> impl Strategy<Value = WorkerInit> {
    let who = (any::<u32>(), any::<u32>(), any::<u32>(), select(Engine::ALL));
    let how = (key(), any::<u64>(), any::<u64>(), any::<bool>(), option::of(probe_setup()));
    (who, how).prop_map(|((rank, world, nodes, engine), (key, max_bytes, deadline_ms, register_buffers, probe))| {
        WorkerInit { rank, world, nodes, engine, key, max_bytes, deadline_ms, register_buffers, probe }
    })
}

/// Finite numbers only: a NaN does not equal itself. [`super`] tests it apart.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![proptest::num::f64::NORMAL, proptest::num::f64::ZERO, proptest::num::f64::SUBNORMAL]
}

fn times() -> impl Strategy<Value = Times> {
    let numbers = (number(), number(), number(), number(), number());
    (numbers, option::of(choice()), any::<bool>(), vec(prediction(), 0..4)).prop_map(
        |((mean_us, median_us, min_us, max_us, cpu_us), selected, checked, predictions)| Times {
            mean_us,
            median_us,
            min_us,
            max_us,
            cpu_us,
            selected,
            checked,
            predictions,
        },
    )
}

fn prediction() -> impl Strategy<Value = Prediction> {
    (choice(), any::<u16>()).prop_map(|(choice, time_us)| Prediction {
        algorithm: choice.algorithm,
        protocol: choice.protocol,
        time_us: time_us.into(),
    })
}

fn engine_report() -> impl Strategy<Value = EngineReport> {
    let texts = (option::of(text()), option::of(text()), option::of(text()));
    let counts = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    let network = (vec(text(), 0..3), counts).prop_map(|(paths, (sends, gdr_sends, receives, gdr_receives))| {
        NetworkUse { paths, sends, gdr_sends, receives, gdr_receives }
    });
    let logs = (vec(text(), 0..3), vec(text(), 0..3));
    (texts, option::of(any::<u16>()), option::of(network), logs).prop_map(
        |((version, library, device), channels, network, (plugin_log, gdr_log))| EngineReport {
            version,
            library,
            device,
            channels,
            network,
            plugin_log,
            gdr_log,
        },
    )
}

fn outcome() -> impl Strategy<Value = ItemOutcome> {
    prop_oneof![
        times().prop_map(ItemOutcome::Timed),
        (any::<u64>(), text()).prop_map(|(elements, first)| ItemOutcome::Wrong { elements, first }),
        text().prop_map(ItemOutcome::Unsupported),
    ]
}

fn end_cause() -> impl Strategy<Value = EndCause> {
    prop_oneof![
        Just(EndCause::Finished),
        Just(EndCause::Stopped),
        text().prop_map(|during| EndCause::Deadline { during }),
        any::<i32>().prop_map(EndCause::Exit),
        any::<i32>().prop_map(EndCause::Signal),
        text().prop_map(EndCause::NotStarted),
        Just(EndCause::PeerEnded),
    ]
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|octets| IpAddr::V4(Ipv4Addr::from(octets))),
        any::<[u8; 16]>().prop_map(|octets| IpAddr::V6(Ipv6Addr::from(octets))),
    ]
}

fn interface() -> impl Strategy<Value = Interface> {
    (text(), vec((address(), any::<u8>()), 0..4), any::<bool>(), any::<u32>(), option::of(any::<u32>())).prop_map(
        |(name, addresses, loopback, mtu, speed_mbps)| {
            let (addresses, prefixes) = addresses.into_iter().unzip();
            Interface { name, addresses, prefixes, loopback, mtu, speed_mbps }
        },
    )
}

fn device_user() -> impl Strategy<Value = DeviceUser> {
    let device = prop_oneof![
        any::<u32>().prop_map(UsedDevice::Gpu),
        text().prop_map(UsedDevice::SomeGpu),
        text().prop_map(UsedDevice::Hca),
    ];
    (any::<u32>(), text(), text(), vec(device, 0..3)).prop_map(|(pid, user, command, devices)| DeviceUser {
        pid,
        user,
        command,
        devices,
    })
}

fn place() -> impl Strategy<Value = Place> {
    let lanes = || option::of((any::<u32>(), any::<u8>()).prop_map(|(mtps, count)| Lanes { mtps, count }));
    let link = (lanes(), lanes()).prop_map(|(current, most)| PcieLink { current, most });
    (text(), option::of(any::<u32>()), link).prop_map(|(address, numa, link)| Place { address, numa, link })
}

fn topology() -> impl Strategy<Value = Topology> {
    let gpu = (text(), place()).prop_map(|(model, place)| Gpu { model, place });
    let hca = (text(), place(), vec(text(), 0..2)).prop_map(|(name, place, nets)| Hca { name, place, nets });
    let net = (text(), text(), option::of(any::<u32>()), any::<u32>(), text(), place()).prop_map(
        |(name, state, speed_mbps, mtu, driver, place)| NetDevice { name, state, speed_mbps, mtu, driver, place },
    );
    let distance = option::of(select(PcieDistance::ALL));
    let path = option::of(prop_oneof![
        any::<u32>().prop_map(GpuPath::NvLinks),
        select(PcieDistance::ALL).prop_map(GpuPath::Pcie),
    ]);
    let matrices = (vec(vec(distance, 0..3), 0..3), vec(vec(path, 0..3), 0..3));
    let lists = (vec(gpu, 0..3), vec(hca, 0..3), vec(net, 0..3), matrices);
    (any::<u32>(), lists).prop_map(|(numa_nodes, (gpus, hcas, nets, (distances, gpu_paths)))| Topology {
        numa_nodes,
        gpus,
        hcas,
        nets,
        distances,
        gpu_paths,
    })
}

fn inventory() -> impl Strategy<Value = Inventory> {
    let names = (text(), text(), text(), text());
    let rest = (any::<u32>(), any::<u64>(), vec(interface(), 0..4), environment(), vec(text(), 0..3));
    let port = (text(), any::<u16>(), text(), text(), text(), text()).prop_map(
        |(hca, port, link_layer, rate, state, phys_state)| HcaPort { hca, port, link_layer, rate, state, phys_state },
    );
    let conf = (text(), text()).prop_map(|(path, text)| ConfFile { path, text });
    let file = (text(), text(), option::of(text())).prop_map(|(variable, path, problem)| NamedFile {
        variable,
        path,
        problem,
    });
    let confs = (vec(conf, 0..3), vec(file, 0..3));
    let devices = (text(), vec(text(), 0..3), text(), vec(port, 0..3), confs);
    (names, rest, vec(device_user(), 0..3), devices, (topology(), details::details())).prop_map(
        |(
            (hostname, boot_id, kernel, arch),
            (cpus, memory_bytes, interfaces, site_env, unreadable),
            users,
            (cpu_model, gpus, driver, hca_ports, (nccl_confs, named_files)),
            (topology, (gpu_details, hca_details, port_details, net_details, bridges, system)),
        )| {
            Inventory {
                hostname,
                boot_id,
                kernel,
                arch,
                cpus,
                memory_bytes,
                interfaces,
                site_env,
                unreadable,
                device_users: users,
                cpu_model,
                gpus,
                driver,
                hca_ports,
                topology,
                nccl_confs,
                named_files,
                gpu_details,
                hca_details,
                port_details,
                net_details,
                bridges,
                system,
            }
        },
    )
}

pub(crate) fn to_worker() -> impl Strategy<Value = ToWorker> {
    prop_oneof![
        worker_init().prop_map(ToWorker::Init),
        vec(bytes(), 0..5).prop_map(|peers| ToWorker::Connect { peers }),
        script().prop_map(ToWorker::Run),
        probe_step().prop_map(ToWorker::Probe),
        Just(ToWorker::Quit),
    ]
}

pub(crate) fn from_worker() -> impl Strategy<Value = FromWorker> {
    prop_oneof![
        bytes().prop_map(FromWorker::Bootstrap),
        (any::<u64>(), engine_report())
            .prop_map(|(setup_us, engine)| FromWorker::Connected { setup_us, engine: Box::new(engine) }),
        (any::<u64>(), any::<u32>(), outcome()).prop_map(|(script, item, outcome)| FromWorker::Item {
            script,
            item,
            outcome
        }),
        any::<u64>().prop_map(|script| FromWorker::ScriptDone { script }),
        (any::<u32>(), probe_outcome()).prop_map(|(number, outcome)| FromWorker::Probed { number, outcome }),
        text().prop_map(FromWorker::Failed),
        text().prop_map(FromWorker::Output),
        text().prop_map(|version| FromWorker::Library { version }),
    ]
}

fn manifest() -> impl Strategy<Value = Manifest> {
    let texts = (text(), text(), text(), vec(text(), 0..2));
    let files = vec((text(), text()).prop_map(|(name, sha256)| ManifestFile { name, sha256 }), 0..3);
    (any::<u32>(), texts, any::<u32>(), files).prop_map(|(format, (gdrtune, run, path, labels), rules, files)| {
        Manifest { format, gdrtune, run, path, labels, rules, files }
    })
}

fn install_outcome() -> impl Strategy<Value = InstallOutcome> {
    prop_oneof![
        vec(text(), 0..3).prop_map(|files| InstallOutcome::Installed { files }),
        (vec(text(), 0..3), vec(text(), 0..3))
            .prop_map(|(removed, kept)| InstallOutcome::Uninstalled { removed, kept }),
        (manifest(), vec(text(), 0..3))
            .prop_map(|(manifest, findings)| InstallOutcome::Inspected { manifest, findings }),
        Just(InstallOutcome::NotInstalled),
        text().prop_map(InstallOutcome::Failed),
    ]
}

fn lock_outcome() -> impl Strategy<Value = LockOutcome> {
    let holder = (any::<u32>(), text(), text(), any::<u64>()).prop_map(|(pid, user, run, since_s)| LockHolder {
        pid,
        user,
        run,
        since_s,
    });
    prop_oneof![
        Just(LockOutcome::Held),
        vec(holder, 0..3).prop_map(LockOutcome::InUse),
        text().prop_map(LockOutcome::Failed),
    ]
}

pub(crate) fn to_agent() -> impl Strategy<Value = ToAgent> {
    prop_oneof![
        hello().prop_map(ToAgent::Hello),
        any::<u64>().prop_map(ToAgent::Ping),
        Just(ToAgent::Inventory),
        (any::<u32>(), vec((text(), bytes()), 0..4)).prop_map(|(bundle, files)| ToAgent::StoreFiles { bundle, files }),
        start_group().prop_map(ToAgent::Start),
        (group(), to_worker()).prop_map(|(group, message)| ToAgent::ToWorkers { group, message }),
        group().prop_map(ToAgent::Stop),
        Just(ToAgent::Shutdown),
        (text(), vec((text(), bytes()), 0..4), any::<bool>(), manifest(), any::<bool>()).prop_map(
            |(folder, files, with_plugin, manifest, force)| {
                ToAgent::Install(Box::new(Installation { folder, files, with_plugin, manifest, force }))
            }
        ),
        (text(), any::<bool>()).prop_map(|(folder, force)| ToAgent::Uninstall { folder, force }),
        text().prop_map(|folder| ToAgent::InspectInstallation { folder }),
        (text(), any::<u64>(), any::<bool>()).prop_map(|(run, client, shared)| ToAgent::Lock(LockRequest {
            run,
            client,
            shared
        })),
        Just(ToAgent::Unlock),
        listen_request().prop_map(ToAgent::Listen),
        dial_request().prop_map(ToAgent::Dial),
        Just(ToAgent::Clock),
    ]
}

fn listen_request() -> impl Strategy<Value = ListenRequest> {
    let addresses = vec(any::<Ipv4Addr>(), 0..3);
    (any::<u32>(), any::<u32>(), key(), addresses, any::<u64>()).prop_map(
        |(number, nodes, key, addresses, lifetime_ms)| ListenRequest { number, nodes, key, addresses, lifetime_ms },
    )
}

fn dial_request() -> impl Strategy<Value = DialRequest> {
    let target = (any::<u32>(), any::<u32>(), any::<std::net::SocketAddrV4>())
        .prop_map(|(number, place, address)| DialTarget { number, place, address });
    (any::<u32>(), key(), vec(target, 0..3), any::<u64>()).prop_map(|(number, key, targets, limit_ms)| DialRequest {
        number,
        key,
        targets,
        limit_ms,
    })
}

fn dialled() -> impl Strategy<Value = Dialled> {
    let fault = prop_oneof![
        Just(DialFault::Silent),
        Just(DialFault::Refused),
        Just(DialFault::Stranger),
        text().prop_map(DialFault::NoRoute),
        text().prop_map(DialFault::Other),
    ];
    let outcome = prop_oneof![any::<u64>().prop_map(Ok), fault.prop_map(Err)];
    (any::<u32>(), any::<u32>(), outcome).prop_map(|(number, place, outcome)| Dialled { number, place, outcome })
}

pub(crate) fn from_agent() -> impl Strategy<Value = FromAgent> {
    prop_oneof![
        hello().prop_map(FromAgent::Hello),
        any::<u64>().prop_map(FromAgent::Pong),
        inventory().prop_map(|inventory| FromAgent::Inventory(Box::new(inventory))),
        any::<u32>().prop_map(|bundle| FromAgent::FilesStored { bundle }),
        text().prop_map(|why| FromAgent::Refused { why }),
        (group(), any::<u32>(), from_worker()).prop_map(|(group, rank, message)| FromAgent::Worker {
            group,
            rank,
            message
        }),
        (group(), any::<u32>(), end_cause()).prop_map(|(group, rank, cause)| FromAgent::WorkerEnded {
            group,
            rank,
            cause
        }),
        text().prop_map(FromAgent::Log),
        install_outcome().prop_map(FromAgent::Installation),
        lock_outcome().prop_map(FromAgent::Lock),
        prop_oneof![vec(any::<u16>(), 0..3).prop_map(Ok), text().prop_map(Err)].prop_map(FromAgent::Listening),
        vec(dialled(), 0..3).prop_map(FromAgent::Dialled),
        any::<u64>().prop_map(FromAgent::Clock),
    ]
}
