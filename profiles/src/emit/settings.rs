//! The formats that hold variables: shell snippet, environment file, nccl.conf.

use super::{
    EmitError, Format,
    plan::{Plan, Setting, comment},
};
use crate::{
    grammar::{env_file, nccl_conf, shell},
    vocab::Environment,
};

pub(super) fn emit(plan: &Plan<'_>) -> Result<String, EmitError> {
    let mut text = String::new();
    for line in &plan.head {
        push_line(&mut text, &format!("# {line}"));
    }
    if plan.format == Format::Sh && plan.keep_set {
        push_line(&mut text, "# values that are set already are kept");
    }
    for setting in &plan.settings {
        push_line(&mut text, "");
        for line in &setting.comments {
            push_line(&mut text, &format!("# {line}"));
        }
        if setting.is_live {
            refuse_misfit(plan.format, setting)?;
            push_line(&mut text, &line(plan, setting));
        } else {
            push_line(&mut text, &format!("#{}", comment(&line(plan, setting))));
        }
    }
    read_back(plan, &text)?;
    Ok(text)
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn line(plan: &Plan<'_>, setting: &Setting) -> String {
    let Setting { name, value, .. } = setting;
    match plan.format {
        Format::Sh if plan.keep_set => shell::keep_set_line(name, value),
        Format::Sh => shell::export_line(name, value),
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
        Format::NcclConf => {
            let (environment, diagnostics) = nccl_conf::parse(text, Format::NcclConf.file_name());
            if let Some(error) = diagnostics.iter().find(|diagnostic| diagnostic.is_error()) {
                return Err(plan.read_back_error(error.to_string()));
            }
            environment
        }
        _ => {
            let assignments = shell::parse(text).map_err(|error| plan.read_back_error(error.to_string()))?;
            if assignments.iter().any(|assignment| assignment.keeps_set != plan.keep_set) {
                return Err(plan.read_back_error("a value is kept that should not be, or is not kept"));
            }
            assignments.into_iter().map(|assignment| (assignment.name, assignment.value)).collect()
        }
    };
    let live = plan.settings.iter().filter(|setting| setting.is_live);
    let expected: Environment = live.map(|setting| (setting.name.clone(), setting.value.clone())).collect();
    if environment == expected {
        return Ok(());
    }
    Err(plan.read_back_error(format!("`{environment}` and not `{expected}`")))
}
