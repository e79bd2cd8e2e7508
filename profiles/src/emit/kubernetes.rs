//! `ConfigMap`s of the variables and of the rules, and a patch that makes a workload's containers use them.

use super::{
    EmitError, EmitOptions, Format,
    plan::{Plan, comment, push_line},
};
use crate::grammar::yaml::{self, Yaml, quote};

/// The `ConfigMap` of the variables. A name is of lower-case letters, digits and `-` (RFC 1123).
const VARIABLES: &str = "gdrtune-nccl";
/// The one of the rules. A key such as `nccl-tuner.csv` would become a variable where `envFrom` takes the `ConfigMap` whole.
const RULES: &str = "gdrtune-nccl-rules";
/// Where containers find the rules.
const FOLDER: &str = "/etc/gdrtune";

pub(super) fn emit_config_map(plan: &Plan<'_>) -> Result<String, EmitError> {
    let mut text = plan.head_text();
    text.push_str(&config_map_head(VARIABLES));
    text.push_str(if plan.live().next().is_none() { "data: {}\n" } else { "data:\n" });
    for setting in &plan.settings {
        for line in &setting.comments {
            push_line(&mut text, &format!("  # {line}"));
        }
        let entry = format!("{}: {}", setting.name, quote(&setting.value));
        if setting.is_live {
            push_line(&mut text, &format!("  {entry}"));
        } else {
            push_line(&mut text, &format!("  #{}", comment(&entry)));
        }
    }
    let rules = rules(plan)?;
    if let Some(rules) = &rules {
        push_line(&mut text, &format!("---\n{}data:\n  {}: |", config_map_head(RULES), Format::TunerCsv.file_name()));
        text.extend(rules.lines().flat_map(|line| ["    ", line, "\n"]));
    }
    read_back_config_map(plan, &text, rules.as_deref())?;
    Ok(text)
}

fn config_map_head(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n")
}

/// The tuner CSV, where a rule holds.
fn rules(plan: &Plan<'_>) -> Result<Option<String>, EmitError> {
    if plan.live_rules().is_empty() {
        return Ok(None);
    }
    let options = EmitOptions { for_engine: Some(plan.profile.run.engine), ..EmitOptions::plain() };
    super::emit(plan.profile, Format::TunerCsv, &options).map(Some)
}

fn read_back_config_map(plan: &Plan<'_>, text: &str, rules: Option<&str>) -> Result<(), EmitError> {
    let documents = yaml::parse(text).map_err(|error| plan.read_back_error(error.to_string()))?;
    let is_named = |document: &Yaml, name: &str| {
        let at = |path| document.at(path).and_then(Yaml::text);
        (at("apiVersion"), at("kind"), at("metadata/name")) == (Some("v1"), Some("ConfigMap"), Some(name))
    };
    let [variables, others @ ..] = documents.as_slice() else {
        return Err(plan.read_back_error("there is no document"));
    };
    let Some(Yaml::Map(entries)) = variables.get("data").filter(|_| is_named(variables, VARIABLES)) else {
        return Err(plan.read_back_error("the first document is no ConfigMap of variables"));
    };
    let entry = |(name, value): &(String, Yaml)| Some((name.clone(), value.text()?.to_owned()));
    let read = entries.iter().map(entry).collect::<Option<_>>();
    plan.expect_environment(&read.ok_or_else(|| plan.read_back_error("a value is no text"))?)?;
    let read: Vec<Option<&str>> =
        others.iter().map(|document| document.at("data")?.get(Format::TunerCsv.file_name())?.text()).collect();
    if read == rules.map(Some).into_iter().collect::<Vec<_>>() && others.iter().all(|d| is_named(d, RULES)) {
        return Ok(());
    }
    Err(plan.read_back_error("other rules came back"))
}

/// A strategic merge patch for what has a pod template under `spec.template`.
pub(super) fn emit_patch(plan: &Plan<'_>, container: &str) -> Result<String, EmitError> {
    let mut text = plan.head_text();
    push_line(
        &mut text,
        &format!(
            "# kubectl apply -f {}, then kubectl patch deployment NAME --patch-file {}",
            Format::ConfigMap.file_name(),
            Format::PodPatch.file_name()
        ),
    );
    push_line(
        &mut text,
        "# the same for a statefulset or daemonset; a Job's template cannot be changed, so its manifest gets these lines",
    );
    push_line(&mut text, "# a container's own `env` beats what it takes from a ConfigMap by `envFrom`");
    push_line(
        &mut text,
        "# an `envFrom` that the container has is replaced as a whole: put its entries into this one, too",
    );
    push_line(
        &mut text,
        "# where no container has this name, one without an image is added, and refused: --container names yours",
    );
    push_line(
        &mut text,
        "# custom resources (PyTorchJob, MPIJob, ...) take no such patch: their manifests get these lines, too",
    );
    let rules = rules(plan)?;
    if rules.is_some() {
        text.push_str("# the rules need gdrtune's tuner plugin in the image, named by NCCL_TUNER_PLUGIN: gdrtune install brings it\n");
    }
    push_line(
        &mut text,
        &format!(
            "spec:\n  template:\n    spec:\n      containers:\n        - name: {}\n          envFrom:\n            - configMapRef:\n                name: {VARIABLES}",
            quote(container)
        ),
    );
    if rules.is_some() {
        let file = Format::TunerCsv.file_name();
        push_line(
            &mut text,
            &format!(
                "          env:\n            - name: GDRTUNE_RULES\n              value: {FOLDER}/{file}\n          volumeMounts:\n            \
             - name: {RULES}\n              mountPath: {FOLDER}\n              readOnly: true\n      volumes:\n        - name: {RULES}\n          \
             configMap:\n            name: {RULES}"
            ),
        );
    }
    read_back_patch(plan, &text, container, rules.is_some())?;
    Ok(text)
}

fn read_back_patch(plan: &Plan<'_>, text: &str, container: &str, has_rules: bool) -> Result<(), EmitError> {
    let documents = yaml::parse(text).map_err(|error| plan.read_back_error(error.to_string()))?;
    let [patch] = documents.as_slice() else { return Err(plan.read_back_error("it is not one document")) };
    let at = |path: &str| patch.at(&format!("spec/template/spec/{path}")).and_then(Yaml::text);
    let is_used =
        at("containers/0/name") == Some(container) && at("containers/0/envFrom/0/configMapRef/name") == Some(VARIABLES);
    let mounted = at("containers/0/volumeMounts/0/name").zip(at("volumes/0/name")).zip(at("volumes/0/configMap/name"));
    let has_mounted = mounted == Some(((RULES, RULES), RULES));
    if is_used && has_mounted == has_rules { Ok(()) } else { Err(plan.read_back_error("another patch came back")) }
}
