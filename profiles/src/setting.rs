//! Settings as users write them, checked against the knob catalogue: `NAME=VALUE`, `NAME=VALUE,VALUE`, `NAME`.

use crate::{
    knob::{self, Kind, Knob},
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
    /// A variable that the search must leave alone.
    #[error("{name} cannot be searched: {why}")]
    NotSearched {
        /// The variable.
        name: String,
        /// Why, and what to do.
        why: &'static str,
    },
}

/// A variable and values of it: what is searched, or what something depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// The variable.
    pub name: String,
    /// Its values; none stands for whatever it is set to.
    pub values: Vec<String>,
}

impl Values {
    /// Whether a variable with this value (`None`: not set) is meant.
    pub fn include(&self, value: Option<&str>) -> bool {
        value.is_some_and(|value| self.values.is_empty() || self.values.iter().any(|known| known == value))
    }
}

impl std::fmt::Display for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, values } = self;
        if values.is_empty() { f.write_str(name) } else { write!(f, "{name}={}", values.join(",")) }
    }
}

/// What the user fixes, leaves out and adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpaceSettings {
    /// Settings of every environment of the search.
    pub pins: Environment,
    /// What is not searched: variables, single values of them, algorithms, protocols.
    pub excludes: Vec<String>,
    /// Values that are searched beside those of the space.
    pub adds: Vec<Values>,
}

impl SpaceSettings {
    /// Reads `--pin NAME=VALUE`, `--exclude NAME` and `--add NAME=VALUE[,VALUE...]`.
    ///
    /// # Errors
    /// [`SettingError`] names the nearest known variable, or the domain.
    pub fn parse(pins: &[String], excludes: &[String], adds: &[String]) -> Result<Self, SettingError> {
        let pins = parse_settings(pins)?;
        excludes.iter().try_for_each(|text| check_exclude(text))?;
        let adds = adds.iter().map(|text| parse_add(text)).collect::<Result<_, _>>()?;
        Ok(Self { pins, excludes: excludes.to_vec(), adds })
    }

    /// These, and then those of `later`, whose pins win.
    #[must_use]
    pub fn then(mut self, later: Self) -> Self {
        self.pins.0.extend(later.pins.0);
        self.excludes.extend(later.excludes);
        self.adds.extend(later.adds);
        self
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
        check(known(name)?, value)?;
        environment = environment.with(name, value);
    }
    Ok(environment)
}

/// Reads `NAME=VALUE[,VALUE...]` of a variable that can be searched. Where values hold commas themselves (lists of
/// interfaces or HCAs, names), the whole is one value.
///
/// # Errors
/// [`SettingError`]
pub fn parse_add(text: &str) -> Result<Values, SettingError> {
    let (name, values) = text.split_once('=').ok_or_else(|| SettingError::Form(text.to_owned()))?;
    searchable(name)?;
    parse_values(name, values)
}

/// Reads `NAME=VALUE[,VALUE...]`, or `NAME` for any value.
///
/// # Errors
/// [`SettingError`]
pub fn parse_condition(text: &str) -> Result<Values, SettingError> {
    match text.split_once('=') {
        Some((name, values)) => parse_values(name, values),
        None => Ok(Values { name: known(text)?.name.to_owned(), values: Vec::new() }),
    }
}

fn parse_values(name: &str, values: &str) -> Result<Values, SettingError> {
    let knob = known(name)?;
    let holds_commas = matches!(
        knob.kind,
        Kind::Interfaces | Kind::Hcas | Kind::Algorithms | Kind::Protocols | Kind::Path | Kind::Text | Kind::Words(..)
    );
    let values: Vec<&str> = if holds_commas { vec![values] } else { values.split(',').map(str::trim).collect() };
    values.iter().try_for_each(|value| check(knob, value))?;
    Ok(Values { name: name.to_owned(), values: values.into_iter().map(str::to_owned).collect() })
}

/// A variable, one value of a variable, an algorithm or a protocol. Whether the space has it is seen later: the same command
/// must work on clusters where a setting is offered and where it is not.
///
/// # Errors
/// [`SettingError`]
pub fn check_exclude(text: &str) -> Result<(), SettingError> {
    if text.parse::<Algorithm>().is_ok() || text.parse::<Protocol>().is_ok() {
        return Ok(());
    }
    match text.split_once('=') {
        None => known(text).map(drop),
        Some((name, value)) => check(known(name)?, value),
    }
}

/// The catalogue's knob of this name, if a search may set it.
///
/// # Errors
/// [`SettingError::Unknown`], or [`SettingError::NotSearched`] for what would take the search's own means away.
pub fn searchable(name: &str) -> Result<&'static Knob, SettingError> {
    let knob = known(name)?;
    let why = match knob.kind {
        Kind::Algorithms | Kind::Protocols => {
            Some("choices are searched call by call; name them by `algorithms` and `protocols` of a space file")
        }
        _ if matches!(name, "NCCL_TUNER_PLUGIN" | "NCCL_TUNER_CONFIG_FILE") => {
            Some("choices come through gdrtune's own tuner plugin; leave it out")
        }
        _ => None,
    };
    why.map_or(Ok(knob), |why| Err(SettingError::NotSearched { name: name.to_owned(), why }))
}

pub(crate) fn check(knob: &Knob, value: &str) -> Result<(), SettingError> {
    knob.check(value).map_err(|error| SettingError::Value { name: knob.name.to_owned(), why: error.to_string() })
}

fn known(name: &str) -> Result<&'static Knob, SettingError> {
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
        for text in ["NCCL_BUFFSIZE", "NCCL_BUFFSIZE=1048576", "tree", "ll128"] {
            assert_eq!(check_exclude(text), Ok(()), "{text}");
        }
        for (text, expected) in
            [("NCCL_BUFSIZE", "NCCL_BUFFSIZE"), ("NCCL_BUFFSIZE=x", "NCCL_BUFFSIZE: "), ("trea", "trea")]
        {
            assert!(check_exclude(text).unwrap_err().to_string().contains(expected), "{text}");
        }
    }

    #[test]
    fn added_values_are_a_list_but_where_a_value_is_one() {
        let shown = |text: &str| parse_add(text).map(|add| add.values.join("|")).map_err(|error| error.to_string());
        assert_eq!(shown("NCCL_BUFFSIZE=1048576, 2097152"), Ok("1048576|2097152".to_owned()));
        assert_eq!(shown("NCCL_SOCKET_IFNAME==eth0,eth1"), Ok("=eth0,eth1".to_owned()));
        for (text, expected) in [
            ("NCCL_BUFFSIZE", "no setting"),
            ("NCCL_BUFSIZE=1048576", "did you mean NCCL_BUFFSIZE?"),
            ("NCCL_BUFFSIZE=1048576,2M", "NCCL_BUFFSIZE: "),
            ("NCCL_BUFFSIZE=", "NCCL_BUFFSIZE: "),
            ("NCCL_ALGO=tree", "NCCL_ALGO cannot be searched: choices are searched call by call"),
            ("NCCL_TUNER_PLUGIN=none", "NCCL_TUNER_PLUGIN cannot be searched: choices come through gdrtune's own"),
        ] {
            assert!(shown(text).unwrap_err().contains(expected), "{text}: {:?}", shown(text));
        }
        assert_eq!(parse_condition("NCCL_BUFFSIZE").unwrap().to_string(), "NCCL_BUFFSIZE");
        assert_eq!(parse_condition("NCCL_CROSS_NIC=0,1").unwrap().to_string(), "NCCL_CROSS_NIC=0,1");
    }

    #[test]
    fn later_pins_win_and_the_rest_adds_up() {
        let parse = |pin: &str, exclude: &str, add: &str| {
            SpaceSettings::parse(&[pin.to_owned()], &[exclude.to_owned()], &[add.to_owned()]).unwrap()
        };
        let both = parse("NCCL_CROSS_NIC=0", "tree", "NCCL_NTHREADS=512").then(parse(
            "NCCL_CROSS_NIC=1",
            "ring",
            "NCCL_NTHREADS=128",
        ));
        assert_eq!(both.pins.to_string(), "NCCL_CROSS_NIC=1");
        assert_eq!((both.excludes.join(" "), both.adds.len()), ("tree ring".to_owned(), 2));
    }
}
