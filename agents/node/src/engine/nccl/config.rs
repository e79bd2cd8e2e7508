//! What the environment of a worker says to the engine. Read once; never written.

use std::path::PathBuf;

use crate::engine::EngineError;

/// Path of the NCCL library; without it, the usual places are searched.
pub const LIBRARY_VARIABLE: &str = "GDRTUNE_NCCL_LIB";

/// CUDA device of the workers of this node: one index, or a list that local ranks share in turn.
pub const GPU_VARIABLE: &str = "GDRTUNE_GPU";

/// Number of this rank among those of its node; the agent sets it.
pub const LOCAL_RANK_VARIABLE: &str = "GDRTUNE_LOCAL_RANK";

/// Path of our tuner plugin, for workers that switch choices.
pub const PLUGIN_VARIABLE: &str = "GDRTUNE_TUNER_PLUGIN";

/// Path of the rules that our plugin follows.
pub const RULES_VARIABLE: &str = "GDRTUNE_RULES";

/// NCCL's own variable for a tuner plugin.
pub const NCCL_PLUGIN_VARIABLE: &str = "NCCL_TUNER_PLUGIN";

/// Path of the file that NCCL was asked to log to, for workers that read there what ran.
pub const LOG_VARIABLE: &str = "GDRTUNE_NCCL_LOG";

/// NCCL's own variables that ask it for that log: level, subsystems, file.
pub const LOG_REQUEST_VARIABLES: [&str; 3] = ["NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"];

/// What NCCL takes for the identity of the host.
pub const HOST_ID_VARIABLE: &str = "NCCL_HOSTID";

/// Settings of one rank.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NcclConfig {
    /// The NCCL library, where one is named.
    pub library: Option<PathBuf>,
    /// CUDA devices that local ranks share in turn; empty for all of them.
    pub gpus: Vec<u32>,
    /// Number of this rank among those of its node.
    pub local_rank: u32,
    /// The plugin that takes choices; `None` where choices cannot be made.
    pub live_plugin: Option<PathBuf>,
    /// The plugin of the emitted files, which only tells what it decided.
    pub deployed_plugin: Option<PathBuf>,
    /// Whether that plugin has rules to follow.
    pub has_rules: bool,
    /// Host identity that NCCL is told, where it is told one.
    pub host_id: Option<String>,
    /// NCCL's log of this rank, where there is one to be read.
    pub log: Option<PathBuf>,
}

impl NcclConfig {
    /// Reads the environment of this process. `is_deployed` for a worker that runs from emitted files.
    ///
    /// # Errors
    /// [`EngineError::Setting`] where a value cannot be used.
    pub fn from_environment(is_deployed: bool) -> Result<Self, EngineError> {
        Self::from_lookup(is_deployed, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_lookup(is_deployed: bool, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, EngineError> {
        let nccl_plugin = lookup(NCCL_PLUGIN_VARIABLE);
        let live_plugin = lookup(PLUGIN_VARIABLE).filter(|_| !is_deployed);
        if let Some(value) = live_plugin.as_ref().filter(|path| nccl_plugin.as_ref() != Some(path)) {
            let why = format!("{NCCL_PLUGIN_VARIABLE} must name the same file, or NCCL loads another plugin");
            return Err(EngineError::Setting { name: PLUGIN_VARIABLE, value: value.clone(), why });
        }
        let gpus = lookup(GPU_VARIABLE).map_or(Ok(vec![]), |value| read_gpus(&value))?;
        let local_rank = match lookup(LOCAL_RANK_VARIABLE) {
            Some(value) => number(LOCAL_RANK_VARIABLE, &value)?,
            None => 0,
        };
        Ok(Self {
            library: lookup(LIBRARY_VARIABLE).map(PathBuf::from),
            gpus,
            local_rank,
            live_plugin: live_plugin.map(PathBuf::from),
            deployed_plugin: nccl_plugin.filter(|_| is_deployed).map(PathBuf::from),
            has_rules: is_deployed && lookup(RULES_VARIABLE).is_some(),
            host_id: lookup(HOST_ID_VARIABLE),
            log: lookup(LOG_VARIABLE).map(PathBuf::from),
        })
    }

    /// The CUDA device of this rank, of `count` that are there.
    pub(super) fn device(&self, count: u32) -> Result<u32, EngineError> {
        if self.gpus.is_empty() {
            return Ok(self.local_rank % count.max(1));
        }
        let device = self.gpus[self.local_rank as usize % self.gpus.len()];
        if device < count {
            return Ok(device);
        }
        let why = format!("CUDA shows {count} devices here, the first is 0");
        Err(EngineError::Setting { name: GPU_VARIABLE, value: device.to_string(), why })
    }
}

fn read_gpus(value: &str) -> Result<Vec<u32>, EngineError> {
    value.split(',').map(|part| number(GPU_VARIABLE, part.trim())).collect()
}

fn number(name: &'static str, value: &str) -> Result<u32, EngineError> {
    value.parse().map_err(|error| EngineError::Setting {
        name,
        value: value.to_owned(),
        why: format!("{error}: write a number from 0"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(is_deployed: bool, variables: &[(&str, &str)]) -> Result<NcclConfig, String> {
        let lookup = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        NcclConfig::from_lookup(is_deployed, lookup).map_err(|error| error.to_string())
    }

    #[test]
    fn local_ranks_share_the_devices_in_turn() {
        for (gpus, local_rank, count, expected) in [
            ("", "5", 4, Ok(1)),
            ("0", "3", 8, Ok(0)),
            ("2, 3", "3", 4, Ok(3)),
            ("4", "0", 4, Err("GDRTUNE_GPU=4 cannot be used: CUDA shows 4 devices here, the first is 0")),
        ] {
            let mut variables = vec![(LOCAL_RANK_VARIABLE, local_rank)];
            variables.extend((!gpus.is_empty()).then_some((GPU_VARIABLE, gpus)));
            let device = read(false, &variables).unwrap().device(count).map_err(|error| error.to_string());
            assert_eq!(device, expected.map_err(str::to_owned), "{gpus} {local_rank}");
        }
    }

    #[test]
    fn a_plugin_that_nccl_would_not_load_is_refused() {
        let error = read(false, &[(PLUGIN_VARIABLE, "/a.so"), (NCCL_PLUGIN_VARIABLE, "/b.so")]).unwrap_err();
        assert!(error.contains("NCCL_TUNER_PLUGIN must name the same file"), "{error}");
        let both = [(PLUGIN_VARIABLE, "/a.so"), (NCCL_PLUGIN_VARIABLE, "/a.so")];
        let live = read(false, &both).unwrap();
        assert_eq!((live.live_plugin, live.deployed_plugin), (Some("/a.so".into()), None));
        let deployed = read(true, &both).unwrap();
        assert_eq!((deployed.live_plugin, deployed.deployed_plugin), (None, Some("/a.so".into())));
    }

    #[test]
    fn bad_numbers_are_named() {
        let error = read(false, &[(GPU_VARIABLE, "0,x")]).unwrap_err();
        assert!(error.starts_with("GDRTUNE_GPU=x cannot be used: "), "{error}");
    }
}
