//! What the sub-commands do.

pub(crate) mod bench;
pub(crate) mod emit;
pub(crate) mod node;
pub(crate) mod runs;
pub(crate) mod tune;

use crate::{
    cli::LookArgs,
    exit::Failure,
    ui::{Charset, Mouse, Source, UiOptions},
};

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
