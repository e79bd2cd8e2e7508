//! The formats that hold a variable a line: shell snippets and a wrapper, environment file, nccl.conf, `ENV` lines.

use super::{
    EmitError, Format,
    plan::{Plan, Setting, comment, push_line},
};
use crate::{
    grammar::{dockerfile, env_file, nccl_conf, shell},
    vocab::Environment,
};

/// What the wrapper starts.
const TORCHRUN: &str = "exec torchrun \"$@\"\n";
/// The steps of a job that `sbatch --export=NONE` started get nothing of its environment otherwise: srun(1), `--export`.
const STEP_ENVIRONMENT: &str = "SLURM_EXPORT_ENV";

pub(super) fn emit(plan: &Plan<'_>) -> Result<String, EmitError> {
    let mut text = if plan.format == Format::Torchrun { "#!/bin/sh\n".to_owned() } else { String::new() };
    text.push_str(&plan.head_text());
    for line in usage(plan) {
        push_line(&mut text, &format!("# {line}"));
    }
    if is_shell(plan.format) && plan.keep_set {
        push_line(&mut text, "# values that are set already are kept");
    }
    for setting in &plan.settings {
        push_setting(plan, setting, &mut text)?;
    }
    text.push_str(&tail(plan));
    read_back(plan, &text)?;
    Ok(text)
}

const fn is_shell(format: Format) -> bool {
    matches!(format, Format::Sh | Format::Slurm | Format::Torchrun)
}

/// How the file is used, where its name does not tell.
fn usage(plan: &Plan<'_>) -> Vec<String> {
    let cluster = &plan.profile.cluster;
    match plan.format {
        Format::Slurm => {
            let (nodes, ranks) = (cluster.nodes, cluster.ranks);
            vec![
                "for a batch script, after its #SBATCH lines and before its first command".to_owned(),
                format!("the shape that it was measured for: srun --nodes={nodes} --ntasks={ranks} PROGRAM"),
            ]
        }
        Format::Torchrun => {
            let (nodes, per_node) = (cluster.nodes, cluster.ranks / cluster.nodes.max(1));
            vec![format!("on each node: sh torchrun.sh --nnodes {nodes} --nproc-per-node {per_node} ... SCRIPT")]
        }
        Format::Dockerfile => vec!["after the last FROM of a Dockerfile".to_owned()],
        _ => Vec::new(),
    }
}

/// What follows the settings.
fn tail(plan: &Plan<'_>) -> String {
    match plan.format {
        Format::Torchrun => format!("\n{TORCHRUN}"),
        Format::Slurm if plan.live().next().is_some() => {
            let why = "# steps see this environment too where the job was submitted with --export=NONE";
            format!("\n{why}\n{}\n", shell::export_line(STEP_ENVIRONMENT, "ALL"))
        }
        _ => String::new(),
    }
}

fn push_setting(plan: &Plan<'_>, setting: &Setting, text: &mut String) -> Result<(), EmitError> {
    push_line(text, "");
    for line in &setting.comments {
        push_line(text, &format!("# {line}"));
    }
    if setting.is_live {
        refuse_misfit(plan.format, setting)?;
        push_line(text, &line(plan, setting));
    } else {
        push_line(text, &format!("#{}", comment(&line(plan, setting))));
    }
    Ok(())
}

fn line(plan: &Plan<'_>, setting: &Setting) -> String {
    let Setting { name, value, .. } = setting;
    match plan.format {
        format if is_shell(format) && plan.keep_set => shell::keep_set_line(name, value),
        format if is_shell(format) => shell::export_line(name, value),
        Format::Dockerfile => format!("ENV {name}={}", dockerfile::quote(value)),
        _ => format!("{name}={value}"),
    }
}

fn refuse_misfit(format: Format, setting: &Setting) -> Result<(), EmitError> {
    let cause = match format {
        Format::Env => env_file::refuses(&setting.value).map(|cause| format!("the value {cause}")),
        Format::NcclConf => nccl_conf::refuses(&setting.name, &setting.value).map(str::to_owned),
        _ => None,
    };
    match cause {
        None => Ok(()),
        Some(cause) => Err(EmitError::DoesNotFit { format, name: setting.name.clone(), cause }),
    }
}

fn read_back(plan: &Plan<'_>, text: &str) -> Result<(), EmitError> {
    let environment = match plan.format {
        Format::Env => env_file::parse(text).map_err(|error| plan.read_back_error(error.to_string()))?,
        Format::Dockerfile => dockerfile::parse(text).map_err(|error| plan.read_back_error(error.to_string()))?,
        Format::NcclConf => {
            let (environment, diagnostics) = nccl_conf::parse(text, Format::NcclConf.file_name());
            if let Some(error) = diagnostics.iter().find(|diagnostic| diagnostic.is_error()) {
                return Err(plan.read_back_error(error.to_string()));
            }
            environment
        }
        _ => read_shell(plan, text)?,
    };
    plan.expect_environment(&environment)
}

/// What a shell exports, without what the format itself adds.
fn read_shell(plan: &Plan<'_>, text: &str) -> Result<Environment, EmitError> {
    let text = match plan.format {
        Format::Torchrun => {
            text.strip_suffix(TORCHRUN).ok_or_else(|| plan.read_back_error("torchrun is not started"))?
        }
        _ => text,
    };
    let mut assignments = shell::parse(text).map_err(|error| plan.read_back_error(error.to_string()))?;
    if plan.format == Format::Slurm {
        assignments.retain(|assignment| assignment.name != STEP_ENVIRONMENT);
    }
    if assignments.iter().any(|assignment| assignment.keeps_set != plan.keep_set) {
        return Err(plan.read_back_error("a value is kept that should not be, or is not kept"));
    }
    Ok(assignments.into_iter().map(|assignment| (assignment.name, assignment.value)).collect())
}
