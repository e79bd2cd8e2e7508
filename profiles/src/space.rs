//! Space files: which knobs and choices a search tries. Whether the hardware and the library have them is not said here:
//! what they do not have is left out when the space is built.
//!
//! ```toml
//! base = "standard"              # a preset to build on; without it the file stands alone
//! budget_s = 600                 # for a run that is given no --budget
//! algorithms = ["ring", "tree"]  # absent: all that the engine allows; likewise protocols
//! channels = [1, 2, 8]           # counts to try; the engine's own is always tried too
//! pin = ["NAME=VALUE"]           # as the options of the same names
//! exclude = ["tree"]
//! add = ["NAME=VALUE,VALUE"]
//! [[knob]]                       # in order of importance; one of the base by the same name is replaced
//! name = "NCCL_IB_SPLIT_DATA_ON_QPS"
//! values = [1]                   # beside leaving it alone; absent: what the catalogue or the cluster suggests
//! when = "NCCL_IB_QPS_PER_CONNECTION=2,4"   # only searched where another knob has one of these values (NAME: any)
//! [[forbid]]                     # settings that are not tried together
//! settings = ["NCCL_MIN_CTAS=16", "NCCL_MAX_CTAS=4,8"]
//! ```

use serde::Deserialize;
use toml::Spanned;

use crate::{
    bindings,
    knob::Knob,
    setting::{self, SpaceSettings, Values},
    source::{self, Preset, Source, TextError},
    vocab::{Algorithm, Protocol},
    workload::Text,
};

/// Lists of devices, whose values are those of the cluster where none are named.
const DEVICES: [&str; 2] = [bindings::INTERFACES, bindings::HCAS];
/// Seconds of a run where neither the file nor the command line says.
const BUDGET_S: f64 = 300.0;
/// Longest budget in seconds, as on the command line.
const LONGEST_BUDGET_S: f64 = 1e7;
/// Most channels of NCCL (`src/include/device.h`, `MAXCHANNELS`).
const MOST_CHANNELS: u16 = 64;

/// A space file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpaceFile {
    /// Its name: the preset's, or the file's without folders and ending.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// Seconds for a whole run whose budget is not given.
    pub budget_s: f64,
    /// What is searched.
    pub selection: Selection,
    /// What is fixed, left out and added.
    pub settings: SpaceSettings,
}

/// What is searched, where the engine and the hardware have it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Algorithms; absent: all that the engine allows.
    pub algorithms: Option<Vec<Algorithm>>,
    /// Protocols; absent: all that the engine allows.
    pub protocols: Option<Vec<Protocol>>,
    /// Channel counts, rising; absent: those that are usual for the engine.
    pub channels: Option<Vec<u16>>,
    /// Process-level knobs, in order of importance; each name once.
    pub knobs: Vec<SelectedKnob>,
    /// Settings that are not tried together.
    pub forbidden: Vec<Vec<Values>>,
}

/// A knob that is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedKnob {
    /// The variable, of the catalogue.
    pub name: String,
    /// Values beside leaving it alone; empty: what the catalogue or the cluster suggests.
    pub values: Vec<String>,
    /// What another knob must be set to; elsewhere this one is left alone.
    pub when: Option<Values>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    about: String,
    base: Option<Spanned<String>>,
    budget_s: Option<Spanned<f64>>,
    algorithms: Option<Vec<Algorithm>>,
    protocols: Option<Vec<Protocol>>,
    channels: Option<Vec<Spanned<u16>>>,
    #[serde(default)]
    pin: Vec<Spanned<String>>,
    #[serde(default)]
    exclude: Vec<Spanned<String>>,
    #[serde(default)]
    add: Vec<Spanned<String>>,
    #[serde(default)]
    knob: Vec<KnobFields>,
    #[serde(default)]
    forbid: Vec<Spanned<ForbidFields>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnobFields {
    name: Spanned<String>,
    values: Option<Spanned<Vec<Spanned<Text>>>>,
    when: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForbidFields {
    settings: Vec<Spanned<String>>,
}

impl SpaceFile {
    /// The name of the space that is searched where none is named.
    pub const STANDARD: &str = "standard";
    /// The name of the demo's space.
    pub const DEMO: &str = "demo";

    /// The spaces that gdrtune brings along.
    pub const PRESETS: &[Preset] = &[
        Preset { name: "quick", text: include_str!("../presets/quick.toml") },
        Preset { name: Self::STANDARD, text: include_str!("../presets/standard.toml") },
        Preset { name: "full", text: include_str!("../presets/full.toml") },
        Preset { name: Self::DEMO, text: include_str!("../presets/demo.toml") },
    ];

    /// The preset of this name.
    ///
    /// # Errors
    /// [`TextError::UnknownPreset`] names the nearest.
    pub fn preset(name: &str) -> Result<Self, TextError> {
        match Self::PRESETS.iter().find(|preset| preset.name == name) {
            Some(preset) => Self::parse(preset.text, preset.name),
            None => Err(TextError::unknown_preset("space", name, Self::PRESETS)),
        }
    }

    /// Reads a space file. `file` names the text in messages, and gives the space its name.
    ///
    /// # Errors
    /// [`TextError`] says file, line, column, cause and the nearest valid name.
    pub fn parse(text: &str, file: &str) -> Result<Self, TextError> {
        let source = Source { text, file };
        let fields: File = source.fields(source.table()?)?;
        let mut space = match &fields.base {
            None => Self { budget_s: BUDGET_S, ..Self::default() },
            Some(name) => base(source, name)?,
        };
        space.name = source.stem();
        space.about = fields.about;
        if let Some(budget) = fields.budget_s {
            space.budget_s = budget_s(source, &budget)?;
        }
        space.selection.algorithms = fields.algorithms.or(space.selection.algorithms);
        space.selection.protocols = fields.protocols.or(space.selection.protocols);
        if let Some(counts) = fields.channels {
            space.selection.channels = Some(channels(source, &counts)?);
        }
        let mut own: Vec<String> = Vec::new();
        for fields in &fields.knob {
            let knob = knob(source, fields)?;
            if own.contains(&knob.name) {
                return Err(source.wrong(&fields.name, format!("{} is named twice", knob.name)));
            }
            own.push(knob.name.clone());
            space.selection.set(knob);
        }
        for forbid in &fields.forbid {
            space.selection.forbidden.push(forbidden(source, forbid)?);
        }
        let settings = settings(source, [&fields.pin, &fields.exclude, &fields.add])?;
        space.settings = space.settings.then(settings);
        Ok(space)
    }
}

impl Selection {
    /// Takes a knob in, in the place of one by the same name.
    fn set(&mut self, knob: SelectedKnob) {
        match self.knobs.iter_mut().find(|known| known.name == knob.name) {
            Some(known) => *known = knob,
            None => self.knobs.push(knob),
        }
    }
}

/// No preset has a base, so this ends.
fn base(source: Source<'_>, name: &Spanned<String>) -> Result<SpaceFile, TextError> {
    let presets = SpaceFile::PRESETS;
    let Some(preset) = presets.iter().find(|preset| preset.name == name.get_ref()) else {
        let (known, hint) = (source::names(presets), source::preset_hint(name.get_ref(), presets));
        return Err(source.wrong(name, format!("unknown base `{}`: use one of {known}{hint}", name.get_ref())));
    };
    SpaceFile::parse(preset.text, preset.name)
}

fn budget_s(source: Source<'_>, budget: &Spanned<f64>) -> Result<f64, TextError> {
    let seconds = *budget.get_ref();
    let is_time = 0.0 < seconds && seconds < LONGEST_BUDGET_S;
    if is_time { Ok(seconds) } else { Err(source.wrong(budget, "budget_s is a time above 0, in seconds")) }
}

fn channels(source: Source<'_>, counts: &[Spanned<u16>]) -> Result<Vec<u16>, TextError> {
    if let Some(wrong) = counts.iter().find(|count| !(1..=MOST_CHANNELS).contains(count.get_ref())) {
        let cause = format!("{} is no channel count: write 1 to {MOST_CHANNELS}", wrong.get_ref());
        return Err(source.wrong(wrong, cause));
    }
    let mut counts: Vec<u16> = counts.iter().map(|count| *count.get_ref()).collect();
    counts.sort_unstable();
    counts.dedup();
    Ok(counts)
}

fn knob(source: Source<'_>, fields: &KnobFields) -> Result<SelectedKnob, TextError> {
    let name = fields.name.get_ref();
    let knob = setting::searchable(name).map_err(|error| source.wrong(&fields.name, error))?;
    let when = fields.when.as_ref().map(|text| {
        let when = setting::parse_condition(text.get_ref()).map_err(|error| source.wrong(text, error))?;
        if when.name == *name { Err(source.wrong(text, format!("{name} depends on itself"))) } else { Ok(when) }
    });
    Ok(SelectedKnob { name: name.clone(), values: values(source, fields, knob)?, when: when.transpose()? })
}

fn values(source: Source<'_>, fields: &KnobFields, knob: &Knob) -> Result<Vec<String>, TextError> {
    let Some(listed) = &fields.values else {
        if knob.candidates.is_empty() && !DEVICES.contains(&knob.name) {
            let cause = format!("write the values of {}: nothing is known about which are worth a try", knob.name);
            return Err(source.wrong(&fields.name, cause));
        }
        return Ok(Vec::new());
    };
    if listed.get_ref().is_empty() {
        return Err(source.wrong(listed, "no value: leave the knob out, or `values` for those of the catalogue"));
    }
    let mut values: Vec<String> = Vec::new();
    for value in listed.get_ref() {
        let Text(text) = value.get_ref();
        setting::check(knob, text).map_err(|error| source.wrong(value, error))?;
        if !values.contains(text) {
            values.push(text.clone());
        }
    }
    Ok(values)
}

fn forbidden(source: Source<'_>, forbid: &Spanned<ForbidFields>) -> Result<Vec<Values>, TextError> {
    let settings = &forbid.get_ref().settings;
    if settings.len() < 2 {
        return Err(source.wrong(forbid, "two settings or more are forbidden together; a single one is an `exclude`"));
    }
    let parse =
        |text: &Spanned<String>| setting::parse_condition(text.get_ref()).map_err(|error| source.wrong(text, error));
    settings.iter().map(parse).collect()
}

/// Reads `pin`, `exclude` and `add` one by one, so that an error has its place.
fn settings(source: Source<'_>, lists: [&[Spanned<String>]; 3]) -> Result<SpaceSettings, TextError> {
    let mut settings = SpaceSettings::default();
    for (kind, list) in lists.into_iter().enumerate() {
        for text in list {
            let mut one = [&[][..], &[], &[]];
            let given = [text.get_ref().clone()];
            one[kind] = &given;
            let parsed = SpaceSettings::parse(one[0], one[1], one[2]).map_err(|error| source.wrong(text, error))?;
            settings = settings.then(parsed);
        }
    }
    Ok(settings)
}

#[cfg(test)]
#[path = "space_tests.rs"]
mod tests;
