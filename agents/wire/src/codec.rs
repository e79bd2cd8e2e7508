//! Frames: a little-endian `u32` length, then that many bytes of postcard.
//!
//! [`Decoder`] is fed bytes as they come, so it serves blocking and asynchronous readers alike. Its memory is bounded by
//! [`MAX_FRAME`] whatever a peer sends.

use serde::{Serialize, de::DeserializeOwned};

/// Largest frame body in bytes. A larger length is refused before anything is allocated for it.
pub const MAX_FRAME: usize = 16 << 20;

/// What an agent prints before its first frame, so that login noise on the same stream can be told apart.
pub const PREAMBLE: &[u8; 8] = b"GDRTUNE\x01";

/// A stream that is no sequence of our frames.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// A length above [`MAX_FRAME`].
    #[error("frame of {0} bytes is over the limit of {MAX_FRAME}")]
    TooLong(usize),
    /// A body that is not the expected message.
    #[error("frame does not hold the expected message: {0}")]
    Malformed(#[from] postcard::Error),
    /// A body with bytes after the message.
    #[error("frame has {0} bytes after its message")]
    Trailing(usize),
}

/// Encodes one message as a frame.
///
/// # Errors
/// [`CodecError::TooLong`] where the message is over the limit.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, CodecError> {
    let mut frame = postcard::to_extend(message, vec![0; 4])?;
    let length = frame.len() - 4;
    if length > MAX_FRAME {
        return Err(CodecError::TooLong(length));
    }
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

/// Takes frames out of a byte stream.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are already consumed.
    start: usize,
}

impl Decoder {
    /// A decoder with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start >= self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether bytes of an unfinished frame are waiting.
    pub fn has_partial(&self) -> bool {
        self.start < self.buffer.len()
    }

    /// Takes the next whole message, or `None` until more bytes come.
    ///
    /// # Errors
    /// [`CodecError`] where the stream is broken; it stays broken.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CodecError> {
        let pending = &self.buffer[self.start..];
        let Some((head, rest)) = pending.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > MAX_FRAME {
            return Err(CodecError::TooLong(length));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let (message, trailing) = postcard::take_from_bytes(body)?;
        if !trailing.is_empty() {
            return Err(CodecError::Trailing(trailing.len()));
        }
        self.start += 4 + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that come in pieces of 64 KiB, as readers feed them.
    fn feed_all(decoder: &mut Decoder, bytes: &[u8], mut after_each: impl FnMut(&mut Decoder)) {
        for piece in bytes.chunks(1 << 16) {
            decoder.feed(piece);
            after_each(decoder);
        }
    }

    #[test]
    fn memory_stays_bounded_over_a_long_stream() {
        let frame = encode(&vec![7_u8; 100_000]).unwrap();
        let stream = frame.repeat(100);
        let mut decoder = Decoder::new();
        let mut count = 0;
        feed_all(&mut decoder, &stream, |decoder| {
            while let Some(message) = decoder.next_message::<Vec<u8>>().unwrap() {
                assert_eq!(message.len(), 100_000);
                count += 1;
            }
            assert!(decoder.buffer.len() <= 2 * frame.len() + (1 << 16), "{}", decoder.buffer.len());
        });
        assert_eq!((count, decoder.has_partial()), (100, false));
    }

    #[test]
    fn a_refused_length_keeps_nothing_of_what_it_announced() {
        let mut decoder = Decoder::new();
        decoder.feed(&u32::MAX.to_le_bytes());
        assert!(decoder.next_message::<Vec<u8>>().is_err());
        assert!(decoder.buffer.capacity() < 1024, "{}", decoder.buffer.capacity());
    }
}
