//! What cannot be provoked through NCCL's interface.

use std::fmt::Write as _;

use super::*;

#[test]
fn a_panic_becomes_the_other_result() {
    assert_eq!(guarded(SUCCESS, || if SUCCESS == 0 { panic!("on purpose") } else { 7 }), SUCCESS);
    assert_eq!(guarded(1, || 0), 0);
}

#[test]
fn a_poisoned_lock_does_not_stop_later_calls() {
    let poisoned = guarded(0, || {
        let _held = LAST_DECISION.lock().unwrap();
        panic!("on purpose")
    });
    assert_eq!(poisoned, 0);
    assert!(LAST_DECISION.is_poisoned());
    let calls = || LAST_DECISION.lock().unwrap_or_else(PoisonError::into_inner).calls;
    let before = calls();
    GdrtuneDecision::EMPTY.publish();
    assert_eq!(calls(), before + 1);
}

#[test]
fn every_choice_survives_its_word() {
    for algorithm in 0..7 {
        for channels in [0, 1, 64, 255] {
            let choice = Choice { algorithm, protocol: 2, channels };
            assert_eq!(unpack(pack(choice)), Some(choice));
        }
    }
    assert_eq!(unpack(0), None);
}

#[test]
fn a_message_is_cut_where_its_room_ends_and_stays_a_c_string() {
    let mut message = Message::new(format_args!("{}", "é".repeat(LONGEST_MESSAGE)));
    assert_eq!(message.bytes().len(), LONGEST_MESSAGE - 1);
    assert!(message.write_str("more").is_err());
    assert_eq!(message.buffer.last(), Some(&0));
    assert_eq!(Message::new(format_args!("a\0b\n%d")).bytes(), b"TUNER/gdrtune: a?b?%d");
}
