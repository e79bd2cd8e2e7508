//! The terminal as a resource: entered once, and given back on every way out (return, error, panic of any thread,
//! signal, suspension). It draws what it is given and knows nothing of the state's meaning.

use std::{
    io::{self, BufWriter, Stdout, Write as _},
    mem::ManuallyDrop,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crossterm::{
    clipboard, cursor, event, execute, queue,
    terminal::{self, BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen},
};
use ratatui::{Terminal, backend::CrosstermBackend, buffer::Buffer};
use rustix::process::{self, Signal};
use tokio::{
    signal::unix::{Signal as SignalStream, SignalKind, signal},
    sync::Notify,
    time::sleep,
};

/// How long a suspended process waits to be stopped and continued before it concludes that the shell does no job
/// control (an orphaned process group is never stopped). A stop freezes the wait.
const SUSPEND_PATIENCE: Duration = Duration::from_secs(1);

/// Whether the terminal is ours now. The panic hook reads it from any thread.
static ENTERED: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();
static PANICKED: Notify = Notify::const_new();

/// Whether the mouse is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mouse {
    /// Wheel and clicks come to us.
    Captured,
    /// The terminal keeps its own selection.
    Free,
}

/// The entered terminal. Dropping it gives the terminal back.
pub(crate) struct Screen {
    // Never dropped: ratatui would print to stderr that the cursor cannot be shown, which panics where the terminal is
    // gone, and the writer would flush the half of a frame over the shell. `give_back` does all that is needed.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<Stdout>>>>,
    mouse: Mouse,
}

impl Screen {
    /// Takes the terminal: raw mode, alternate screen, no cursor.
    ///
    /// # Errors
    /// Standard output is no terminal, or cannot be written.
    pub(crate) fn enter(mouse: Mouse) -> io::Result<Self> {
        chain_panic_hook();
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(io::stdout())))?;
        let screen = Self { terminal: ManuallyDrop::new(terminal), mouse };
        screen.take()?;
        Ok(screen)
    }

    fn take(&self) -> io::Result<()> {
        // Set first: if a later step fails, `give_back` undoes those before it.
        ENTERED.store(true, Ordering::SeqCst);
        terminal::enable_raw_mode()?;
        // Pasted text must not be taken for keys: it could end the run.
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide, event::EnableBracketedPaste)?;
        if self.mouse == Mouse::Captured {
            execute!(io::stdout(), event::EnableMouseCapture)?;
        }
        Ok(())
    }

    /// Columns and rows.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    /// Draws one frame that fits `size`, in one synchronized update.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn draw(&mut self, size: (u16, u16), paint: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        // A panic of another thread has given the terminal back: nothing may be drawn over its message.
        if !ENTERED.load(Ordering::SeqCst) {
            return Ok(());
        }
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| {
            // The terminal may have shrunk since; then its resize event is on the way.
            if (frame.area().width, frame.area().height) == size {
                paint(frame.buffer_mut());
            }
        })?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.terminal.backend_mut().flush()
    }

    /// Forgets what the terminal shows, so that the next frame paints every cell.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn repaint(&mut self) -> io::Result<()> {
        // Not `clear`: it asks the terminal for the cursor's position, and the event stream would swallow the answer.
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Puts a text into the terminal's clipboard (OSC 52). Whether it takes it, the terminal does not say.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), clipboard::CopyToClipboard::to_clipboard_from(text))
    }

    /// Gives the terminal back with these words on it, stops the process group as the terminal's own ^Z would, and takes it
    /// again.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) async fn suspend(&mut self, signals: &mut Signals, words: &str) -> io::Result<()> {
        give_back();
        io::stderr().write_all(words.as_bytes())?;
        process::kill_current_process_group(Signal::TSTP)?;
        tokio::select! {
            _ = signals.continued.recv() => {}
            () = sleep(SUSPEND_PATIENCE) => {}
        }
        self.resume()
    }

    /// Takes the terminal again after the shell had it.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        // Sets the terminal's mode even if it is raw already: a process that was continued in the background is
        // stopped here by the kernel, before it draws over the shell, until it is in the foreground.
        terminal::disable_raw_mode()?;
        self.take()?;
        self.repaint()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Undoes [`Screen::take`], once. Errors are of no use here: the terminal is gone, or we are on the way out.
fn give_back() {
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    let written = execute!(
        io::stdout(),
        EndSynchronizedUpdate,
        event::DisableMouseCapture,
        event::DisableBracketedPaste,
        LeaveAlternateScreen,
        cursor::Show
    );
    let cooked = terminal::disable_raw_mode();
    drop((written, cooked));
}

/// Makes every panic give the terminal back before its message is printed, and end the UI after.
fn chain_panic_hook() {
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            previous(info);
            PANICKED.notify_one();
        }));
    });
}

/// Returns when a thread has panicked.
pub(crate) async fn panicked() {
    PANICKED.notified().await;
}

/// The signals that the UI listens to.
pub(crate) struct Signals {
    interrupt: SignalStream,
    terminate: SignalStream,
    hang_up: SignalStream,
    continued: SignalStream,
}

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signalled {
    /// SIGINT: the same as the key.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal is gone.
    HangUp,
    /// SIGCONT: the shell had the terminal.
    Continued,
}

impl Signals {
    /// Starts to listen.
    ///
    /// # Errors
    /// The handlers cannot be set.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            continued: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
        })
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Signalled {
        tokio::select! {
            _ = self.interrupt.recv() => Signalled::Interrupt,
            _ = self.terminate.recv() => Signalled::Terminate,
            _ = self.hang_up.recv() => Signalled::HangUp,
            _ = self.continued.recv() => Signalled::Continued,
        }
    }
}
