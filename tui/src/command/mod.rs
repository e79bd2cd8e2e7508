//! What the sub-commands do.

pub(crate) mod bench;
pub(crate) mod emit;
pub(crate) mod node;
pub(crate) mod runs;
pub(crate) mod tune;

use std::path::PathBuf;

use gdrtune_profiles::{
    size::parse_sizes,
    vocab::{Engine, Point},
};

use crate::{
    cli::{LookArgs, MeasureArgs, NcclArgs},
    exit::Failure,
    ui::{Charset, Mouse, Source, UiOptions},
};

/// Every collective at every size.
///
/// # Errors
/// Wrong use: a size that is no whole number of elements.
fn points(measure: &MeasureArgs) -> Result<Vec<Point>, Failure> {
    let sizes = parse_sizes(&measure.sizes, measure.factor).map_err(Failure::usage)?;
    let element = measure.data_type.bytes();
    if let Some(size) = sizes.iter().find(|&&size| size == 0 || size % element != 0) {
        let text =
            format!("--sizes: {size} bytes are no whole number of {} elements ({element} bytes)", measure.data_type);
        return Err(Failure::usage_text(text));
    }
    let at_sizes = |&collective| sizes.iter().map(move |&bytes| Point { collective, bytes });
    Ok(measure.collectives.iter().flat_map(at_sizes).collect())
}

/// Where the workers find NCCL, if the user says so.
///
/// # Errors
/// Wrong use: options for NCCL with another engine, or a path that no message can carry.
fn nccl_library(measure: &MeasureArgs, args: &NcclArgs) -> Result<Option<String>, Failure> {
    if measure.engine != Engine::Nccl && (args.nccl.is_some() || args.emulate_nodes) {
        return Err(Failure::usage_text("--nccl and --emulate-nodes are for --engine nccl"));
    }
    let text = |path: &PathBuf| path.to_str().map(str::to_owned);
    match &args.nccl {
        None => Ok(None),
        Some(path) => text(path).map(Some).ok_or_else(|| Failure::usage_text("--nccl: the path is no UTF-8 text")),
    }
}

/// A tokio runtime for fleet, signals and the terminal UI. Two threads are plenty: measuring happens elsewhere.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// How the terminal UI looks: what the environment says, and what the user asks for.
fn ui_options(source: Source, look: &LookArgs) -> UiOptions {
    let options = UiOptions::from_environment(source, |name| std::env::var(name).ok());
    UiOptions {
        charset: if look.ascii { Charset::Ascii } else { options.charset },
        mouse: if look.no_mouse { Mouse::Free } else { options.mouse },
        theme: look.theme.unwrap_or(options.theme),
        ..options
    }
}
