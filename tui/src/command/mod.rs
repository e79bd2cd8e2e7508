//! What the sub-commands do.

pub(crate) mod bench;
pub(crate) mod emit;
pub(crate) mod install;
pub(crate) mod node;
pub(crate) mod runs;
pub(crate) mod tune;

use gdrtune_profiles::{size::parse_sizes, vocab::Point};

use crate::{
    cli::{LookArgs, MeasureArgs},
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
