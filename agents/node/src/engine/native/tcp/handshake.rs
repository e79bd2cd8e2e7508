//! How the two ends of a data connection prove to each other that they hold the run's key. Pure.
//!
//! The dialling end sends a [`Hello`] with a nonce; the listening end answers with its own nonce and a proof over both;
//! the dialling end answers with its proof. All messages have a fixed length, so that a stranger costs a bounded amount of
//! memory. The key itself never crosses the connection, and a recorded conversation is of no use in another one.

use gdrtune_wire::SessionKey;
use sha2::{Digest, Sha256};

/// First bytes of a connection; the last one is the version of this protocol.
const MAGIC: [u8; 8] = *b"GDRTNAT\x01";

/// Block size of SHA-256 in bytes (FIPS 180-4).
const BLOCK_BYTES: usize = 64;

pub(super) const NONCE_BYTES: usize = 32;
pub(super) const PROOF_BYTES: usize = 32;
pub(super) const HELLO_BYTES: usize = MAGIC.len() + 4 + 4 + 4 + NONCE_BYTES;
pub(super) const REPLY_BYTES: usize = NONCE_BYTES + PROOF_BYTES;

/// First message of the dialling end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) lane: u32,
    pub(super) nonce: [u8; NONCE_BYTES],
}

impl Hello {
    pub(super) fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        let parts: [&[u8]; 5] =
            [&MAGIC, &self.from.to_le_bytes(), &self.to.to_le_bytes(), &self.lane.to_le_bytes(), &self.nonce];
        let mut rest = &mut bytes[..];
        for part in parts {
            let (head, tail) = rest.split_at_mut(part.len());
            head.copy_from_slice(part);
            rest = tail;
        }
        bytes
    }

    /// `None` where the bytes are not ours.
    pub(super) fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (from, rest) = rest.split_first_chunk::<4>()?;
        let (to, rest) = rest.split_first_chunk::<4>()?;
        let (lane, rest) = rest.split_first_chunk::<4>()?;
        let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        let hello = Self { from: number(from), to: number(to), lane: number(lane), nonce: rest.try_into().ok()? };
        (*magic == MAGIC).then_some(hello)
    }
}

/// Which end proves itself; the two never give equal proofs.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Listening,
    Dialling,
}

/// Proof that this end holds the key and saw both nonces.
pub(super) fn prove(key: &SessionKey, end: End, hello: &Hello, reply_nonce: &[u8; NONCE_BYTES]) -> [u8; PROOF_BYTES] {
    let label: &[u8] = match end {
        End::Listening => b"listening",
        End::Dialling => b"dialling",
    };
    hmac_sha256(&key.0, &[label, &hello.encode(), reply_nonce])
}

/// Compares without telling by its duration where the difference is.
pub(super) fn is_same_proof(a: &[u8; PROOF_BYTES], b: &[u8; PROOF_BYTES]) -> bool {
    let difference = a.iter().zip(b).fold(0, |sum, (x, y)| sum | (x ^ y));
    std::hint::black_box(difference) == 0
}

/// HMAC-SHA256 (RFC 2104) of the concatenated parts.
fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; PROOF_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        block[..PROOF_BYTES].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let mut inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36));
    for part in parts {
        inner.update(part);
    }
    let mut outer = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|start| u8::from_str_radix(&text[start..start + 2], 16).unwrap()).collect()
    }

    #[test]
    fn hmac_agrees_with_rfc_4231() {
        let counting: Vec<u8> = (1..=25).collect();
        let cases: [(&[u8], &[u8], &str); 5] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
            (&counting, &[0xcd; 50], "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, data, expected) in cases {
            assert_eq!(hmac_sha256(key, &[data]), *from_hex(expected));
            let (head, tail) = data.split_at(3);
            assert_eq!(hmac_sha256(key, &[head, tail]), *from_hex(expected));
        }
    }

    #[test]
    fn a_hello_reads_back_and_foreign_bytes_do_not() {
        let hello = Hello { from: 7, to: 1, lane: 65_000, nonce: [9; NONCE_BYTES] };
        let mut bytes = hello.encode();
        assert_eq!(Hello::decode(&bytes), Some(hello));
        bytes[7] ^= 1;
        assert_eq!(Hello::decode(&bytes), None);
    }

    #[test]
    fn a_proof_depends_on_all_that_it_covers() {
        let key = SessionKey([1; 32]);
        let hello = Hello { from: 0, to: 1, lane: 2, nonce: [3; NONCE_BYTES] };
        let proof = prove(&key, End::Listening, &hello, &[4; NONCE_BYTES]);
        assert!(is_same_proof(&proof, &prove(&key, End::Listening, &hello, &[4; NONCE_BYTES])));
        for other in [
            prove(&SessionKey([2; 32]), End::Listening, &hello, &[4; NONCE_BYTES]),
            prove(&key, End::Dialling, &hello, &[4; NONCE_BYTES]),
            prove(&key, End::Listening, &Hello { lane: 3, ..hello }, &[4; NONCE_BYTES]),
            prove(&key, End::Listening, &hello, &[5; NONCE_BYTES]),
        ] {
            assert!(!is_same_proof(&proof, &other));
        }
    }
}
