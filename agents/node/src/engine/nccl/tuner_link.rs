//! The worker's end of our tuner plugin: sets choices in it, and reads back what came of them.
//!
//! NCCL opens the same file, so both ends share one copy of its state. This file holds all that is agreed with the plugin
//! (package `gdrtune-nccl-tuner`): three functions and one structure.
#![expect(unsafe_code, reason = "functions of a plugin found at run time")]

use std::{
    mem::{ManuallyDrop, MaybeUninit},
    path::Path,
};

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Protocol};
use gdrtune_wire::Prediction;
use libloading::Library;

use super::api::cause;
use crate::engine::EngineError;

/// Rows and columns that the plugin has room for.
const MOST_ALGORITHMS: usize = 8;
const MOST_PROTOCOLS: usize = 4;

/// `GdrtuneDecision` of the plugin: one call as it saw it, and what came of it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct RawDecision {
    /// Size of the plugin's structure: another one means another build.
    struct_bytes: u32,
    api_version: i32,
    /// Calls so far, this one included.
    calls: u64,
    bytes: u64,
    ranks: u64,
    nodes: u64,
    /// `ncclFunc_t`.
    collective: i32,
    num_pipe_ops: i32,
    reg_buff: i32,
    source: i32,
    rule_line: i32,
    /// What was asked for; -1 for nothing.
    algorithm: i32,
    protocol: i32,
    channels: i32,
    /// 1: preferred; 0: NCCL does not allow it; -1: nothing was asked for.
    is_allowed: i32,
    num_algorithms: i32,
    num_protocols: i32,
    reserved: i32,
    /// NCCL's own prediction in microseconds; negative where it is not allowed.
    costs_us: [[f32; MOST_PROTOCOLS]; MOST_ALGORITHMS],
}

/// Room for what the plugin writes: one of another build may write more than is known here.
#[repr(C)]
struct Slot {
    _decision: RawDecision,
    _slack: [u8; 2048],
}

/// What the plugin did in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// It was not asked: NCCL bypassed it.
    NotCalled,
    /// Nothing was asked of it; NCCL takes its own choice, where it can be told.
    Own(Option<Choice>),
    /// It preferred this.
    Applied(Choice),
    /// NCCL does not allow what was asked for, and takes its own choice.
    NotAllowed(Option<Choice>),
}

/// Our plugin, opened.
pub(super) struct TunerLink {
    set: unsafe extern "C" fn(i32, i32, i32, i32) -> i32,
    clear: unsafe extern "C" fn(),
    last: unsafe extern "C" fn(*mut RawDecision) -> i32,
    _library: ManuallyDrop<Library>,
}

impl TunerLink {
    /// Opens the plugin at `path`. It is never closed, as NCCL may still call it.
    pub(super) fn open(path: &Path) -> Result<Self, EngineError> {
        Self::load(path)
            .map_err(|why| EngineError::Library { what: format!("use the tuner plugin {}", path.display()), why })
    }

    fn load(path: &Path) -> Result<Self, String> {
        // SAFETY: the file is our plugin, whose loading runs no code of its own.
        let library = ManuallyDrop::new(unsafe { Library::new(path) }.map_err(|error| cause(&error))?);
        // SAFETY: the types are the plugin's; the library stays loaded.
        let link = unsafe {
            Self {
                set: *library.get("gdrtune_tuner_set").map_err(|error| cause(&error))?,
                clear: *library.get("gdrtune_tuner_clear").map_err(|error| cause(&error))?,
                last: *library.get("gdrtune_tuner_last").map_err(|error| cause(&error))?,
                _library: library,
            }
        };
        // Starts the recording of calls; there is none to be read yet.
        link.read();
        Ok(link)
    }

    /// Makes NCCL take this choice for every later call of the collective; `false` where the plugin knows no such choice.
    pub(super) fn set(&self, collective: Collective, choice: Choice) -> bool {
        let Some(function) = function_code(collective) else { return false };
        let position = |index: Option<usize>| index.and_then(|index| i32::try_from(index).ok()).unwrap_or(-1);
        let algorithm = position(Algorithm::ALL.iter().position(|&known| known == choice.algorithm));
        let protocol = position(Protocol::ALL.iter().position(|&known| known == choice.protocol));
        // SAFETY: the function takes plain numbers and checks them.
        unsafe { (self.set)(function, algorithm, protocol, choice.channels.into()) == 0 }
    }

    /// Leaves every later call to NCCL.
    pub(super) fn clear(&self) {
        // SAFETY: the function takes nothing.
        unsafe { (self.clear)() };
    }

    /// Calls that the plugin has seen.
    pub(super) fn calls(&self) -> u64 {
        self.read().map_or(0, |last| last.calls)
    }

    /// What the plugin did in the last call, if that came after the first `before` calls and was for this collective.
    pub(super) fn decision_since(&self, before: u64, collective: Collective) -> Decision {
        match self.read() {
            Some(last) if last.calls > before && Some(last.collective) == function_code(collective) => {
                read_decision(&last)
            }
            _ => Decision::NotCalled,
        }
    }

    /// NCCL's cost table at the last call, if that was for this collective: what it allows, in its own order.
    pub(super) fn predictions(&self, collective: Collective) -> Vec<Prediction> {
        let last = self.read().filter(|last| Some(last.collective) == function_code(collective));
        last.map(|last| allowed_cells(&last).collect()).unwrap_or_default()
    }

    /// The last call; `None` before the first, or where the plugin is of another build.
    fn read(&self) -> Option<RawDecision> {
        let mut slot = MaybeUninit::<Slot>::uninit();
        // SAFETY: the function writes its structure and returns 1, or returns 0; the slot has room to spare.
        let is_written = unsafe { (self.last)(slot.as_mut_ptr().cast()) == 1 };
        if !is_written {
            return None;
        }
        // SAFETY: the size comes first in every build.
        let struct_bytes = unsafe { slot.as_ptr().cast::<u32>().read() };
        // SAFETY: of this size, the structure is written in full.
        (struct_bytes as usize == size_of::<RawDecision>())
            .then(|| unsafe { slot.as_ptr().cast::<RawDecision>().read() })
    }
}

fn read_decision(last: &RawDecision) -> Decision {
    match last.is_allowed {
        0 => Decision::NotAllowed(own_choice(last)),
        1 => match choice(last.algorithm, last.protocol, last.channels) {
            Some(choice) => Decision::Applied(choice),
            None => Decision::Own(None),
        },
        _ => Decision::Own(own_choice(last)),
    }
}

fn choice(algorithm: i32, protocol: i32, channels: i32) -> Option<Choice> {
    let at = |index: i32| usize::try_from(index).ok();
    Some(Choice {
        algorithm: *Algorithm::ALL.get(at(algorithm)?)?,
        protocol: *Protocol::ALL.get(at(protocol)?)?,
        channels: u16::try_from(channels).unwrap_or(0),
    })
}

/// What NCCL takes by itself: the smallest allowed prediction, the first of equals (NCCL `src/enqueue.cc`). Its channel
/// count is not known here.
fn own_choice(last: &RawDecision) -> Option<Choice> {
    let best = allowed_cells(last).reduce(|best, next| if next.time_us < best.time_us { next } else { best })?;
    Some(Choice { algorithm: best.algorithm, protocol: best.protocol, channels: 0 })
}

/// The cells of the cost table that NCCL allows, row by row.
fn allowed_cells(last: &RawDecision) -> impl Iterator<Item = Prediction> {
    let rows = Algorithm::ALL.iter().zip(&last.costs_us);
    let cells = rows.flat_map(|(&algorithm, row)| Protocol::ALL.iter().zip(row).map(move |cell| (algorithm, cell)));
    cells
        .map(|(algorithm, (&protocol, &time_us))| Prediction { algorithm, protocol, time_us })
        .filter(|prediction| prediction.time_us >= 0.0)
}

/// `ncclFunc_t`, of the functions that a plugin is asked about.
const fn function_code(collective: Collective) -> Option<i32> {
    match collective {
        Collective::Broadcast => Some(0),
        Collective::Reduce => Some(1),
        Collective::AllGather => Some(2),
        Collective::ReduceScatter => Some(3),
        Collective::AllReduce => Some(4),
        Collective::AllToAll | Collective::SendRecv => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: RawDecision = RawDecision {
        struct_bytes: size_of::<RawDecision>() as u32,
        api_version: 5,
        calls: 1,
        bytes: 0,
        ranks: 0,
        nodes: 0,
        collective: 4,
        num_pipe_ops: 1,
        reg_buff: 0,
        source: 0,
        rule_line: 0,
        algorithm: -1,
        protocol: -1,
        channels: -1,
        is_allowed: -1,
        num_algorithms: 7,
        num_protocols: 3,
        reserved: 0,
        costs_us: [[-1.0; MOST_PROTOCOLS]; MOST_ALGORITHMS],
    };

    #[test]
    fn the_structure_is_the_plugins() {
        assert_eq!((size_of::<RawDecision>(), std::mem::offset_of!(RawDecision, costs_us)), (216, 88));
    }

    extern "C" fn set_nothing(_: i32, _: i32, _: i32, _: i32) -> i32 {
        0
    }

    extern "C" fn clear_nothing() {}

    /// A plugin whose structure is larger.
    unsafe extern "C" fn last_of_another_build(out: *mut RawDecision) -> i32 {
        let struct_bytes = NOTHING.struct_bytes + 8;
        // SAFETY: the caller's promise.
        unsafe { out.write(RawDecision { struct_bytes, ..NOTHING }) };
        1
    }

    unsafe extern "C" fn last_of_this_build(out: *mut RawDecision) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { out.write(NOTHING) };
        1
    }

    #[test]
    fn a_plugin_of_another_build_is_not_trusted() {
        for (last, expected) in [
            (last_of_this_build as unsafe extern "C" fn(*mut RawDecision) -> i32, (1, Decision::Own(None))),
            (last_of_another_build, (0, Decision::NotCalled)),
        ] {
            let library = ManuallyDrop::new(libloading::os::unix::Library::this().into());
            let link = TunerLink { set: set_nothing, clear: clear_nothing, last, _library: library };
            assert_eq!((link.calls(), link.decision_since(0, Collective::AllReduce)), expected);
        }
    }

    #[test]
    fn decisions_are_read() {
        let mut costs_us = NOTHING.costs_us;
        (costs_us[0][0], costs_us[1][2], costs_us[1][0]) = (9.0, 7.0, 7.0);
        let own = choice(1, 0, 0);
        for (raw, expected) in [
            (NOTHING, Decision::Own(None)),
            (RawDecision { costs_us, ..NOTHING }, Decision::Own(own)),
            (RawDecision { costs_us, is_allowed: 0, algorithm: 4, protocol: 2, ..NOTHING }, Decision::NotAllowed(own)),
            (
                RawDecision { costs_us, is_allowed: 1, algorithm: 0, protocol: 1, channels: 4, ..NOTHING },
                Decision::Applied(Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll128, channels: 4 }),
            ),
        ] {
            assert_eq!(read_decision(&raw), expected);
        }
        assert_eq!(own.map(|own| own.to_string()).as_deref(), Some("ring/ll"));
    }
}
