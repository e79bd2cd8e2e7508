//! What the environment of one rank has beside that of its group. Pure.
//!
//! It must be in place when the worker starts: NCCL and CUDA read it when they load.

use std::{ffi::OsStr, path::PathBuf};

use gdrtune_profiles::vocab::Engine;
use gdrtune_wire::{Settings, StartGroup};

use super::environment::Variables;
use crate::engine::nccl::{
    HOST_ID_VARIABLE, LOCAL_RANK_VARIABLE, NCCL_PLUGIN_VARIABLE, PLUGIN_VARIABLE, RULES_VARIABLE,
};

/// Asks for emulated nodes where the message does not: `1` in the node's environment, or in the overlay of a live group.
const EMULATE_VARIABLE: &str = "GDRTUNE_EMULATE_NODES";

/// What all ranks of a group have.
pub(super) struct Shared {
    /// Their environment.
    pub(super) environment: Variables,
    /// The emitted rules that they run by, where there are any.
    pub(super) rules: Option<PathBuf>,
}

/// The environment of a rank, the `local_rank`th of this node.
pub(super) fn of_rank(group: &Shared, start: &StartGroup, rank: u32, local_rank: usize) -> Variables {
    let mut own = group.environment.clone();
    if start.engine != Engine::Nccl {
        return own;
    }
    own.insert(LOCAL_RANK_VARIABLE.into(), local_rank.to_string().into());
    let is_asked = own.get(OsStr::new(EMULATE_VARIABLE)).is_some_and(|value| value == "1");
    if start.emulate_nodes || is_asked {
        // NCCL takes ranks with different names for different hosts, and then lets them share a GPU.
        own.insert(HOST_ID_VARIABLE.into(), format!("gdrtune-node-{rank}").into());
    }
    let plugin = own.get(OsStr::new(PLUGIN_VARIABLE)).cloned();
    let is_live = matches!(start.settings, Settings::Live(_));
    if !is_live {
        // The default arm and the emitted files stand for jobs, which know nothing of ours.
        own.remove(OsStr::new(PLUGIN_VARIABLE));
    }
    match (plugin, &group.rules) {
        // Choices come with each item: NCCL must load the plugin that takes them.
        (Some(plugin), _) if is_live => {
            own.insert(NCCL_PLUGIN_VARIABLE.into(), plugin);
        }
        // As an installed profile does it.
        (Some(plugin), Some(rules)) => {
            own.insert(NCCL_PLUGIN_VARIABLE.into(), plugin);
            own.insert(RULES_VARIABLE.into(), rules.into());
        }
        _ => {}
    }
    own
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Environment;
    use gdrtune_wire::{GroupId, SessionKey};

    use super::*;

    fn start(engine: Engine, settings: Settings, emulate_nodes: bool) -> StartGroup {
        StartGroup {
            group: GroupId(1),
            world: 8,
            nodes: 2,
            ranks: vec![4, 5],
            engine,
            settings,
            key: SessionKey([0; 32]),
            max_bytes: 1024,
            deadline_ms: 1000,
            emulate_nodes,
            register_buffers: false,
            worker_command: vec![],
            probe: None,
        }
    }

    fn changes(group: &[(&str, &str)], start: &StartGroup) -> String {
        let environment: Variables = group.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let rules = matches!(start.settings, Settings::Deployed { bundle: 2 }).then(|| "/b/nccl-tuner.csv".into());
        let own = of_rank(&Shared { environment, rules }, start, 5, 1);
        let pairs = own.iter().map(|(name, value)| format!("{}={}", name.display(), value.display()));
        pairs.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_rank_of_nccl_has_its_own() {
        let live = || Settings::Live(Environment::new());
        let plugin = [("GDRTUNE_TUNER_PLUGIN", "/p.so"), ("NCCL_TUNER_PLUGIN", "site")];
        for (group, start, expected) in [
            (&[("A", "1")][..], start(Engine::Native, live(), true), "A=1"),
            (&[], start(Engine::Nccl, live(), false), "GDRTUNE_LOCAL_RANK=1"),
            (&[], start(Engine::Nccl, live(), true), "GDRTUNE_LOCAL_RANK=1 NCCL_HOSTID=gdrtune-node-5"),
            (
                &[("GDRTUNE_EMULATE_NODES", "1")],
                start(Engine::Nccl, Settings::Site, false),
                "GDRTUNE_EMULATE_NODES=1 GDRTUNE_LOCAL_RANK=1 NCCL_HOSTID=gdrtune-node-5",
            ),
            (
                &plugin,
                start(Engine::Nccl, live(), false),
                "GDRTUNE_LOCAL_RANK=1 GDRTUNE_TUNER_PLUGIN=/p.so NCCL_TUNER_PLUGIN=/p.so",
            ),
            (&plugin, start(Engine::Nccl, Settings::Site, false), "GDRTUNE_LOCAL_RANK=1 NCCL_TUNER_PLUGIN=site"),
            (
                &plugin,
                start(Engine::Nccl, Settings::Deployed { bundle: 1 }, false),
                "GDRTUNE_LOCAL_RANK=1 NCCL_TUNER_PLUGIN=site",
            ),
            (
                &plugin,
                start(Engine::Nccl, Settings::Deployed { bundle: 2 }, false),
                "GDRTUNE_LOCAL_RANK=1 GDRTUNE_RULES=/b/nccl-tuner.csv NCCL_TUNER_PLUGIN=/p.so",
            ),
        ] {
            assert_eq!(changes(group, &start), expected);
        }
    }
}
