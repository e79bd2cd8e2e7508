//! Benches that bring their own space and need no agents: a recorded grid, a simulated cluster.
//!
//! A request is data; opening it gives the bench. Must not do IO: file texts come from the caller.

mod replay;
mod sim;

use std::path::Path;

use gdrtune_profiles::{
    emit::Format,
    grammar::{
        env_file,
        tuner_csv::{Call, RuleTable},
    },
    setting::SpaceSettings,
    vocab::Point,
};
use gdrtune_tuner::{
    bench::{Bench, BenchInfo},
    deployment::Deployment,
    space::Space,
};

pub use self::{
    replay::{ReplayError, ReplayRequest},
    sim::{SimRequest, UnknownKnob},
};

/// Sets the seed of a bench's luck apart from the search's, which are the same number on the command line.
const LUCK: u64 = 0xD4A7;

/// A bench without a cluster, as the user asks for it.
#[derive(Debug, Clone)]
pub enum OfflineRequest {
    /// A recorded grid.
    Replay(ReplayRequest),
    /// A simulated cluster.
    Sim(SimRequest),
}

/// An opened bench and what is to be said of it.
pub(crate) struct Offline {
    /// What measures.
    pub(crate) bench: Box<dyn Bench>,
    /// Everything that it can measure.
    pub(crate) space: Space,
    /// What it takes for granted.
    pub(crate) notes: Vec<String>,
    /// What it cannot do.
    pub(crate) warnings: Vec<String>,
}

impl OfflineRequest {
    /// What measures, nodes and ranks.
    pub fn info(&self) -> BenchInfo {
        match self {
            Self::Replay(replay) => replay.info(),
            Self::Sim(sim) => sim.info(),
        }
    }

    /// The file that it is made of, or the cluster of the library, as the user named it.
    pub fn source(&self) -> &str {
        match self {
            Self::Replay(replay) => &replay.file,
            Self::Sim(sim) => &sim.file,
        }
    }

    /// The same without its folder, for where there is little room.
    pub fn name(&self) -> String {
        let source = self.source();
        Path::new(source).file_name().map_or_else(|| source.to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// What a profile of it holds for: the file's text, nodes and ranks.
    pub(crate) fn fingerprint(&self) -> String {
        match self {
            Self::Replay(replay) => replay.fingerprint.clone(),
            Self::Sim(sim) => sim.fingerprint.clone(),
        }
    }

    /// What is measured on, in words.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Replay(replay) => format!("the recorded grid {}", replay.file),
            Self::Sim(sim) => format!("the simulated cluster {}", sim.file),
        }
    }

    /// The bench, with its own random decisions from `seed`.
    pub(crate) fn open(&self, seed: u64) -> Offline {
        match self {
            Self::Replay(replay) => replay.open(seed),
            Self::Sim(sim) => sim.open(seed),
        }
    }

    /// Fits the bench's space to what the user fixes, leaves out and adds. What was not recorded cannot be added.
    pub(crate) fn settle(&self, space: &mut Space, settings: &SpaceSettings) {
        if matches!(self, Self::Sim(_)) {
            settings.adds.iter().for_each(|add| space.add(add));
        }
        space.restrict(settings.excludes.iter().map(String::as_str), settings.pins.iter());
    }
}

/// Emitted files as a deployed worker reads them: the environment file, and for each point what the rules say.
fn read_deployment(files: &[(String, String)], points: &[Point], info: &BenchInfo) -> Result<Deployment, String> {
    let text = |format: Format| {
        let name = format.file_name();
        let file = files.iter().find(|(file, _)| file == name);
        file.map(|(_, text)| text.as_str()).ok_or_else(|| format!("{name} is missing"))
    };
    let env_file = Format::Env.file_name();
    let environment = env_file::parse(text(Format::Env)?).map_err(|error| format!("{env_file}: {error}"))?;
    let rules = Format::TunerCsv;
    let rules = RuleTable::parse_whole(text(rules)?, rules.file_name()).map_err(|line| line.to_string())?;
    let choice = |point: &Point| {
        let call = Call::new(point.collective, point.bytes, info.nodes, info.ranks);
        Some((*point, rules.lookup(&call)?))
    };
    Ok(Deployment { environment, choices: points.iter().filter_map(choice).collect() })
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::{
        emit::{EmitOptions, emit},
        profile::Profile,
        vocab::Engine,
    };

    use super::*;

    #[test]
    fn emitted_files_are_read_as_a_worker_reads_them() {
        let golden = include_str!("../../../../profiles/tests/golden/nccl.toml");
        let profile = Profile::parse(golden, "golden").unwrap().0;
        let options = EmitOptions::plain();
        let file = |format: Format| (format.file_name().to_owned(), emit(&profile, format, &options).unwrap());
        let files = [file(Format::Env), file(Format::TunerCsv)];
        let rule = &profile.rule[0];
        let point = Point { collective: rule.collective, bytes: rule.bytes.min };
        let at =
            |ranks| read_deployment(&files, &[point], &BenchInfo { engine: Engine::Replay, nodes: rule.nodes, ranks });
        let deployment = at(rule.ranks).unwrap();
        assert_eq!(deployment.choices[&point], rule.choice());
        assert_eq!(deployment.environment.0.len(), profile.env.len());
        assert!(at(rule.ranks + 1).unwrap().choices.is_empty(), "a rule holds for its shape");

        let info = BenchInfo { engine: Engine::Replay, nodes: 4, ranks: 4 };
        let broken = |name: &str, text: &str| {
            let mut files = files.to_vec();
            files.iter_mut().filter(|file| file.0 == name).for_each(|file| text.clone_into(&mut file.1));
            read_deployment(&files, &[point], &info).unwrap_err()
        };
        assert!(broken("profile.env", "export A").starts_with("profile.env: line 1: "));
        assert!(
            broken("nccl-tuner.csv", "allreduce,0,1,tre,ll,2,4,4,-1,-1")
                .starts_with("nccl-tuner.csv:1: unknown algorithm")
        );
        assert_eq!(read_deployment(&files[..1], &[point], &info).unwrap_err(), "nccl-tuner.csv is missing");
    }
}
