//! `gdrtune runs export`: the trials of a run as a table.

use std::io::{self, Write as _};

use anyhow::Context as _;
use gdrtune_session::{export, output, store};

use crate::{
    cli::{ExportArgs, ExportFormat},
    exit::{Exit, Failure},
};

pub(super) fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    super::super::refuse_existing("-o", args.output.as_deref(), args.force)?;
    let path = super::find(&args.run)?;
    let run = store::read_run(&path).map_err(Failure::usage)?;
    let rows = export::rows(&run.records);
    let text = match args.format {
        ExportFormat::Csv => Ok(export::csv(&rows)),
        ExportFormat::Json => export::json(&rows),
        ExportFormat::Jsonl => export::jsonl(&rows),
    };
    let text = text.context("write the trials")?;
    match &args.output {
        Some(file) => output::write_whole(file, &text).map_err(anyhow::Error::from)?,
        None => io::stdout().lock().write_all(text.as_bytes())?,
    }
    if super::unfinished(&path) == "running" {
        super::super::say(&format!("the run is going on: these are its first {} trials", rows.len()));
    }
    Ok(Exit::Done)
}
