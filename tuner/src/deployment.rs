//! What a script's setup amounts to, for benches that start no worker: an environment, and choices of emitted rules.
//!
//! Must not read files: the reader of emitted ones comes from the caller.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Choice, Environment, Point};

use crate::bench::{BenchError, BenchInfo, Script, Setup};

/// What runs under a setup.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Deployment {
    /// The environment over the site's.
    pub environment: Environment,
    /// The choice that the files' rules make for each point that they cover.
    pub choices: BTreeMap<Point, Choice>,
}

/// Reads emitted files (name and text) as the deployed worker would, for the given points.
pub type ReadDeployment =
    fn(files: &[(String, String)], points: &[Point], info: &BenchInfo) -> Result<Deployment, String>;

impl Deployment {
    /// What `script` runs with; emitted files are read by `read`.
    ///
    /// # Errors
    /// [`BenchError::Setup`] if the files cannot be read, or nobody was given to read them.
    pub fn of(script: &Script, read: Option<ReadDeployment>, info: &BenchInfo) -> Result<Self, BenchError> {
        match &script.setup {
            Setup::Site => Ok(Self::default()),
            Setup::Live(environment) => Ok(Self { environment: environment.clone(), ..Self::default() }),
            Setup::Deployed(files) => {
                let points: Vec<Point> = script.items.iter().map(|item| item.point).collect();
                let read = read.ok_or("no reader of emitted files was given".to_owned());
                read.and_then(|read| read(files, &points, info))
                    .map_err(|why| BenchError::Setup { setup: "the emitted files".into(), why })
            }
        }
    }
}
