//! `gdrtune emit`: a profile in another format, on stdout.

use std::{
    fs,
    io::{self, Write},
};

use gdrtune_profiles::{
    emit::{self, EmitOptions, Format},
    profile::Profile,
};

use crate::{
    cli::EmitArgs,
    exit::{Exit, Failure},
};

pub(crate) fn emit(args: &EmitArgs) -> Result<Exit, Failure> {
    let format: Format = args.format.parse().map_err(Failure::usage)?;
    let name = args.profile.display().to_string();
    let text = fs::read(&args.profile)
        .map_err(|error| Failure::usage(anyhow::Error::from(error).context(format!("read {name}"))))?;
    let (profile, diagnostics) = Profile::parse_bytes(&text, &name).map_err(Failure::usage)?;
    let mut stderr = io::stderr();
    for diagnostic in &diagnostics {
        writeln!(stderr, "{diagnostic}")?;
    }
    let options = EmitOptions { keep_set: args.keep_set, for_engine: args.for_engine, ..EmitOptions::plain() };
    let emitted = emit::emit(&profile, format, &options).map_err(Failure::usage)?;
    io::stdout().write_all(emitted.as_bytes())?;
    Ok(Exit::Done)
}
