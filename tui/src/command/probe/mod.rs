//! `gdrtune probe`: what each HCA carries between hosts, by RDMA.

mod json;
mod text;

use std::{
    io::{self, Write},
    time::Duration,
};

use gdrtune_profiles::{
    bindings::{PortId, ceilings::Judgement},
    json::document,
};
use gdrtune_session::{
    connect::{self, ConnectError, Register},
    lock::Company,
    open::{self, Present, with_nodes},
    probe::{self as prober, Probe, ProbeError, ProbeMemory, ProbePlan},
    run::new_run_id,
};

use crate::{
    cli::{MemoryArg, ProbeArgs},
    exit::{Exit, Failure},
    hosts::{self, Surroundings},
};

/// Workers of a host in a round.
const WORKERS: u32 = 1;

/// Bytes of memory that a worker pins at most, for hosts with eight HCAs.
const PINNED_BYTES: u64 = 8 * (17 << 20);

/// Shortest time that a way can be measured in: a few laps on a slow link.
const LEAST_TIME: Duration = Duration::from_millis(50);

/// What was found.
struct Findings<'a> {
    probe: &'a Probe,
    /// Ports that are slower than the others, or failed.
    odd: Vec<(PortId, Judgement)>,
    hosts: usize,
}

pub(crate) fn probe(args: &ProbeArgs) -> Result<Exit, Failure> {
    if !gdrtune_node::HAS_RDMA {
        let text = "this gdrtune is built without RDMA, and cannot probe; `gdrtune topo` lists HCAs and their ports all the same";
        return Err(Failure::new(Exit::Preflight, anyhow::Error::msg(text)).with_hint(
            "build it with `cargo build --release --features rdma`, which needs cmake, libclang and libibverbs' headers (Debian: cmake \
             libclang-dev libibverbs-dev)",
        ));
    }
    if args.time() < LEAST_TIME {
        return Err(Failure::usage_text(format!("--time: less than {} ms measures nothing", LEAST_TIME.as_millis())));
    }
    let place = hosts::resolve(&args.hosts, WORKERS, Surroundings::Job)?;
    let slots = vec![WORKERS; place.hosts.len()];
    let cluster = open::ClusterRequest {
        slots,
        shared: args.shared,
        wait: args.wait(),
        ..super::cluster_at(place, &super::announce)?
    };
    let runtime = super::runtime()?;
    // A signal ends this process as usual, and with it the agents, which end with their input.
    let company = Company { interrupted: &|| false, tell: &super::say };
    let run = new_run_id();
    let register = Register { recorder: None, numbers: &[] };
    let measure = |mut link: gdrtune_session::cluster::link::FleetLink<'_>, present: &Present| {
        check_users(present).map_err(Refused::Hosts)?;
        let plan = ProbePlan {
            hosts: &present.request.hosts,
            inventories: &present.inventories,
            only: args.hca.clone(),
            memory: match args.memory {
                MemoryArg::Host => ProbeMemory::Host,
                MemoryArg::Gpu => ProbeMemory::NearestGpu,
                MemoryArg::AllGpus => ProbeMemory::EveryGpu,
            },
            partners: args.partners.map(|most| most as usize),
            time: args.time(),
            key: open::new_key(),
        };
        prober::probe(&mut link, &plan, company).map_err(Refused::Probe)
    };
    let hosts = cluster.hosts.len();
    let found = with_nodes(runtime.handle(), &cluster, (&run, PINNED_BYTES), (register, company), measure);
    let found = match found.map_err(super::unusable)? {
        Ok(found) => found,
        Err(Refused::Hosts(error)) => return Err(super::unusable(error)),
        Err(Refused::Probe(error)) => return Err(unprobed(error)),
    };
    let findings = Findings { probe: &found, odd: found.ceilings().judge().into_iter().collect(), hosts };
    if args.json {
        io::stdout().lock().write_all(document(&json::document(&findings)).as_bytes())?;
    } else {
        super::print_fitted(&text::text(&findings, super::columns()))?;
    }
    for (host, why) in &found.lost {
        super::say(&format!("{host} is lost: {why}"));
    }
    Ok(exit(&findings))
}

/// Why nothing was measured.
enum Refused {
    Hosts(ConnectError),
    Probe(ProbeError),
}

/// HCAs that others use are neither fast nor theirs to slow down.
fn check_users(present: &Present) -> Result<(), ConnectError> {
    if present.request.shared {
        return Ok(());
    }
    // No GPU of theirs is in the way.
    let no_gpus = vec![0; present.request.hosts.len()];
    connect::check_device_users(&present.request.hosts, &no_gpus, &present.inventories).map_err(|refusal| refusal.error)
}

fn unprobed(error: ProbeError) -> Failure {
    let (exit, hint) = match error {
        ProbeError::OneNode => (Exit::Usage, "-w 'node[01-04]' names hosts"),
        ProbeError::NoWay { .. } => (Exit::Preflight, "`gdrtune topo` shows which ports there are, and their states"),
        ProbeError::Interrupted => (Exit::Interrupted, "start it again"),
    };
    Failure::new(exit, error).with_hint(hint)
}

fn exit(findings: &Findings<'_>) -> Exit {
    if !findings.probe.lost.is_empty() {
        return Exit::NodesLost;
    }
    let is_odd = !findings.odd.is_empty() || text::odd_ways(findings.probe).next().is_some();
    if is_odd { Exit::Findings } else { Exit::Done }
}
