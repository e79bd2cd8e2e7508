//! The manifest: what was put into a folder, so that exactly that can be checked, replaced and taken away.

use serde::{Deserialize, Serialize};

use crate::json::escape;

/// The manifest's format that this build reads and writes.
pub const MANIFEST_FORMAT: u32 = 1;

/// Longest file name in bytes (`NAME_MAX` of Linux, limits.h).
const NAME_BYTES: usize = 255;

/// What an installation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`MANIFEST_FORMAT`].
    pub format: u32,
    /// Version of the gdrtune that installed it.
    pub gdrtune: String,
    /// Id of the run that measured the profile.
    pub run: String,
    /// The folder that its files name: where jobs find them.
    pub path: String,
    /// How the profile was measured, where that was not with NCCL on the real nodes.
    pub labels: Vec<String>,
    /// Live rules in the rule file.
    pub rules: u32,
    /// The files, without the manifest itself.
    pub files: Vec<ManifestFile>,
}

/// One installed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestFile {
    /// Its name in the folder.
    pub name: String,
    /// SHA-256 of its contents, in hexadecimal digits.
    pub sha256: String,
}

/// A text that is no manifest that can be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// No JSON, or other fields.
    #[error("it is no manifest of gdrtune: {0}")]
    Malformed(String),
    /// Another format.
    #[error("its format {0} is not known: this gdrtune reads format {MANIFEST_FORMAT}")]
    Format(u32),
    /// A name that could lead out of the folder, or stands there twice.
    #[error("it names `{0}`, which is no plain file name or stands there twice")]
    Name(String),
}

impl Manifest {
    /// Reads a manifest. What it names can only be in its own folder.
    ///
    /// # Errors
    /// [`ManifestError`]
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let manifest: Self = serde_json::from_str(text).map_err(|error| ManifestError::Malformed(error.to_string()))?;
        if manifest.format != MANIFEST_FORMAT {
            return Err(ManifestError::Format(manifest.format));
        }
        for (idx, file) in manifest.files.iter().enumerate() {
            let is_repeated = manifest.files[..idx].iter().any(|earlier| earlier.name == file.name);
            if !is_plain_name(&file.name) || file.name == super::MANIFEST_FILE || is_repeated {
                return Err(ManifestError::Name(file.name.escape_debug().to_string()));
            }
        }
        Ok(manifest)
    }

    /// Its text.
    ///
    /// # Errors
    /// [`ManifestError`] where the text would not read back.
    pub fn to_json(&self) -> Result<String, ManifestError> {
        let malformed = |error: serde_json::Error| ManifestError::Malformed(error.to_string());
        let mut text = escape(serde_json::to_string_pretty(self).map_err(malformed)?);
        text.push('\n');
        if Self::parse(&text)? == *self {
            Ok(text)
        } else {
            Err(ManifestError::Malformed("another came back".to_owned()))
        }
    }

    /// The hash that a file of this name was installed with.
    pub fn sha256(&self, name: &str) -> Option<&str> {
        self.files.iter().find(|file| file.name == name).map(|file| file.sha256.as_str())
    }
}

/// Whether the name stays inside its folder and is fit for a line of text.
pub fn is_plain_name(name: &str) -> bool {
    let forbidden = |character: char| matches!(character, '/' | '\\') || character.is_control();
    !matches!(name, "" | "." | "..") && name.len() <= NAME_BYTES && !name.contains(forbidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(names: &[&str]) -> Manifest {
        let file = |name: &&str| ManifestFile { name: (*name).to_owned(), sha256: "00".to_owned() };
        Manifest {
            format: MANIFEST_FORMAT,
            gdrtune: "1".to_owned(),
            run: "r".to_owned(),
            path: "/opt/a \"b\"".to_owned(),
            labels: vec![],
            rules: 2,
            files: names.iter().map(file).collect(),
        }
    }

    #[test]
    fn it_reads_back() {
        let written = manifest(&["a", "b c"]);
        assert_eq!(Manifest::parse(&written.to_json().unwrap()), Ok(written.clone()));
        assert_eq!((written.sha256("a"), written.sha256("x")), (Some("00"), None));
    }

    #[test]
    fn hostile_manifests_are_refused() {
        for name in ["../a", "/etc/passwd", "", ".", "..", "a\nb", "a\\b", super::super::MANIFEST_FILE] {
            let text = serde_json::to_string(&manifest(&[name])).unwrap();
            assert!(matches!(Manifest::parse(&text), Err(ManifestError::Name(_))), "{name}");
        }
        assert!(matches!(manifest(&["a", "a"]).to_json(), Err(ManifestError::Name(_))));
        for text in ["", "{}", "[]", "{\"format\": 1}"] {
            assert!(matches!(Manifest::parse(text), Err(ManifestError::Malformed(_))), "{text}");
        }
        let newer = Manifest { format: 2, ..manifest(&[]) };
        assert_eq!(newer.to_json(), Err(ManifestError::Format(2)));
    }
}
