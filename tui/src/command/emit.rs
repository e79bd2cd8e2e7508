//! `gdrtune emit`: a profile in other formats, on stdout or in a folder.

use std::io::{self, Write};

use gdrtune_profiles::{
    emit::{self, EmitOptions, Format},
    profile::Profile,
};
use gdrtune_session::output::{Existing, OutputDir};

use super::{say, tune::occupied};
use crate::{
    cli::EmitArgs,
    exit::{Exit, Failure},
};

/// What stands for every format.
const ALL: &str = "all";

/// Emits what is asked for.
///
/// # Errors
/// Wrong use: no such format, a profile that cannot be read, or a value that a format cannot hold.
pub(crate) fn emit(args: &EmitArgs) -> Result<Exit, Failure> {
    let Some(path) = args.profile.as_ref().filter(|_| !args.list) else {
        io::stdout().write_all(list().as_bytes())?;
        return Ok(Exit::Done);
    };
    let formats = formats(&args.format)?;
    let profile = super::read_profile(path)?.profile;
    let options =
        EmitOptions { program: args.program.clone(), container: args.container.clone(), ..args.text.options() };
    let texts = texts(&profile, &formats, &options)?;
    if let Some(folder) = &args.out {
        let existing = if args.force { Existing::Replace } else { Existing::Refuse };
        let names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
        let out = OutputDir::claim(folder, &names, existing).map_err(|error| occupied(error, existing))?;
        for path in out.write_all(&texts).map_err(|error| occupied(error, existing))? {
            say(&format!("wrote {}", path.display()));
        }
        return Ok(Exit::Done);
    }
    let [(_, text)] = texts.as_slice() else {
        let text = format!("{} formats need a folder: --out DIR", texts.len());
        return Err(Failure::usage_text(text));
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

/// The formats that are named, each once; none is every one.
fn formats(names: &[String]) -> Result<Vec<Format>, Failure> {
    let mut formats: Vec<Format> = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        let meant = if name == ALL { Format::ALL.to_vec() } else { vec![name.parse().map_err(Failure::usage)?] };
        for format in meant {
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
    }
    Ok(formats)
}

/// File name and text of each format.
fn texts(profile: &Profile, formats: &[Format], options: &EmitOptions) -> Result<Vec<(String, String)>, Failure> {
    let named = |name: &str, text| (name.to_owned(), text);
    if formats.len() == Format::ALL.len() {
        let all = emit::emit_all(profile, options).map_err(Failure::usage)?;
        return Ok(all.into_iter().map(|(name, text)| named(name, text)).collect());
    }
    let text = |format: &Format| {
        let text = emit::emit(profile, *format, options).map_err(Failure::usage)?;
        Ok(named(format.file_name(), text))
    };
    formats.iter().map(text).collect()
}

fn list() -> String {
    let line = |format: &Format| format!("{:<14} {:<21} {}\n", format.name(), format.file_name(), format.about());
    Format::ALL.iter().map(line).collect()
}
