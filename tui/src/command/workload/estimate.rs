//! `gdrtune workload estimate`.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::Path,
};

use gdrtune_profiles::{
    json,
    nearest::hint,
    size::Size,
    workload::estimate::{Estimate, Group, Job, Params, Term},
};
use gdrtune_session::output::{Existing, OutputDir};
use serde_json::{Value, json};

use super::{COLUMNS, calls, iec, name_of, put};
use crate::{
    cli::EstimateArgs,
    command::{refuse_existing, say, tune::occupied},
    exit::{Exit, Failure},
    ui::text,
};

pub(super) fn estimate(args: &EstimateArgs) -> Result<Exit, Failure> {
    refuse_existing("-o", args.output.as_deref(), args.force)?;
    let estimate = Estimate::of(&job(args)).map_err(Failure::usage)?;
    if let Some(name) = &args.group {
        let group = group(&estimate, name)?;
        let path = args.output.as_deref();
        put(&group.workload(&name_of(path, name)), &comments(args, &estimate, group), path)?;
        return Ok(Exit::Done);
    }
    if let Some(folder) = &args.out {
        write_groups(args, &estimate, folder)?;
    }
    let printed = if args.json { json::document(&document(&estimate)) } else { table(args, &estimate) };
    io::stdout().write_all(printed.as_bytes())?;
    Ok(Exit::Done)
}

/// A file for each group.
fn write_groups(args: &EstimateArgs, estimate: &Estimate, folder: &Path) -> Result<(), Failure> {
    let text = |group: &Group| {
        let name = format!("{}.toml", group.name);
        let text = group.workload(group.name).to_toml(&comments(args, estimate, group), &name);
        Ok((name, text.map_err(Failure::usage)?))
    };
    let texts = estimate.groups.iter().map(text).collect::<Result<Vec<_>, Failure>>()?;
    let existing = if args.force { Existing::Replace } else { Existing::Refuse };
    let names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
    let out = OutputDir::claim(folder, &names, existing).map_err(|error| occupied(error, existing))?;
    for path in out.write_all(&texts).map_err(|error| occupied(error, existing))? {
        say(&format!("wrote {}", path.display()));
    }
    Ok(())
}

fn job(args: &EstimateArgs) -> Job {
    Job {
        params: args.params,
        dp: args.dp,
        tp: args.tp,
        pp: args.pp,
        cp: args.cp,
        ep: args.ep,
        sequence: args.seq,
        micro_batch: args.micro_batch,
        global_batch: args.global_batch,
        layers: args.layers,
        hidden: args.hidden,
        kv_hidden: args.kv_hidden,
        vocabulary: args.vocabulary,
        experts: args.experts,
        top_k: args.top_k,
        data_type: args.dtype,
        grad_type: args.grad_dtype,
        sharding: args.zero,
        bucket: args.bucket,
        sequence_parallel: args.sequence_parallel,
        recompute: args.recompute,
        context_exchange: args.cp_comm,
    }
}

fn group<'a>(estimate: &'a Estimate, name: &str) -> Result<&'a Group, Failure> {
    estimate.groups.iter().find(|group| group.name == name).ok_or_else(|| {
        let names = || estimate.groups.iter().map(|group| group.name);
        let known = if estimate.groups.is_empty() { "none".to_owned() } else { names().collect::<Vec<_>>().join(", ") };
        Failure::usage_text(format!("--group: no group `{name}` with calls: there are {known}{}", hint(name, names())))
    })
}

/// What the table says of a term, for the file: where its numbers are from.
fn comments(args: &EstimateArgs, estimate: &Estimate, group: &Group) -> Vec<String> {
    let head = format!(
        "Estimated by gdrtune for {} parameters, --dp {} --tp {} --pp {} --cp {} --ep {}: the {} group of {} ranks, in one step of a \
         rank of a middle pipeline stage. Sizes are those of nccl-tests.",
        Params(args.params),
        args.dp,
        args.tp,
        args.pp,
        args.cp,
        args.ep,
        group.name,
        group.ranks
    );
    let terms = group.terms.iter().map(|term| {
        let Term { collective, bytes, per_step, what, formula, source } = term;
        format!("{collective} {} x{}: {what}; {formula} ({source}).", Size(*bytes), calls(*per_step))
    });
    let assumed = estimate.assumed.iter().map(|line| format!("Assumed: {line}."));
    let left = estimate.left_out.iter().map(|line| format!("Left out: {line}."));
    let all = std::iter::once(head).chain(terms).chain(assumed).chain(left);
    all.flat_map(|line| text::wrap(&line, COLUMNS * 3 / 2)).collect()
}

fn table(args: &EstimateArgs, estimate: &Estimate) -> String {
    let mut printed = format!("{} parameters, calls of one rank in one step\n", Params(args.params));
    for group in &estimate.groups {
        // Writing to a string cannot fail.
        let head = format!("{}: {} ranks, {} a step", group.name, group.ranks, iec(group.bytes()));
        writeln!(printed, "\n{head}").ok();
        for Term { collective, bytes, per_step, what, formula, source } in &group.terms {
            let count = calls(*per_step);
            let total = iec(*bytes as f64 * per_step);
            writeln!(printed, "  {collective:<14}{:>10} x{count:<9}{total:>10}  {what}", iec(*bytes as f64)).ok();
            paragraph(&mut printed, "      ", formula);
            paragraph(&mut printed, "      ", source);
        }
    }
    if estimate.groups.is_empty() {
        printed += "\nno group of two or more ranks calls a collective\n";
    }
    for (word, lines) in [("assumed", &estimate.assumed), ("left out", &estimate.left_out)] {
        printed.push('\n');
        for line in lines {
            paragraph(&mut printed, "  ", &format!("{word}: {line}"));
        }
    }
    printed
}

/// A text that is broken to fit, indented.
fn paragraph(printed: &mut String, indent: &str, words: &str) {
    for line in text::wrap(words, COLUMNS - indent.len()) {
        // Writing to a string cannot fail.
        writeln!(printed, "{indent}{line}").ok();
    }
}

fn document(estimate: &Estimate) -> Value {
    let term = |Term { collective, bytes, per_step, what, formula, source }: &Term| json!({"collective": collective, "bytes": bytes, "per_step": per_step, "what": what, "formula": formula, "source": source});
    let group = |group: &Group| {
        let terms: Vec<Value> = group.terms.iter().map(term).collect();
        json!({"name": group.name, "ranks": group.ranks, "bytes_per_step": group.bytes(), "calls": terms})
    };
    json!({
        "schema_version": 1,
        "groups": estimate.groups.iter().map(group).collect::<Vec<_>>(),
        "assumed": estimate.assumed,
        "left_out": estimate.left_out,
    })
}
