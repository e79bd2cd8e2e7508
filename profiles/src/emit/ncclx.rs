//! Rules for the tuner of NCCLX, which is keyed by bytes per rank.

use serde_json::{Map, Value, json};

use super::{
    EmitError,
    plan::{Plan, comment, push_line},
};
use crate::{
    grammar::ncclx::{self, HEADER, Interval, NcclxError, divisor},
    json::escape,
    profile::Rule,
    vocab::Choice,
};

/// A rule in NCCLX's terms, what to say about it, and whether any size is left of it.
struct Translated {
    rule: ncclx::Rule,
    comments: Vec<String>,
    is_empty: bool,
}

pub(super) fn emit_csv(plan: &Plan<'_>) -> Result<String, EmitError> {
    let mut text = plan.head_text();
    text.push_str("# for NCCLX_TUNER_CONFIG_FILE: bytes are those of a rank, the first match wins, and -1 channels leave them to NCCLX\n");
    push_line(&mut text, &format!("# {HEADER}"));
    let rules = translated(plan)?;
    for Translated { rule, comments, is_empty } in &rules {
        for line in comments {
            push_line(&mut text, &format!("# {line}"));
        }
        let ncclx::Rule { collective, bytes_per_rank, choice, nodes, local_ranks } = rule;
        let Choice { algorithm, protocol, channels } = choice;
        let channels = if *channels == 0 { "-1".to_owned() } else { channels.to_string() };
        let mark = if plan.rules_are_live && !is_empty { "" } else { "#" };
        push_line(
            &mut text,
            &format!("{mark}{collective},{bytes_per_rank},{algorithm},{protocol},{channels},{nodes},{local_ranks}"),
        );
    }
    read_back(plan, ncclx::parse_csv(&text), &rules)?;
    Ok(text)
}

/// The JSON has no comments: its reader looks for `rules`, `filter` and `config` and skips every other key, so they stand
/// under one of their own.
pub(super) fn emit_json(plan: &Plan<'_>) -> Result<String, EmitError> {
    let rules = translated(plan)?;
    let value = |translated: &Translated| {
        let Translated { rule, comments, .. } = translated;
        let mut config = Map::new();
        config.insert("algorithm".to_owned(), json!(rule.choice.algorithm));
        config.insert("protocol".to_owned(), json!(rule.choice.protocol));
        if rule.choice.channels > 0 {
            config.insert("channels".to_owned(), json!(rule.choice.channels));
        }
        let filter = json!({
            "collective": rule.collective,
            "bytesPerRank": rule.bytes_per_rank.to_string(),
            "nNodes": rule.nodes.min,
            "nLocalRanks": rule.local_ranks.min,
        });
        json!({ "comments": comments, "filter": filter, "config": config })
    };
    let is_live = |translated: &&Translated| plan.rules_are_live && !translated.is_empty;
    let live: Vec<Value> = rules.iter().filter(is_live).map(value).collect();
    let document = json!({ "comments": plan.head, "rules": live });
    let mut text =
        escape(serde_json::to_string_pretty(&document).map_err(|error| plan.read_back_error(error.to_string()))?);
    text.push('\n');
    read_back(plan, ncclx::parse_json(&text), &rules)?;
    Ok(text)
}

fn translated(plan: &Plan<'_>) -> Result<Vec<Translated>, EmitError> {
    plan.profile.rule.iter().map(|rule| translate(plan, rule)).collect()
}

/// A rule by bytes per rank. These are rounded down, so that sizes which share them cannot be told apart: a rule keeps those that its
/// first whole one begins.
fn translate(plan: &Plan<'_>, rule: &Rule) -> Result<Translated, EmitError> {
    let divisor = divisor(rule.nodes, rule.ranks);
    let number = |bytes: u64| {
        i64::try_from(bytes).ok().ok_or_else(|| EmitError::DoesNotFit {
            format: plan.format,
            name: format!("the rule for {} {}", rule.collective, rule.bytes),
            cause: "NCCLX counts bytes in 63 bits".to_owned(),
        })
    };
    let min = number(rule.bytes.min.div_ceil(divisor))?;
    let max = rule.bytes.max.map(|max| number(max / divisor)).transpose()?;
    let is_empty = max.is_some_and(|max| max < min);
    let mut comments = vec![Plan::rule_comment(plan.profile, rule)];
    if is_empty {
        comments.push(comment(&format!(
            "left to NCCLX: no whole number of bytes for each of {divisor} ranks is in {}",
            rule.bytes
        )));
    } else if !rule.bytes.min.is_multiple_of(divisor) {
        let first = rule.bytes.min.div_ceil(divisor) * divisor;
        comments
            .push(comment(&format!("from {first} bytes on: below, the bytes of a rank are those of smaller calls")));
    }
    if u64::from(rule.ranks) != divisor {
        comments.push(comment(&format!(
            "NCCLX divides by {divisor}, not by {} ranks: the nodes have different numbers of them",
            rule.ranks
        )));
    }
    let bytes_per_rank = Interval { min: Some(min), max: if is_empty { Some(min) } else { max } };
    let translated = ncclx::Rule {
        collective: rule.collective,
        bytes_per_rank,
        choice: rule.choice(),
        nodes: Interval::exactly(rule.nodes.into()),
        local_ranks: Interval::exactly((rule.ranks / rule.nodes.max(1)).into()),
    };
    Ok(Translated { rule: translated, comments, is_empty })
}

fn read_back(
    plan: &Plan<'_>,
    read: Result<Vec<ncclx::Rule>, NcclxError>,
    rules: &[Translated],
) -> Result<(), EmitError> {
    let read = read.map_err(|error| plan.read_back_error(error.to_string()))?;
    let is_live = |translated: &&Translated| plan.rules_are_live && !translated.is_empty;
    if read.iter().eq(rules.iter().filter(is_live).map(|translated| &translated.rule)) {
        return Ok(());
    }
    Err(plan.read_back_error("other rules came back"))
}
