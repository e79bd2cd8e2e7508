//! The files of Open MPI's `mpirun`.

use super::{
    EmitError,
    plan::{Plan, Setting, comment, push_line},
};
use crate::grammar::open_mpi::{app_refuses, parse_app, parse_tune, tune_refuses};

/// `-x NAME=value` lines for `mpirun --tune`.
pub(super) fn emit_tune(plan: &Plan<'_>) -> Result<String, EmitError> {
    let mut text = plan.head_text();
    text.push_str("# mpirun --tune FILE ... PROGRAM\n");
    for setting in &plan.settings {
        push_comments(setting, &mut text);
        let line = format!("-x {}={}", setting.name, setting.value);
        if setting.is_live {
            refuse(plan, setting, tune_refuses)?;
            push_line(&mut text, &line);
        } else {
            push_line(&mut text, &format!("#{}", comment(&line)));
        }
    }
    let read = parse_tune(&text).map_err(|error| plan.read_back_error(error.to_string()))?;
    plan.expect_environment(&read)?;
    Ok(text)
}

/// One line with ranks, variables and `program`, for `mpirun --app`.
pub(super) fn emit_app(plan: &Plan<'_>, program: &str) -> Result<String, EmitError> {
    let mut text = plan.head_text();
    text.push_str("# mpirun --app FILE; a hostfile or the job's nodes say where the ranks run\n");
    if program == super::OWN_ENVIRONMENT {
        text.push_str(
            "# env shows what the ranks find set: put the job's program in its place, or emit with --program\n",
        );
    }
    let ranks = plan.profile.cluster.ranks;
    let mut line = format!("-np {ranks}");
    for setting in &plan.settings {
        // The line holds them all, so each comment says whose it is.
        for about in &setting.comments {
            push_line(&mut text, &format!("# {}", comment(&format!("{}: {about}", setting.name))));
        }
        if setting.is_live {
            refuse(plan, setting, app_refuses)?;
            line.extend([" -x ", &setting.name, "=", &setting.value]);
        } else {
            push_line(&mut text, &format!("#{}", comment(&format!("-x {}={}", setting.name, setting.value))));
        }
    }
    push_line(&mut text, &format!("\n{line} {program}"));
    let does_not_fit =
        |cause: String| EmitError::DoesNotFit { format: plan.format, name: "the program".to_owned(), cause };
    let apps = parse_app(&text).map_err(|error| does_not_fit(error.to_string()))?;
    let words: Vec<&str> = program.split(' ').filter(|word| !word.is_empty()).collect();
    match apps.as_slice() {
        [app] if app.processes == ranks && app.command == words && !words[0].starts_with('-') => {
            plan.expect_environment(&app.environment)?;
            Ok(text)
        }
        _ => Err(does_not_fit(format!("mpirun reads `{}` otherwise: it knows no quotes here", program.escape_debug()))),
    }
}

fn push_comments(setting: &Setting, text: &mut String) {
    text.push('\n');
    for line in &setting.comments {
        push_line(text, &format!("# {line}"));
    }
}

fn refuse(plan: &Plan<'_>, setting: &Setting, refuses: fn(&str) -> Option<&'static str>) -> Result<(), EmitError> {
    let cause = refuses(&setting.value).map(|cause| format!("the value {cause}"));
    cause.map_or(Ok(()), |cause| Err(EmitError::DoesNotFit { format: plan.format, name: setting.name.clone(), cause }))
}
