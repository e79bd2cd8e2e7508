//! Whether the present cluster is what a profile was measured on.

use gdrtune_profiles::profile::Profile;
use gdrtune_wire::EngineReport;

use crate::{
    event::Record,
    hardware::{Difference, Hardware},
    open::Present,
    run::facts,
};

/// What a difference is called that nothing but the fingerprint tells of.
pub const FINGERPRINT: &str = "fingerprint";

/// What is otherwise than where the profile was measured: by its own words, and by the store of its run where that is here.
/// `report` is the library's word, where there is one.
///
/// Where none of these tells, but the fingerprint is another one, that is said.
pub fn differences(
    profile: &Profile,
    records: Option<&[Record]>,
    present: &Present,
    report: Option<&EngineReport>,
) -> Vec<Difference> {
    let report = report.filter(|report| report.version.is_some());
    let mut found: Vec<Difference> = gpu(profile, report).into_iter().collect();
    let version = report.and_then(|report| report.version.clone());
    found.extend(other("NCCL", profile.cluster.nccl.as_ref(), version.as_ref()));
    let hardware = records.and_then(Hardware::of_records);
    if let Some(hardware) = hardware {
        let now = Hardware::of_inventories(&present.inventories);
        found.extend(hardware.differences(&now).into_iter().filter(|difference| difference.what != "GPUs"));
    }
    if found.is_empty() {
        let now = facts::fingerprint(&present.request, &present.inventories, report);
        found.extend(other(FINGERPRINT, Some(&profile.cluster.fingerprint), Some(&now)));
    }
    found
}

/// Another model of GPU, which makes the profile another machine's.
pub fn gpu(profile: &Profile, report: Option<&EngineReport>) -> Option<Difference> {
    other("GPU", profile.cluster.gpu.as_ref(), report.and_then(|report| report.device.as_ref()))
}

/// Two values that are both known, and differ.
fn other(what: &'static str, from: Option<&String>, to: Option<&String>) -> Option<Difference> {
    let (from, to) = from.zip(to).filter(|(from, to)| from != to)?;
    Some(Difference { what, from: from.clone(), to: to.clone() })
}

#[cfg(test)]
mod tests {
    use gdrtune_wire::Inventory;

    use super::*;
    use crate::open::tests::request;

    fn present(kernel: &str) -> Present {
        let inventory = Inventory { kernel: kernel.into(), ..Inventory::default() };
        Present { request: request(&["a"]), inventories: vec![inventory], left_out: Vec::new(), accepted: Vec::new() }
    }

    fn words(found: &[Difference]) -> Vec<(&str, &str, &str)> {
        found.iter().map(|found| (found.what, found.from.as_str(), found.to.as_str())).collect()
    }

    #[test]
    fn the_library_the_gpu_and_at_last_the_fingerprint_are_compared() {
        let text = include_str!("../../../profiles/tests/golden/nccl.toml");
        let mut profile = Profile::parse(text, "golden").unwrap().0;
        let report = |version: &str, device: &str| EngineReport {
            version: Some(version.into()),
            device: Some(device.into()),
            ..EngineReport::default()
        };
        let now = report("2.29.1", "NVIDIA B200");
        let found = differences(&profile, None, &present("6.1"), Some(&now));
        assert_eq!(words(&found), [("GPU", "NVIDIA H200", "NVIDIA B200"), ("NCCL", "2.28.9", "2.29.1")]);
        assert_eq!(gpu(&profile, None), None);

        let same = report("2.28.9", "NVIDIA H200");
        let found = differences(&profile, None, &present("6.1"), Some(&same));
        assert!(found.len() == 1 && found[0].what == FINGERPRINT, "{found:?}");
        profile.cluster.fingerprint.clone_from(&found[0].to);
        assert!(differences(&profile, None, &present("6.1"), Some(&same)).is_empty());
        assert_eq!(differences(&profile, None, &present("6.8"), Some(&same)).len(), 1);
    }
}
