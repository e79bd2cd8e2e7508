//! Our own executable, read once, with its hash.

use std::{fmt::Write as _, io, path::PathBuf, sync::Arc};

use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::AgentSpec;
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
};

/// The bytes that are uploaded and the name that they are stored under.
pub(super) struct Payload {
    pub(super) bytes: Vec<u8>,
    /// SHA-256 in lower-case hexadecimal digits.
    pub(super) sha256: String,
}

/// The executable of a launcher, read when it is first needed.
#[derive(Debug, Default)]
pub(super) struct PayloadCell(OnceCell<Arc<Payload>>);

impl PayloadCell {
    pub(super) async fn get(&self, host: &Host, spec: &AgentSpec) -> Result<Arc<Payload>, LaunchError> {
        let read = || Payload::read(spec.executable.clone());
        self.0.get_or_try_init(read).await.map(Arc::clone).map_err(|error| {
            let detail = format!("{}: {error}", spec.executable.display());
            LaunchError::new(&host.name, LaunchErrorKind::Local, detail, "check that our own executable may be read")
        })
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes, {})", self.bytes.len(), self.sha256)
    }
}

impl Payload {
    /// Reads and hashes on a thread for blocking work. Bytes and hash are of one read, even if the file is being replaced.
    pub(super) async fn read(path: PathBuf) -> io::Result<Arc<Self>> {
        let work = tokio::task::spawn_blocking(move || {
            let bytes = std::fs::read(path)?;
            let mut sha256 = String::with_capacity(64);
            for byte in Sha256::digest(&bytes) {
                // Writing to a string cannot fail.
                write!(sha256, "{byte:02x}").ok();
            }
            Ok(Arc::new(Self { bytes, sha256 }))
        });
        work.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hashes_as_sha256sum_does() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let payload = Payload::read(file.path().to_owned()).await.unwrap();
        // FIPS 180-2, appendix B.1.
        assert_eq!(payload.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(Payload::read("/nonexistent".into()).await.is_err());
    }
}
