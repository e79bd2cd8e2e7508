//! What ranks tell each other before they have a communicator. Pure.

use serde::{Deserialize, Serialize};

use super::loader::Version;
use crate::engine::EngineError;

/// Changes whenever ranks of different builds could not work together.
const BOOTSTRAP_VERSION: u16 = 1;

/// What a rank tells the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bootstrap {
    version: u16,
    /// `ncclGetVersion`'s number.
    pub(super) nccl: i32,
    /// Where the library came from, for messages.
    pub(super) library: String,
    /// What NCCL takes for this rank's host.
    pub(super) host: String,
    /// PCI address of the GPU.
    pub(super) pci: String,
    /// Name of the GPU.
    pub(super) gpu: String,
    /// NCCL's unique id; rank 0's only.
    pub(super) unique_id: Option<Vec<u8>>,
}

impl Bootstrap {
    pub(super) fn new(nccl: Version, library: String, host: String, gpu: (String, String)) -> Self {
        let (gpu, pci) = gpu;
        Self { version: BOOTSTRAP_VERSION, nccl: nccl.0, library, host, pci, gpu, unique_id: None }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, EngineError> {
        postcard::to_stdvec(self).map_err(|error| EngineError::System {
            what: "encode the bootstrap bytes".to_owned(),
            source: std::io::Error::other(error),
        })
    }
}

/// Reads every rank's bytes and returns NCCL's unique id.
pub(super) fn agree(peers: &[Vec<u8>], world: u32) -> Result<Vec<u8>, EngineError> {
    let misfit = |rank: usize, why: String| EngineError::Peer { rank: rank as u32, why };
    if peers.len() != world as usize {
        let why = format!("{} ranks' bootstrap bytes came for a group of {world}", peers.len());
        return Err(misfit(0, why));
    }
    let mut all: Vec<Bootstrap> = Vec::with_capacity(peers.len());
    for (rank, bytes) in peers.iter().enumerate() {
        let peer = read(bytes).map_err(|why| misfit(rank, why))?;
        if let Some(first) = all.first().filter(|first| first.nccl != peer.nccl) {
            let (theirs, ours) = (Version(peer.nccl), Version(first.nccl));
            let why =
                format!("it has NCCL {theirs} ({}), rank 0 {ours} ({}): use one version", peer.library, first.library);
            return Err(misfit(rank, why));
        }
        if let Some(other) = all.iter().position(|other| (&other.host, &other.pci) == (&peer.host, &peer.pci)) {
            let why = format!(
                "it uses the GPU {} ({}) of rank {other}, which NCCL refuses within a node: start fewer ranks per node, or \
                 emulate nodes",
                peer.pci, peer.gpu
            );
            return Err(misfit(rank, why));
        }
        all.push(peer);
    }
    let id = all.into_iter().next().and_then(|first| first.unique_id);
    id.ok_or_else(|| misfit(0, "it sent no unique id".to_owned()))
}

fn read(bytes: &[u8]) -> Result<Bootstrap, String> {
    let peer: Bootstrap =
        postcard::from_bytes(bytes).map_err(|error| format!("its bootstrap bytes cannot be read: {error}"))?;
    if peer.version != BOOTSTRAP_VERSION {
        return Err(format!("it speaks version {}, this rank {BOOTSTRAP_VERSION}", peer.version));
    }
    Ok(peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(host: &str, pci: &str, nccl: i32) -> Bootstrap {
        let gpu = ("GPU".to_owned(), pci.to_owned());
        Bootstrap::new(Version(nccl), "libnccl.so.2".to_owned(), host.to_owned(), gpu)
    }

    fn try_to_agree(ranks: &[Bootstrap]) -> Result<Vec<u8>, String> {
        let bytes: Vec<_> = ranks.iter().map(|rank| rank.encode().unwrap()).collect();
        agree(&bytes, ranks.len() as u32).map_err(|error| error.to_string())
    }

    #[test]
    fn ranks_that_fit_get_the_id_of_rank_0() {
        let mut ranks = [rank("a", "0:1", 22_809), rank("a", "0:2", 22_809), rank("b", "0:1", 22_809)];
        assert_eq!(try_to_agree(&ranks).unwrap_err(), "rank 0 does not fit this rank: it sent no unique id");
        ranks[0].unique_id = Some(vec![7; 128]);
        assert_eq!(try_to_agree(&ranks), Ok(vec![7; 128]));
    }

    #[test]
    fn misfits_are_named() {
        for (second, expected) in [
            (rank("a", "0:2", 22_106), "rank 1 does not fit this rank: it has NCCL 2.21.6 "),
            (rank("a", "0:1", 22_809), "rank 1 does not fit this rank: it uses the GPU 0:1 (GPU) of rank 0"),
        ] {
            let error = try_to_agree(&[rank("a", "0:1", 22_809), second]).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let error = agree(&[vec![1], vec![]], 2).unwrap_err().to_string();
        assert!(error.contains("its bootstrap bytes cannot be read"), "{error}");
        let error = agree(&[], 2).unwrap_err().to_string();
        assert!(error.contains("0 ranks' bootstrap bytes came for a group of 2"), "{error}");
    }
}
