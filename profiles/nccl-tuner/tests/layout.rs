//! Sizes and offsets as a C compiler gives them for NCCL's headers (2.28.9 and 2.30.7, x86-64 and every other LP64).

use std::{ffi::CStr, mem::offset_of};

use gdrtune_nccl_tuner::{
    GdrtuneDecision, TunerV2, TunerV3, TunerV4, TunerV5, TunerV6, ncclTunerPlugin_v2, ncclTunerPlugin_v3,
    ncclTunerPlugin_v4, ncclTunerPlugin_v5, ncclTunerPlugin_v6,
};

#[test]
fn structures_are_laid_out_as_in_nccls_headers() {
    macro_rules! offsets {
        ($tuner:ident, $($field:ident),*) => {
            (stringify!($tuner), size_of::<$tuner>(), vec![$(offset_of!($tuner, $field)),*])
        };
    }
    for (actual, size, offsets) in [
        (offsets!(TunerV2, name, init, get_coll_info, destroy), 32, vec![0, 8, 16, 24]),
        (offsets!(TunerV3, name, init, get_coll_info, destroy), 32, vec![0, 8, 16, 24]),
        (offsets!(TunerV4, name, init, get_coll_info, destroy), 32, vec![0, 8, 16, 24]),
        (offsets!(TunerV5, name, init, get_coll_info, finalize), 32, vec![0, 8, 16, 24]),
        (offsets!(TunerV6, name, init, get_coll_info, finalize, get_chunk_size), 40, vec![0, 8, 16, 24, 32]),
    ] {
        assert_eq!((actual.1, actual.2), (size, offsets), "{}", actual.0);
    }
}

#[test]
#[expect(unsafe_code, reason = "C strings")]
fn every_version_has_its_name_and_no_chunk_size() {
    for name in [
        &ncclTunerPlugin_v2.name,
        &ncclTunerPlugin_v3.name,
        &ncclTunerPlugin_v4.name,
        &ncclTunerPlugin_v5.name,
        &ncclTunerPlugin_v6.name,
    ] {
        // SAFETY: NCCL prints it as a string.
        assert_eq!(unsafe { CStr::from_ptr(name.0) }, c"gdrtune");
    }
    assert!(ncclTunerPlugin_v6.get_chunk_size.is_none(), "NULL leaves NCCL's chunk size as it is");
}

#[test]
fn the_decision_is_what_the_worker_declares() {
    assert_eq!(size_of::<GdrtuneDecision>(), 216);
    assert_eq!(align_of::<GdrtuneDecision>(), 8);
    let offsets = [
        offset_of!(GdrtuneDecision, struct_bytes),
        offset_of!(GdrtuneDecision, api_version),
        offset_of!(GdrtuneDecision, calls),
        offset_of!(GdrtuneDecision, bytes),
        offset_of!(GdrtuneDecision, ranks),
        offset_of!(GdrtuneDecision, nodes),
        offset_of!(GdrtuneDecision, collective),
        offset_of!(GdrtuneDecision, num_pipe_ops),
        offset_of!(GdrtuneDecision, reg_buff),
        offset_of!(GdrtuneDecision, source),
        offset_of!(GdrtuneDecision, rule_line),
        offset_of!(GdrtuneDecision, algorithm),
        offset_of!(GdrtuneDecision, protocol),
        offset_of!(GdrtuneDecision, channels),
        offset_of!(GdrtuneDecision, is_allowed),
        offset_of!(GdrtuneDecision, num_algorithms),
        offset_of!(GdrtuneDecision, num_protocols),
        offset_of!(GdrtuneDecision, reserved),
        offset_of!(GdrtuneDecision, costs_us),
    ];
    assert_eq!(offsets, [0, 4, 8, 16, 24, 32, 40, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80, 84, 88]);
    assert_eq!(GdrtuneDecision::EMPTY.struct_bytes, 216);
}
