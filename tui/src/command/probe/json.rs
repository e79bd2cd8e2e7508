//! A probe as one JSON document, which `tune --ceilings` reads, too.

use gdrtune_profiles::bindings::{Evidence, ceilings::Judgement};
use gdrtune_session::probe::ProbedLink;
use gdrtune_wire::ProbeRate;
use serde_json::{Value, json};

use super::Findings;

/// The document. Rates are in GB/s (10^9 bytes), times in microseconds.
pub(super) fn document(findings: &Findings<'_>) -> Value {
    let probe = findings.probe;
    let odd = findings.odd.iter().map(|(port, judgement)| {
        let (verdict, Evidence { hosts, text }) = match judgement {
            Judgement::Useless(evidence) => ("useless", evidence),
            Judgement::Slow(evidence) => ("slow", evidence),
        };
        json!({"hca": port.hca, "port": port.port, "verdict": verdict, "hosts": hosts, "text": text})
    });
    json!({
        "schema_version": 1,
        "links": probe.links.iter().map(link).collect::<Vec<_>>(),
        "odd": odd.collect::<Vec<_>>(),
        "lost": probe.lost.iter().map(|(host, why)| json!({"host": host, "why": why})).collect::<Vec<_>>(),
    })
}

fn link(link: &ProbedLink) -> Value {
    let rate = |rate: &ProbeRate| json!({"bytes": rate.bytes, "gbs": rate.gbs});
    let mut value = json!(link.ceiling);
    value["rates"] = link.rates.iter().map(rate).collect();
    value
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::bindings::ceilings::{Ceiling, Ceilings, Memory, Outcome};
    use gdrtune_session::probe::Probe;

    use super::*;

    #[test]
    fn what_is_printed_is_what_tune_reads() {
        let outcome = Outcome::Measured { gbs: 48.5, us: Some(1.5) };
        let [node, hca, peer] = ["n1", "mlx5_0", "n2"].map(str::to_owned);
        let ceiling = Ceiling { node, hca, port: 1, peer, memory: Memory::Gpu(3), outcome };
        let rates = vec![ProbeRate { bytes: 65536, gbs: 20.0 }, ProbeRate { bytes: 1 << 20, gbs: 48.5 }];
        let probe = Probe { links: vec![ProbedLink { ceiling, rates }], lost: Vec::new() };
        let printed = document(&Findings { probe: &probe, odd: Vec::new(), hosts: 2 }).to_string();
        assert_eq!(serde_json::from_str::<Ceilings>(&printed).unwrap(), probe.ceilings());
        assert!(printed.contains("\"rates\":[{\"bytes\":65536,\"gbs\":20.0}"), "{printed}");
    }
}
