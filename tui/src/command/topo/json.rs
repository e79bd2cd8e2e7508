//! A survey as one JSON document, for programs.

use gdrtune_profiles::bindings::{Bindings, Candidate, Finding, Offer};
use gdrtune_profiles::topology::{Gpu, GpuPath, Hca, Lanes, PcieLink, Port};
use gdrtune_profiles::vocab::PcieDistance;
use gdrtune_session::topology::{Difference, Group, Rail, Survey};
use serde_json::{Value, json};

/// The document; `failed` are hosts that could not be looked at, and why. Distances and ways are words as `nvidia-smi topo -m` prints
/// them, `null` where they are not known. What jobs can be bound to is there where it was asked for.
pub(super) fn document(survey: &Survey, bindings: Option<&Bindings>, failed: &[(String, String)]) -> Value {
    let difference = |Difference { hosts, what, own, most }: &Difference| json!({"hosts": hosts, "what": what, "own": own, "most": most});
    let mut document = json!({
        "schema_version": 1,
        "groups": survey.groups.iter().map(group).collect::<Vec<_>>(),
        "differences": survey.differences.iter().map(difference).collect::<Vec<_>>(),
        "rails": survey.rails.iter().map(rail).collect::<Vec<_>>(),
        "notes": survey.notes,
        "failed": failed.iter().map(|(host, why)| json!({"host": host, "why": why})).collect::<Vec<_>>(),
    });
    if let Some(bindings) = bindings {
        document["bindings"] = bindings.offers.iter().map(|offer| self::offer(bindings, offer)).collect();
    }
    document
}

fn offer(bindings: &Bindings, offer: &Offer) -> Value {
    let candidate = |Candidate { value, why, alike, is_default }: &Candidate| json!({"value": value, "why": why, "alike": alike, "same_as_unset": is_default});
    let finding = |Finding { what, verdict, evidence, .. }: &Finding| json!({"what": what, "verdict": verdict, "hosts": evidence.hosts, "text": evidence.text});
    let findings = bindings.findings.iter().filter(|found| found.variable == offer.variable);
    json!({
        "variable": offer.variable,
        "candidates": offer.candidates.iter().map(candidate).collect::<Vec<_>>(),
        "why_none": offer.values().is_empty().then_some(&offer.why_none),
        "findings": findings.map(finding).collect::<Vec<_>>(),
    })
}

fn group(group: &Group) -> Value {
    let machine = &group.machine;
    let near = |gpu: usize| {
        let nearest = group.nearest.get(gpu)?.as_ref()?;
        let names: Vec<&str> =
            nearest.hcas.iter().filter_map(|at| Some(machine.hcas.get(*at)?.name.as_str())).collect();
        Some(json!({"distance": nearest.distance.nccl_name(), "hcas": names}))
    };
    let of_gpu = |(number, gpu): (usize, &Gpu)| {
        let words =
            |row: &Vec<Option<PcieDistance>>| row.iter().map(|d| d.map(PcieDistance::nccl_name)).collect::<Vec<_>>();
        let ways =
            |row: &Vec<Option<GpuPath>>| row.iter().map(|way| way.map(|way| way.to_string())).collect::<Vec<_>>();
        json!({
            "index": number,
            "model": gpu.model,
            "address": gpu.address,
            "numa": gpu.numa,
            "link": link(gpu.link),
            "to_hcas": machine.to_hcas.get(number).map(words),
            "to_gpus": machine.gpu_paths.get(number).map(ways),
            "nearest": near(number),
        })
    };
    json!({
        "hosts": group.hosts,
        "numa_nodes": machine.numa_nodes,
        "gpus": machine.gpus.iter().enumerate().map(of_gpu).collect::<Vec<_>>(),
        "hcas": machine.hcas.iter().map(hca).collect::<Vec<_>>(),
        "warnings": group.warnings,
        "notes": machine.notes,
    })
}

fn hca(hca: &Hca) -> Value {
    let port = |Port { number, state, link_layer, rate }: &Port| json!({"port": number, "state": state, "link_layer": link_layer, "rate": rate});
    json!({
        "name": hca.name,
        "address": hca.address,
        "numa": hca.numa,
        "link": link(hca.link),
        "ports": hca.ports.iter().map(port).collect::<Vec<_>>(),
    })
}

fn link(link: PcieLink) -> Value {
    let lanes = |lanes: Lanes| json!({"mtps": lanes.mtps, "lanes": lanes.count});
    json!({"current": link.current.map(lanes), "most": link.most.map(lanes)})
}

fn rail(rail: &Rail) -> Value {
    json!({
        "name": rail.name,
        "hosts": rail.hosts,
        "down": rail.down,
        "missing": rail.missing,
        "rates": rail.rates,
        "gpus": rail.gpus,
        "whole": rail.is_whole(),
    })
}
