//! Takes standard input and output away from everybody but the frames, and moves frames over them.
//!
//! Libraries print to descriptor 1 and read from 0 without asking. So both move to high descriptors that no child
//! inherits; 0 then reads `/dev/null`, and 1 writes to standard error.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
};

use gdrtune_wire::{
    FromWorker, ToWorker,
    codec::{CodecError, Decoder, encode},
};
use rustix::{io::fcntl_dupfd_cloexec, stdio};

use super::exit;

/// Lowest number of a moved descriptor: out of reach of code that assumes small ones.
const LOWEST_DESCRIPTOR: i32 = 64;

/// Bytes for one read: a script of a few hundred items.
const READ_BYTES: usize = 64 << 10;

/// Where frames to the agent go.
#[derive(Clone)]
pub(crate) struct Outlet(Arc<Mutex<File>>);

impl Outlet {
    /// Sends one message.
    pub(crate) fn send(&self, message: &FromWorker) -> Result<(), String> {
        let frame = encode(message).map_err(|error| format!("encode a message: {error}"))?;
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&frame).map_err(|error| format!("write to the agent: {error}"))
    }
}

/// Takes the descriptors over and starts the reader. The process ends when the input does.
pub(super) fn take() -> io::Result<(Receiver<ToWorker>, Outlet)> {
    let input: File = fcntl_dupfd_cloexec(stdio::stdin(), LOWEST_DESCRIPTOR)?.into();
    let output: File = fcntl_dupfd_cloexec(stdio::stdout(), LOWEST_DESCRIPTOR)?.into();
    stdio::dup2_stdin(File::open("/dev/null")?)?;
    stdio::dup2_stdout(stdio::stderr())?;
    let outlet = Outlet(Arc::new(Mutex::new(output)));
    let (sender, receiver) = channel();
    let reader_outlet = outlet.clone();
    std::thread::Builder::new().name("frames".to_owned()).spawn(move || {
        match read_frames(input, &sender) {
            // The agent is gone, or it closed the lifeline on purpose: nobody waits for a result.
            Ok(()) => exit::now(0),
            Err(error) => {
                drop(reader_outlet.send(&FromWorker::Failed(format!("read from the agent: {error}"))));
                exit::now(1)
            }
        }
    })?;
    Ok((receiver, outlet))
}

/// Why reading ended before the input did.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Hands frames on until the input ends.
fn read_frames(mut input: impl Read, sender: &Sender<ToWorker>) -> Result<(), ReadError> {
    let mut decoder = Decoder::new();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match input.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(n) => decoder.feed(&bytes[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        }
        while let Some(message) = decoder.next_message()? {
            if sender.send(message).is_err() {
                // The main thread is on its way out and sets the exit code; this thread ends with the process.
                loop {
                    std::thread::park();
                }
            }
        }
    }
}
