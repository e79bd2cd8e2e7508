//! Rules by size, in the columns of NVIDIA's example tuner plugin, for readers that leave to the engine what no rule says: our
//! plugin, and RCCL.

use super::{EmitError, Format, plan::Plan};
use crate::{
    grammar::tuner_csv::{HEADER, LONGEST_LINE, RuleTable, TableRule},
    profile::Rule,
};

/// The largest size that a signed 64-bit reader takes too. 4294967295, as seen in the wild, is only 4 GiB - 1.
pub(super) const UNBOUNDED: u64 = i64::MAX as u64;

pub(super) fn emit(plan: &Plan<'_>) -> Result<String, EmitError> {
    let mut lines: Vec<String> = plan.head.iter().map(|line| format!("# {line}")).collect();
    lines.push(
        "# bounds are inclusive and the first match wins; -1 channels or no match leave it to the engine".to_owned(),
    );
    lines.push(match plan.format {
        Format::RcclCsv => {
            "# for the tuner that is built into librccl: NCCL_TUNER_CONFIG_FILE, or rccl_tuner_ARCH.csv in its folder"
                .to_owned()
        }
        _ => "# (NVIDIA's example plugin forces one channel there: use gdrtune's plugin)".to_owned(),
    });
    lines.push(format!("# {HEADER}"));
    for rule in &plan.profile.rule {
        lines.push(format!("# {}", Plan::rule_comment(plan.profile, rule)));
        lines.push(format!("{}{}", if plan.rules_are_live { "" } else { "#" }, row(rule)));
    }
    let text = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
    read_back(plan, &text)?;
    Ok(text)
}

pub(super) fn max_bytes(rule: &Rule) -> u64 {
    rule.bytes.max.unwrap_or(UNBOUNDED.max(rule.bytes.min))
}

fn row(rule: &Rule) -> String {
    let Rule { collective, algorithm, protocol, nodes, ranks, .. } = rule;
    let channels = rule.channels.map_or("-1".to_owned(), |channels| channels.to_string());
    let (min, max) = (rule.bytes.min, max_bytes(rule));
    format!("{collective},{min},{max},{algorithm},{protocol},{channels},{nodes},{ranks},-1,-1")
}

/// The rules of a text, each line of which the plugins read whole.
pub(super) fn read(plan: &Plan<'_>, text: &str) -> Result<RuleTable, EmitError> {
    if let Some(line) = text.lines().find(|line| LONGEST_LINE < line.len()) {
        return Err(plan.read_back_error(format!("a line is {} bytes long", line.len())));
    }
    let (table, diagnostics) = RuleTable::parse(text);
    match diagnostics.first() {
        Some(first) => Err(plan.read_back_error(first.to_string())),
        None => Ok(table),
    }
}

fn read_back(plan: &Plan<'_>, text: &str) -> Result<(), EmitError> {
    let table = read(plan, text)?;
    let rules = plan.live_rules();
    let is_same = |(read, rule): (&TableRule, &Rule)| {
        let bounds = (read.min_bytes, read.max_bytes) == (rule.bytes.min, max_bytes(rule));
        let shape = (read.nodes, read.ranks) == (Some(rule.nodes), Some(rule.ranks));
        let is_open = read.num_pipe_ops.is_none() && read.reg_buff.is_none();
        bounds && shape && is_open && (read.collective, read.choice) == (rule.collective, rule.choice())
    };
    if table.rules().len() == rules.len() && table.rules().iter().zip(rules).all(is_same) {
        return Ok(());
    }
    Err(plan.read_back_error("other rules came back"))
}
