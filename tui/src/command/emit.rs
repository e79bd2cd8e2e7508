//! `gdrtune emit`: a profile in another format, on stdout.

use std::io::{self, Write};

use gdrtune_profiles::emit::{self, EmitOptions, Format};

use crate::{
    cli::EmitArgs,
    exit::{Exit, Failure},
};

pub(crate) fn emit(args: &EmitArgs) -> Result<Exit, Failure> {
    let format: Format = args.format.parse().map_err(Failure::usage)?;
    let profile = super::read_profile(&args.profile)?.profile;
    let options = EmitOptions { keep_set: args.keep_set, for_engine: args.for_engine, ..EmitOptions::plain() };
    let emitted = emit::emit(&profile, format, &options).map_err(Failure::usage)?;
    io::stdout().write_all(emitted.as_bytes())?;
    Ok(Exit::Done)
}
