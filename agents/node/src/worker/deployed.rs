//! The folder of emitted files that a worker runs from (`--ab DIR`).
//!
//! The environment was made of `profile.env` before this process started, as it must be in place when libraries load. What
//! is left to do is to see that it is so: a run that claims to verify these files must not run with other values.

use std::path::Path;

use gdrtune_profiles::{
    emit::Format,
    grammar::{
        env_file,
        tuner_csv::{Call, RuleTable},
    },
    vocab::{Choice, Point},
};

use crate::engine::RuleSource;

/// Name of the environment file.
const ENVIRONMENT_FILE: &str = Format::Env.file_name();

/// Name of the rule file.
const RULE_FILE: &str = Format::TunerCsv.file_name();

/// Reads a file as text.
fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Compares the environment file with the variables that `lookup` gives.
pub(super) fn check_environment(folder: &Path, lookup: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    let path = folder.join(ENVIRONMENT_FILE);
    let set = env_file::parse(&read(&path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    for (name, value) in set.iter() {
        match lookup(name) {
            Some(actual) if actual == value => {}
            Some(actual) => {
                return Err(format!("{}: {name} is {value} there, but {actual} in this process", path.display()));
            }
            None => return Err(format!("{}: {name} is {value} there, but not set in this process", path.display())),
        }
    }
    Ok(())
}

/// Reads the rule file. A line that is no rule is an error: what the A/B measures must be what the file says.
pub(super) fn load_rules(folder: &Path) -> Result<Box<dyn RuleSource>, String> {
    let path = folder.join(RULE_FILE);
    let table = RuleTable::parse_whole(&read(&path)?, &path.display().to_string());
    Ok(Box::new(table.map_err(|line| line.to_string())?))
}

impl RuleSource for RuleTable {
    fn lookup(&self, point: Point, nodes: u32, ranks: u32) -> Option<Choice> {
        Self::lookup(self, &Call::new(point.collective, point.bytes, nodes, ranks))
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Collective;

    use super::*;

    #[test]
    fn the_environment_must_agree_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(ENVIRONMENT_FILE);
        let lookup = |name: &str| (name == "NCCL_SOCKET_IFNAME").then(|| "=eth1".to_owned());
        for (text, expected) in [
            ("# made by gdrtune\n\nNCCL_SOCKET_IFNAME==eth1\n", Ok(())),
            ("NCCL_SOCKET_IFNAME==eth0\n", Err(": NCCL_SOCKET_IFNAME is =eth0 there, but =eth1 in this process")),
            ("\nNCCL_ALGO=ring\n", Err(": NCCL_ALGO is ring there, but not set in this process")),
            ("export\n", Err(": line 1: `export` has no `=`: docker would copy the variable from its own environment")),
        ] {
            std::fs::write(&path, text).unwrap();
            let expected = expected.map_err(|why: &str| format!("{}{why}", path.display()));
            assert_eq!(check_environment(folder.path(), lookup), expected);
        }
    }

    #[test]
    fn rules_are_those_of_the_file_and_a_broken_line_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RULE_FILE);
        std::fs::write(&path, "# rules\nallreduce,0,4096,tree,ll,2,-1,4,-1,-1\n").unwrap();
        let rules = load_rules(folder.path()).unwrap();
        let point = |bytes| Point { collective: Collective::AllReduce, bytes };
        assert_eq!(rules.lookup(point(4096), 1, 4).unwrap().to_string(), "tree/ll/2");
        assert_eq!(rules.lookup(point(4097), 1, 4), None);
        assert_eq!(rules.lookup(point(4096), 1, 8), None);
        std::fs::write(&path, "allreduce,0,4096,tre,ll,2,-1,4,-1,-1\n").unwrap();
        let error = load_rules(folder.path()).err().expect("an error");
        assert!(error.contains("nccl-tuner.csv:1") && error.contains("tree"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = check_environment(folder.path(), |_| None).unwrap_err();
        assert!(error.contains("profile.env: No such file"), "{error}");
    }
}
