//! Reads what a Kubernetes manifest sets: `- name: NCCL_X` with its `value:`, `NCCL_X: value` of a `ConfigMap`, and
//! `- NCCL_X=value` among a command's arguments.
//!
//! It is no YAML reader: it takes these forms line by line, and leaves alone what it does not know (`valueFrom`, anchors).

use super::{
    file::{Noticed, Read, Setting},
    names,
};

pub(super) fn read(text: &str) -> Read {
    let mut read = Read::default();
    let mut pending: Option<String> = None;
    // Each container has its own environment.
    let mut block = 1;
    for (idx, line) in text.split('\n').enumerate() {
        let line_number = idx + 1;
        let entry = line.trim().trim_start_matches("- ").trim_start();
        if let Some(flow) = entry.strip_prefix('{') {
            flow_entry(&mut read, (line_number, block), flow.trim_end().trim_end_matches('}'));
            continue;
        }
        // An argument of mpirun, as MPIJobs have them.
        let argument = entry.trim_matches(['"', '\'']).split_once('=').filter(|(name, _)| names::is_ours(name));
        if let Some((name, value)) = argument.filter(|_| line.trim_start().starts_with("- ")) {
            push(&mut read, (line_number, block), name, &Scalar { text: value.to_owned(), is_quoted: true });
            continue;
        }
        let Some((key, value)) = entry.split_once(':') else { continue };
        if matches!(key, "env" | "data" | "kind") {
            block += 1;
        }
        match (key.trim().trim_matches(['"', '\'']), pending.take()) {
            ("name", _) => pending = Some(scalar(value).text).filter(|name| names::is_ours(name)),
            ("value", Some(name)) => push(&mut read, (line_number, block), &name, &scalar(value)),
            (key, _) if names::is_ours(key) && !value.trim().is_empty() => {
                push(&mut read, (line_number, block), key, &scalar(value));
            }
            _ => {}
        }
    }
    read
}

/// `name: NCCL_X, value: "1"`
fn flow_entry(read: &mut Read, place: (usize, usize), entry: &str) {
    let part = |key: &str| {
        let found = entry.split(", ").find_map(|part| part.split_once(':').filter(|(k, _)| k.trim() == key));
        found.map(|(_, value)| scalar(value))
    };
    if let (Some(name), Some(value)) = (part("name"), part("value")) {
        push(read, place, &name.text, &value);
    }
}

struct Scalar {
    text: String,
    is_quoted: bool,
}

fn scalar(text: &str) -> Scalar {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some((inner, _)) = text.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return Scalar { text: inner.to_owned(), is_quoted: true };
        }
    }
    let bare = text.split(" #").next().unwrap_or_default().trim_end();
    Scalar { text: bare.to_owned(), is_quoted: false }
}

fn push(read: &mut Read, (line, block): (usize, usize), name: &str, value: &Scalar) {
    if !names::is_ours(name) {
        return;
    }
    // YAML 1.2 core schema: these are no strings, and the API server refuses them where it wants strings.
    let is_no_string = !value.is_quoted
        && (value.text.parse::<f64>().is_ok()
            || ["true", "false", "null", "~", "yes", "no", "on", "off"]
                .contains(&value.text.to_ascii_lowercase().as_str()));
    if is_no_string {
        read.remark(line, Noticed::NoString, name);
    }
    let is_constant =
        !value.text.contains("$(") && !value.text.contains("{{") && !value.text.starts_with(['*', '&', '|', '>']);
    read.settings.push(Setting { is_constant, block, ..Setting::exported(name, &value.text, line) });
}
