//! Writes a profile's text: the fields in one fixed order, one line per value, so that reviews show small differences.

use std::fmt;

use toml::Value;

use super::{ByteRange, Class, Profile, Rule, Speedup};
use crate::{emit::unverified, vocab::Engine};

impl Profile {
    /// The text of the profile file. The same profile always gives the same text, and [`Profile::parse`] reads it back.
    pub fn to_toml(&self) -> String {
        Text(self).to_string()
    }
}

struct Text<'a>(&'a Profile);

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_profile(out, self.0)
    }
}

fn write_profile(out: &mut fmt::Formatter<'_>, profile: &Profile) -> fmt::Result {
    let Profile { format, cluster, run, env, rule } = profile;
    writeln!(out, "# gdrtune profile: {}", kind(profile))?;
    if run.unverified {
        writeln!(out, "# {}", unverified(run.engine))?;
    }
    writeln!(out, "# Emit files for job scripts from it: gdrtune emit PROFILE --format sh")?;
    writeln!(out, "format = {format}")?;
    writeln!(out, "\n[cluster]")?;
    writeln!(out, "nodes = {}\nranks = {}", cluster.nodes, cluster.ranks)?;
    write_optional(out, "gpu", cluster.gpu.as_deref())?;
    write_optional(out, "nccl", cluster.nccl.as_deref())?;
    writeln!(out, "fingerprint = {}", quoted(&cluster.fingerprint))?;
    writeln!(out, "\n[run]")?;
    writeln!(out, "id = {}\ntool = {}", quoted(&run.id), quoted(&run.tool))?;
    writeln!(out, "engine = {}", quoted(run.engine.name()))?;
    if run.emulated {
        writeln!(out, "emulated = true")?;
    }
    if run.unverified {
        writeln!(out, "unverified = true")?;
    }
    writeln!(out, "baseline = {}", quoted(run.baseline.name()))?;
    writeln!(out, "workload = {}\ntrials = {}", quoted(&run.workload), run.trials)?;
    if !run.notes.is_empty() {
        let notes: Vec<String> = run.notes.iter().map(|note| quoted(note)).collect();
        writeln!(out, "notes = [{}]", notes.join(", "))?;
    }
    for setting in env {
        writeln!(out, "\n[[env]]")?;
        writeln!(out, "name = {}\nvalue = {}", quoted(&setting.name), quoted(&setting.value))?;
        writeln!(out, "class = {}", quoted(setting.class.name()))?;
        if let Some(speedup) = &setting.speedup {
            write_speedup(out, speedup)?;
        }
        if !setting.why.is_empty() {
            writeln!(out, "why = {}", quoted(&setting.why))?;
        }
    }
    rule.iter().try_for_each(|rule| write_rule(out, rule))
}

fn kind(profile: &Profile) -> &'static str {
    match (profile.run.engine, profile.run.emulated) {
        (Engine::Nccl, false) => "settings that were measured on the cluster below",
        (Engine::Nccl, true) => "settings measured with several ranks on one GPU in the place of nodes",
        (Engine::Native, _) => "settings measured with gdrtune's own engine on host memory, not with NCCL",
        (Engine::Replay, _) => "settings replayed from a recorded grid, not measured on a cluster",
        (Engine::Sim, _) => "settings of a simulated cluster, not measured on a real one",
    }
}

fn write_rule(out: &mut fmt::Formatter<'_>, rule: &Rule) -> fmt::Result {
    writeln!(out, "\n[[rule]]")?;
    writeln!(out, "collective = {}", quoted(rule.collective.name()))?;
    writeln!(out, "nodes = {}\nranks = {}", rule.nodes, rule.ranks)?;
    match rule.bytes {
        ByteRange { min, max: Some(max) } => writeln!(out, "bytes = {{ min = {min}, max = {max} }}")?,
        ByteRange { min, max: None } => writeln!(out, "bytes = {{ min = {min} }}")?,
    }
    writeln!(out, "algorithm = {}", quoted(rule.algorithm.name()))?;
    writeln!(out, "protocol = {}", quoted(rule.protocol.name()))?;
    if let Some(channels) = rule.channels {
        writeln!(out, "channels = {channels}")?;
    }
    writeln!(out, "default_us = {}\ntuned_us = {}", float(rule.default_us), float(rule.tuned_us))?;
    write_speedup(out, &rule.speedup)
}

fn write_speedup(out: &mut fmt::Formatter<'_>, speedup: &Speedup) -> fmt::Result {
    let Speedup { median, low, high, p_faster, repeats } = *speedup;
    writeln!(
        out,
        "speedup = {{ median = {}, low = {}, high = {}, p_faster = {}, repeats = {repeats} }}",
        float(median),
        float(low),
        float(high),
        float(p_faster),
    )
}

fn write_optional(out: &mut fmt::Formatter<'_>, name: &str, value: Option<&str>) -> fmt::Result {
    value.map_or(Ok(()), |value| writeln!(out, "{name} = {}", quoted(value)))
}

/// A basic string on one line: the toml crate would spread a text with line breaks over several.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.extend(format!("\\u{:04X}", u32::from(c)).chars()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn float(number: f64) -> String {
    Value::Float(number).to_string()
}

impl super::Baseline {
    /// The name in the profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Stock => "stock",
        }
    }
}

impl Class {
    /// The name in the profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Debugging => "debugging",
        }
    }
}

#[cfg(test)]
#[path = "round_trip_tests.rs"]
mod tests;
