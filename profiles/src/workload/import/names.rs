//! The names that libraries and frameworks give collectives and element types.

use crate::vocab::Collective;

/// What a call is, by any of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// One of ours.
    Collective(Collective),
    /// A send or a receive between two ranks.
    PointToPoint,
    /// No call of its own: what a framework records beside calls.
    Bookkeeping,
}

/// Names without `_`, in lower case. NCCL's are those of `src/collectives.cc` and of the Inspector plugin's
/// `ncclFuncToString`; `PyTorch`'s are those of `RECORD_PARAM_COMMS` and of the profiling titles in `ProcessGroupNCCL.cpp`.
const NAMES: &[(&str, Operation)] = &[
    ("allreduce", Operation::Collective(Collective::AllReduce)),
    ("allreducecoalesced", Operation::Collective(Collective::AllReduce)),
    ("allgather", Operation::Collective(Collective::AllGather)),
    ("allgatherbase", Operation::Collective(Collective::AllGather)),
    ("allgathercoalesced", Operation::Collective(Collective::AllGather)),
    ("allgatherintotensor", Operation::Collective(Collective::AllGather)),
    ("allgatherintotensorcoalesced", Operation::Collective(Collective::AllGather)),
    ("reducescatter", Operation::Collective(Collective::ReduceScatter)),
    ("reducescatterbase", Operation::Collective(Collective::ReduceScatter)),
    ("reducescattertensor", Operation::Collective(Collective::ReduceScatter)),
    ("reducescattertensorcoalesced", Operation::Collective(Collective::ReduceScatter)),
    ("broadcast", Operation::Collective(Collective::Broadcast)),
    ("broadcastoop", Operation::Collective(Collective::Broadcast)),
    ("reduce", Operation::Collective(Collective::Reduce)),
    ("reduceoop", Operation::Collective(Collective::Reduce)),
    ("alltoall", Operation::Collective(Collective::AllToAll)),
    ("alltoallv", Operation::Collective(Collective::AllToAll)),
    ("alltoallbase", Operation::Collective(Collective::AllToAll)),
    ("all2all", Operation::Collective(Collective::AllToAll)),
    ("send", Operation::PointToPoint),
    ("recv", Operation::PointToPoint),
    ("sendrecv", Operation::PointToPoint),
    ("wait", Operation::Bookkeeping),
    ("init", Operation::Bookkeeping),
    ("startcoalescing", Operation::Bookkeeping),
    ("endcoalescing", Operation::Bookkeeping),
    // Of a group of calls that are recorded each for itself.
    ("coalesced", Operation::Bookkeeping),
    // An all-reduce of one element, which is recorded for itself.
    ("barrier", Operation::Bookkeeping),
];

/// What `name` is: `AllReduce`, `_allgather_base`, `nccl:all_reduce`, `nccl:send 0->1`.
pub(super) fn operation(name: &str) -> Option<Operation> {
    let name = name.rsplit(':').next().unwrap_or_default();
    let word = name.split_ascii_whitespace().next().unwrap_or_default();
    let plain: String = word.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect();
    NAMES.iter().find(|(known, _)| *known == plain).map(|(_, operation)| *operation)
}

/// Bytes of an element of a type, by its number in NCCL (`ncclDataType_t` of `src/nccl.h.in`).
pub(super) fn nccl_type_bytes(number: u64) -> Option<u64> {
    // int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16, float8e4m3, float8e5m2.
    const BYTES: [u64; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];
    BYTES.get(usize::try_from(number).ok()?).copied()
}

/// Bytes of an element of a type, by its name in `PyTorch` (`c10/core/ScalarType.h`, `toString`).
pub(super) fn torch_type_bytes(name: &str) -> Option<u64> {
    match name {
        "Byte" | "Char" | "Bool" | "Float8_e5m2" | "Float8_e4m3fn" | "Float8_e5m2fnuz" | "Float8_e4m3fnuz" => Some(1),
        "Half" | "BFloat16" | "Short" | "UInt16" => Some(2),
        "Float" | "Int" | "UInt32" | "ComplexHalf" => Some(4),
        "Double" | "Long" | "UInt64" | "ComplexFloat" => Some(8),
        "ComplexDouble" => Some(16),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_origin_are_one_operation() {
        let collective = |collective| Some(Operation::Collective(collective));
        for (name, operation) in [
            ("AllReduce", collective(Collective::AllReduce)),
            ("nccl:all_reduce", collective(Collective::AllReduce)),
            ("_allgather_base", collective(Collective::AllGather)),
            ("nccl:_all_gather_base", collective(Collective::AllGather)),
            ("reduce_scatter_tensor_coalesced", collective(Collective::ReduceScatter)),
            ("AlltoAll", collective(Collective::AllToAll)),
            ("all_to_allv", collective(Collective::AllToAll)),
            ("_broadcast_oop", collective(Collective::Broadcast)),
            ("nccl:send 0->1", Some(Operation::PointToPoint)),
            ("wait", Some(Operation::Bookkeeping)),
            ("Gather", None),
            ("", None),
        ] {
            assert_eq!(super::operation(name), operation, "{name}");
        }
        // A name with capitals or `_` in the table would never be found.
        assert!(NAMES.iter().all(|(name, _)| super::operation(name).is_some()));
    }

    #[test]
    fn element_types_have_their_bytes() {
        assert_eq!([0, 6, 7, 8, 9, 11, 12].map(nccl_type_bytes).map(Option::unwrap_or_default), [1, 2, 4, 8, 2, 1, 0]);
        assert_eq!(
            ["BFloat16", "Float", "Long", "QInt8"].map(torch_type_bytes).map(Option::unwrap_or_default),
            [2, 4, 8, 0]
        );
    }
}
