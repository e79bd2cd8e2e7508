//! Settings that the user fixes or leaves out, checked against the knob catalogue.

use gdrtune_profiles::{
    knob,
    vocab::{Algorithm, Environment, Protocol},
};

/// A setting that the user got wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Not `NAME=VALUE`.
    #[error("`{0}` is no setting: write NAME=VALUE, such as NCCL_SOCKET_IFNAME==eth0")]
    Form(String),
    /// No such variable.
    #[error("unknown variable `{name}`{}", nearest.map_or_else(|| ": use a variable that changes how collectives run, such as NCCL_BUFFSIZE".to_owned(), |n| format!(": did you mean {n}?")))]
    Unknown {
        /// What was written.
        name: String,
        /// The closest known name.
        nearest: Option<&'static str>,
    },
    /// A value outside the variable's domain.
    #[error("{name}: {why}")]
    Value {
        /// The variable.
        name: String,
        /// What its domain is.
        why: String,
    },
}

/// What the user fixes and what the search must leave alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpaceSettings {
    /// Settings of every environment of the search.
    pub pins: Environment,
    /// What is not searched: variables, single values of them, algorithms, protocols.
    pub excludes: Vec<String>,
}

impl SpaceSettings {
    /// Reads `--pin NAME=VALUE` and `--exclude NAME`.
    ///
    /// # Errors
    /// [`SettingError`] names the nearest known variable, or the domain.
    pub fn parse(pins: &[String], excludes: &[String]) -> Result<Self, SettingError> {
        let pins = parse_settings(pins)?;
        excludes.iter().try_for_each(|text| check_exclude(text))?;
        Ok(Self { pins, excludes: excludes.to_vec() })
    }
}

/// Reads `NAME=VALUE` settings; names and values must be the catalogue's.
///
/// # Errors
/// [`SettingError`] names the nearest known variable, or the domain.
pub fn parse_settings(texts: &[String]) -> Result<Environment, SettingError> {
    let mut environment = Environment::new();
    for text in texts {
        let (name, value) = text.split_once('=').ok_or_else(|| SettingError::Form(text.clone()))?;
        let knob = known(name)?;
        knob.check(value).map_err(|e| SettingError::Value { name: name.to_owned(), why: e.to_string() })?;
        environment = environment.with(name, value);
    }
    Ok(environment)
}

/// A variable, one value of a variable, an algorithm or a protocol. Whether the space has it is seen later: the same command
/// must work on clusters where a setting is offered and where it is not.
fn check_exclude(text: &str) -> Result<(), SettingError> {
    if text.parse::<Algorithm>().is_ok() || text.parse::<Protocol>().is_ok() {
        return Ok(());
    }
    let Some((name, value)) = text.split_once('=') else { return known(text).map(drop) };
    known(name)?.check(value).map_err(|e| SettingError::Value { name: name.to_owned(), why: e.to_string() })
}

fn known(name: &str) -> Result<&'static knob::Knob, SettingError> {
    knob::knob(name).ok_or_else(|| SettingError::Unknown { name: name.to_owned(), nearest: knob::nearest(name) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_against_the_catalogue() {
        let parse = |text: &str| parse_settings(&[text.to_owned()]);
        assert_eq!(parse("NCCL_SOCKET_IFNAME==eth0").unwrap().get("NCCL_SOCKET_IFNAME"), Some("=eth0"));
        for (text, expected) in [
            ("NCCL_SOCKET_IFNAME", "no setting"),
            ("NCCL_SOCKET_IFNAM=lo", "did you mean NCCL_SOCKET_IFNAME?"),
            ("NCCL_IB_QPS_PER_CONNECTION=0", "NCCL_IB_QPS_PER_CONNECTION: "),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let exclude = |text: &str| SpaceSettings::parse(&[], &[text.to_owned()]).map_err(|error| error.to_string());
        for text in ["NCCL_BUFFSIZE", "NCCL_BUFFSIZE=1048576", "tree", "ll128"] {
            assert_eq!(exclude(text).map(|settings| settings.excludes), Ok(vec![text.to_owned()]));
        }
        for (text, expected) in
            [("NCCL_BUFSIZE", "NCCL_BUFFSIZE"), ("NCCL_BUFFSIZE=x", "NCCL_BUFFSIZE: "), ("trea", "trea")]
        {
            assert!(exclude(text).unwrap_err().contains(expected), "{text}");
        }
    }
}
