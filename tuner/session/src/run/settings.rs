//! Settings that the user fixes or leaves out, checked against the knob catalogue.

use gdrtune_profiles::{knob, vocab::Environment};

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
    /// Variables that are not searched.
    pub excludes: Vec<String>,
}

impl SpaceSettings {
    /// Reads `--pin NAME=VALUE` and `--exclude NAME`.
    ///
    /// # Errors
    /// [`SettingError`] names the nearest known variable, or the domain.
    pub fn parse(pins: &[String], excludes: &[String]) -> Result<Self, SettingError> {
        let pins = parse_settings(pins)?;
        for name in excludes {
            known(name)?;
        }
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
        let excludes = SpaceSettings::parse(&[], &["NCCL_BUFSIZE".to_owned()]);
        assert!(excludes.unwrap_err().to_string().contains("NCCL_BUFFSIZE"));
    }
}
