//! Every message survives the wire however it is cut, and no bytes hurt the decoder.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fmt::Debug;

use gdrtune_wire::{
    FromAgent, FromWorker, GroupId, Hello, ItemOutcome, PROTOCOL, SessionKey, Times, ToAgent, ToWorker,
    codec::{CodecError, Decoder, MAX_FRAME, PREAMBLE, encode},
};
use proptest::{collection::vec, prelude::*};
use serde::{Serialize, de::DeserializeOwned};
use support::{from_agent, from_worker, to_agent, to_worker};

/// Sends messages through a decoder in pieces of these lengths, over and over.
fn through_pieces<T: Serialize + DeserializeOwned>(messages: &[T], lengths: &[usize]) -> Vec<T> {
    let stream: Vec<u8> = messages.iter().flat_map(|message| encode(message).unwrap()).collect();
    let mut decoder = Decoder::new();
    let mut received = vec![];
    let mut rest = stream.as_slice();
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, left) = rest.split_at(rest.len().min(*length));
        rest = left;
        decoder.feed(piece);
        while let Some(message) = decoder.next_message().unwrap() {
            received.push(message);
        }
    }
    assert!(!decoder.has_partial());
    received
}

fn assert_round_trip<T>(messages: &[T], lengths: &[usize])
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    assert_eq!(through_pieces(messages, lengths), messages);
}

proptest! {
    #[test]
    fn every_message_to_an_agent_survives(messages in vec(to_agent(), 0..4), lengths in vec(1_usize..300, 1..5)) {
        assert_round_trip(&messages, &lengths);
    }

    #[test]
    fn every_message_from_an_agent_survives(messages in vec(from_agent(), 0..4), lengths in vec(1_usize..300, 1..5)) {
        assert_round_trip(&messages, &lengths);
    }

    #[test]
    fn every_message_to_a_worker_survives(messages in vec(to_worker(), 0..4), lengths in vec(1_usize..300, 1..5)) {
        assert_round_trip(&messages, &lengths);
    }

    #[test]
    fn every_message_from_a_worker_survives(messages in vec(from_worker(), 0..4), lengths in vec(1_usize..300, 1..5)) {
        assert_round_trip(&messages, &lengths);
    }

    /// A frame with a right length and a random body: an error or a message, never a panic.
    #[test]
    fn random_bodies_are_refused_or_read(body in vec(any::<u8>(), 0..300)) {
        let mut frame = (body.len() as u32).to_le_bytes().to_vec();
        frame.extend(&body);
        for decode in [next::<ToAgent>, next::<FromAgent>, next::<ToWorker>, next::<FromWorker>] {
            let mut decoder = Decoder::new();
            decoder.feed(&frame);
            match decode(&mut decoder) {
                Ok(done) => prop_assert!(done && !decoder.has_partial()),
                Err(CodecError::Malformed(_) | CodecError::Trailing(_)) => prop_assert!(decode(&mut decoder).is_err()),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }

    /// Bytes without any structure.
    #[test]
    fn random_streams_do_no_harm(stream in vec(any::<u8>(), 0..600), length in 1_usize..50) {
        let mut decoder = Decoder::new();
        for piece in stream.chunks(length) {
            decoder.feed(piece);
            while matches!(next::<ToAgent>(&mut decoder), Ok(true)) {}
        }
    }

    /// A frame that misses its end is never taken for a message.
    #[test]
    fn a_frame_cut_short_waits(message in from_agent(), cut in any::<prop::sample::Index>()) {
        let frame = encode(&message).unwrap();
        let length = cut.index(frame.len());
        let mut decoder = Decoder::new();
        decoder.feed(&frame[..length]);
        prop_assert!(!next::<FromAgent>(&mut decoder).unwrap());
        prop_assert_eq!(decoder.has_partial(), length > 0);
        decoder.feed(&frame[length..]);
        prop_assert_eq!(decoder.next_message::<FromAgent>().unwrap(), Some(message));
    }
}

/// Whether a message came.
fn next<T: DeserializeOwned>(decoder: &mut Decoder) -> Result<bool, CodecError> {
    Ok(decoder.next_message::<T>()?.is_some())
}

fn hello() -> Hello {
    Hello { protocol: PROTOCOL, build_id: "ab".into(), hostname: "n1".into(), boot_id: "b".into(), pid: 300 }
}

/// The hello is what two builds must understand of each other, so its bytes are fixed. The others show the encoding.
#[test]
fn golden_bytes() {
    let timed = FromWorker::Item {
        script: 1,
        item: 2,
        outcome: ItemOutcome::Timed(Times {
            mean_us: 1.5,
            median_us: 0.0,
            min_us: 0.0,
            max_us: 0.0,
            cpu_us: 0.0,
            selected: None,
            checked: true,
            predictions: vec![],
        }),
    };
    let mut timed_bytes = vec![47, 0, 0, 0, 2, 1, 2, 0];
    timed_bytes.extend(1.5_f64.to_le_bytes());
    timed_bytes.extend([0; 32]);
    timed_bytes.extend([0, 1, 0]);
    for (frame, expected) in [
        (encode(&ToAgent::Hello(hello())), [&[12, 0, 0, 0, 0, 1, 2][..], b"ab\x02n1\x01b", &[0xac, 2]].concat()),
        (encode(&FromAgent::Hello(hello())), [&[12, 0, 0, 0, 0, 1, 2][..], b"ab\x02n1\x01b", &[0xac, 2]].concat()),
        (encode(&ToAgent::Ping(300)), vec![3, 0, 0, 0, 1, 0xac, 2]),
        (encode(&ToAgent::Shutdown), vec![1, 0, 0, 0, 7]),
        (encode(&ToAgent::ToWorkers { group: GroupId(5), message: ToWorker::Quit }), vec![3, 0, 0, 0, 5, 5, 3]),
        (encode(&FromWorker::Bootstrap(vec![9, 8])), vec![4, 0, 0, 0, 0, 2, 9, 8]),
        (encode(&timed), timed_bytes),
    ] {
        assert_eq!(frame.unwrap(), expected);
    }
    assert_eq!(PREAMBLE, b"GDRTUNE\x01");
}

#[test]
fn nan_times_survive() {
    let message = Times {
        mean_us: f64::NAN,
        median_us: f64::INFINITY,
        min_us: f64::NEG_INFINITY,
        max_us: -0.0,
        cpu_us: 0.0,
        selected: None,
        checked: false,
        predictions: vec![],
    };
    let received = through_pieces(std::slice::from_ref(&message), &[3]);
    assert_eq!(format!("{received:?}"), format!("[{message:?}]"));
}

#[test]
fn a_frame_may_have_the_largest_size_and_no_more() {
    // One byte names the variant; a length of this size takes four.
    let largest = MAX_FRAME - 5;
    let frame = encode(&FromWorker::Bootstrap(vec![0; largest])).unwrap();
    assert_eq!(frame.len(), 4 + MAX_FRAME);
    let mut decoder = Decoder::new();
    for piece in frame.chunks(1 << 16) {
        decoder.feed(piece);
    }
    assert_eq!(decoder.next_message().unwrap(), Some(FromWorker::Bootstrap(vec![0; largest])));

    let error = encode(&FromWorker::Bootstrap(vec![0; largest + 1])).unwrap_err();
    assert_eq!(error.to_string(), "frame of 16777217 bytes is over the limit of 16777216");
}

/// The length alone is refused: nobody waits for, or stores, what it announces.
#[test]
fn an_oversized_length_is_refused_at_once_and_for_good() {
    for length in [MAX_FRAME as u32 + 1, u32::MAX] {
        let mut decoder = Decoder::new();
        decoder.feed(&length.to_le_bytes());
        for _ in 0..2 {
            let error = next::<ToAgent>(&mut decoder).unwrap_err();
            assert!(matches!(error, CodecError::TooLong(found) if found == length as usize), "{error}");
        }
        decoder.feed(&encode(&ToAgent::Inventory).unwrap());
        assert!(next::<ToAgent>(&mut decoder).is_err(), "a broken stream stays broken");
    }
}

/// A small frame that announces a huge list must fail by its missing items, not by allocating for them.
#[test]
fn a_lying_list_length_is_refused() {
    // Variant 0, then a length of 2^62 in postcard's variable form.
    let mut body = vec![0];
    body.extend([0x80; 8]);
    body.push(0x40);
    let mut decoder = Decoder::new();
    decoder.feed(&(body.len() as u32).to_le_bytes());
    decoder.feed(&body);
    assert!(matches!(next::<FromWorker>(&mut decoder), Err(CodecError::Malformed(_))));
}

#[test]
fn bytes_after_a_message_are_refused() {
    let mut decoder = Decoder::new();
    decoder.feed(&[3, 0, 0, 0, 7, 0, 0]);
    let error = next::<ToAgent>(&mut decoder).unwrap_err();
    assert_eq!(error.to_string(), "frame has 2 bytes after its message");
}

#[test]
fn a_session_key_is_never_shown() {
    let shown = format!("{:?}", SessionKey([0xab; 32]));
    assert_eq!(shown, "SessionKey(..)");
}
