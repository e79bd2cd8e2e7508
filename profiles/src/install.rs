//! What an installation consists of: the files that jobs take a profile from, and the manifest that says which they are.
//!
//! Pure: texts and names only. Whoever writes and removes the files does it by the manifest, and only by that.

mod manifest;

use crate::{
    emit::{self, EmitError, EmitOptions, Format},
    profile::Profile,
    vocab::Engine,
};

pub use manifest::{MANIFEST_FORMAT, Manifest, ManifestError, ManifestFile, is_plain_name};

/// Our tuner plugin.
pub const PLUGIN_FILE: &str = "libnccl-tuner-gdrtune.so";
/// The rules that the plugin reads.
pub const RULES_FILE: &str = Format::TunerCsv.file_name();
/// The settings for `docker --env-file` and systemd.
pub const ENV_FILE: &str = "gdrtune.env";
/// The settings for shells.
pub const SHELL_FILE: &str = "gdrtune.sh";
/// A copy of the profile.
pub const PROFILE_FILE: &str = "profile.toml";
/// The manifest.
pub const MANIFEST_FILE: &str = "gdrtune-install.json";

/// NCCL keeps a plugin's path in 255 bytes with its NUL, and cuts what is longer (`src/plugin/plugin_open.cc`,
/// `MAX_STR_LEN`).
const LONGEST_PLUGIN_PATH: usize = 254;

/// What a path may hold for the dynamic linker, which NCCL opens the plugin with, to put something else there (ld.so(8)).
const LINKER_TOKENS: [&str; 6] = ["$ORIGIN", "${ORIGIN}", "$LIB", "${LIB}", "$PLATFORM", "${PLATFORM}"];

/// An installation, but for the plugin: that is of the kind of machine that it is put on.
#[derive(Debug, Clone, PartialEq)]
pub struct Package {
    /// Names and contents, in the order in which they are written.
    pub files: Vec<(String, Vec<u8>)>,
    /// Whether the plugin goes with them, as [`PLUGIN_FILE`].
    pub needs_plugin: bool,
    /// The manifest without its files.
    pub manifest: Manifest,
}

/// Why a profile is not installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageError {
    /// Its rules are for something else than NCCL.
    #[error("the profile's {rules} rules are not for NCCL: {why}")]
    OtherEngine {
        /// How many.
        rules: usize,
        /// What they are for.
        why: &'static str,
    },
    /// Nothing in it would change a job.
    #[error("the profile has no rules and no settings for NCCL: there is nothing to install, the defaults are best")]
    Nothing,
    /// It cannot be emitted.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// The path that jobs find the files under cannot be used.
    #[error("the folder `{path}` cannot be installed to: {cause}")]
    Path {
        /// The path.
        path: String,
        /// Why.
        cause: &'static str,
    },
}

/// Makes the files of an installation from a profile and its text. `path` is where jobs will find them, `tool` our version.
///
/// # Errors
/// [`PackageError`]: nothing is installed in part.
pub fn package(profile: &Profile, text: &[u8], path: &str, tool: &str) -> Result<Package, PackageError> {
    let why = match profile.run.engine {
        Engine::Nccl => None,
        Engine::Native => Some("rules of a native profile are for gdrtune's own engine"),
        Engine::Replay => Some("rules of a replayed profile were never measured on this cluster"),
        Engine::Sim => Some("rules of a simulated profile were never measured on a real cluster"),
    };
    let rules = profile.rule.len();
    if let Some(why) = why.filter(|_| rules > 0) {
        return Err(PackageError::OtherEngine { rules, why });
    }
    check_path(path).map_err(|cause| PackageError::Path { path: path.escape_debug().to_string(), cause })?;
    // As a check of the installation will name it.
    let path = if path.trim_end_matches('/').is_empty() { "/" } else { path.trim_end_matches('/') };
    let options = EmitOptions { install_folder: Some(path.to_owned()), ..EmitOptions::plain() };
    let environment = emit::emit(profile, Format::Env, &options)?;
    let is_empty = !environment.lines().any(|line| !line.is_empty() && !line.starts_with('#'));
    if is_empty {
        return Err(PackageError::Nothing);
    }
    let mut files = Vec::new();
    if rules > 0 {
        files.push((RULES_FILE.to_owned(), emit::emit(profile, Format::TunerCsv, &options)?.into_bytes()));
    }
    files.push((PROFILE_FILE.to_owned(), text.to_owned()));
    files.push((SHELL_FILE.to_owned(), emit::emit(profile, Format::Sh, &options)?.into_bytes()));
    files.push((ENV_FILE.to_owned(), environment.into_bytes()));
    let manifest = Manifest {
        format: MANIFEST_FORMAT,
        gdrtune: tool.to_owned(),
        run: profile.run.id.clone(),
        path: path.to_owned(),
        labels: emit::labels(profile).into_iter().map(str::to_owned).collect(),
        rules: rules as u32,
        files: Vec::new(),
    };
    Ok(Package { files, needs_plugin: rules > 0, manifest })
}

/// Whether jobs can be told to take the files from the folder `path`; the error says why not.
pub(crate) fn check_path(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("every rank would look for it in its own working directory: give an absolute path");
    }
    if path.contains(|c: char| c.is_control()) {
        return Err("it has a line break or another control character");
    }
    if LINKER_TOKENS.iter().any(|token| path.contains(token)) {
        return Err("the dynamic linker would put something else in the place of $ORIGIN, $LIB or $PLATFORM");
    }
    if file_path(path, PLUGIN_FILE).len() > LONGEST_PLUGIN_PATH {
        return Err("NCCL cuts the path of a plugin at 254 bytes: use a shorter one");
    }
    Ok(())
}

/// The path of a file in a folder.
pub fn file_path(folder: &str, file: &str) -> String {
    format!("{}/{file}", folder.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grammar::{env_file, shell};

    const NCCL: &str = include_str!("../tests/golden/nccl.toml");
    const NATIVE: &str = include_str!("../tests/golden/native.toml");

    fn profile(text: &str) -> Profile {
        Profile::parse(text, "golden").unwrap().0
    }

    fn text<'a>(package: &'a Package, name: &str) -> &'a str {
        let (_, bytes) = package.files.iter().find(|(file, _)| file == name).unwrap();
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_files_name_the_folder_that_jobs_will_find() {
        let package = package(&profile(NCCL), NCCL.as_bytes(), "/opt/a b/$(touch x)/", "9.9").unwrap();
        let environment = env_file::parse(text(&package, ENV_FILE)).unwrap();
        assert_eq!(environment.get("NCCL_TUNER_PLUGIN"), Some("/opt/a b/$(touch x)/libnccl-tuner-gdrtune.so"));
        assert_eq!(environment.get("GDRTUNE_RULES"), Some("/opt/a b/$(touch x)/nccl-tuner.csv"));
        assert_eq!(environment.get("NCCL_SOCKET_IFNAME"), Some("=eth0"));
        let exported = shell::parse(text(&package, SHELL_FILE)).unwrap();
        assert_eq!(environment, exported.into_iter().map(|a| (a.name, a.value)).collect());
        assert_eq!(text(&package, PROFILE_FILE), NCCL);
        assert!(package.needs_plugin);
        let Manifest { rules, run, gdrtune, labels, .. } = package.manifest;
        assert_eq!((rules, run.as_str(), gdrtune.as_str(), labels.len()), (2, "2026-11-29T14:02:11Z-7f3a", "9.9", 0));
    }

    #[test]
    fn without_rules_there_is_no_plugin() {
        let mut without = profile(NCCL);
        without.rule.clear();
        let package = package(&without, b"", "/opt", "1").unwrap();
        assert!(!package.needs_plugin && !text(&package, ENV_FILE).contains("NCCL_TUNER_PLUGIN"));
        assert!(package.files.iter().all(|(name, _)| name != RULES_FILE));
    }

    #[test]
    fn an_emulated_profile_keeps_its_label_in_every_text() {
        let mut emulated = profile(NCCL);
        emulated.run.emulated = true;
        let toml = emulated.to_toml();
        let package = package(&emulated, toml.as_bytes(), "/opt", "1").unwrap();
        for (name, bytes) in &package.files {
            assert!(std::str::from_utf8(bytes).unwrap().to_lowercase().contains("emulated"), "{name}");
        }
        assert!(package.manifest.labels[0].starts_with("EMULATED"));
    }

    #[test]
    fn what_is_not_for_nccl_is_refused() {
        let error = |profile: &Profile, path: &str| package(profile, b"", path, "1").unwrap_err().to_string();
        let mut other = profile(NATIVE);
        for (engine, expected) in [
            (Engine::Native, "rules are not for NCCL: rules of a native profile are for gdrtune's own engine"),
            (Engine::Replay, "rules of a replayed profile"),
            (Engine::Sim, "rules of a simulated profile"),
        ] {
            other.run.engine = engine;
            assert!(error(&other, "/opt").contains(expected), "{}", error(&other, "/opt"));
        }
        other.rule.clear();
        assert!(error(&other, "/opt").contains("nothing to install"), "a simulation's binding does not carry over");
        for engine in [Engine::Native, Engine::Replay] {
            other.run.engine = engine;
            assert!(package(&other, b"", "/opt", "1").is_ok(), "the binding of NICs carries over from {engine}");
        }
        other.env.retain(|setting| setting.name.starts_with("GDRTUNE_"));
        assert!(error(&other, "/opt").contains("nothing to install"));
        let long = format!("/{}", "x".repeat(230));
        for (path, expected) in [
            ("opt", "give an absolute path"),
            ("", "give an absolute path"),
            ("/a\nb", "line break"),
            ("/a/$ORIGIN/b", "dynamic linker"),
            ("/a/${LIB}", "dynamic linker"),
            ("/a'b", "NCCL_TUNER_PLUGIN does not fit: the value has a quote"),
            (&long, "at 254 bytes"),
        ] {
            assert!(error(&profile(NCCL), path).contains(expected), "{}", error(&profile(NCCL), path));
        }
        let mut own = profile(NCCL);
        own.env[0].name = "NCCL_TUNER_PLUGIN".to_owned();
        assert!(error(&own, "/opt").contains("the profile sets NCCL_TUNER_PLUGIN itself"), "{}", error(&own, "/opt"));
    }

    proptest! {
        #[test]
        fn any_folder_is_named_exactly_or_refused(path in "/\\PC{0,20}|/[ '\"$`}{!~*#;&|<>()\\\\=^]{0,12}") {
            if let Ok(package) = package(&profile(NCCL), NCCL.as_bytes(), &path, "1") {
                let expected = file_path(&path, PLUGIN_FILE);
                let environment = env_file::parse(text(&package, ENV_FILE)).unwrap();
                prop_assert_eq!(environment.get("NCCL_TUNER_PLUGIN"), Some(expected.as_str()));
                let exported = shell::parse(text(&package, SHELL_FILE)).unwrap();
                prop_assert!(exported.iter().any(|a| a.name == "NCCL_TUNER_PLUGIN" && a.value == expected));
            }
        }
    }
}
