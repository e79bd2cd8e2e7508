//! Under construction.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser as _;
use tokio::sync::mpsc::unbounded_channel;

mod ui;

/// Plays a stored run back.
#[derive(Debug, clap::Parser)]
enum Arguments {
    /// Plays a stored run back.
    #[command(name = "__ui-replay", hide = true)]
    Replay {
        /// The run store.
        file: PathBuf,
        /// Run time per wall time.
        #[arg(long, default_value_t = 1.0)]
        speed: f64,
        /// Show it as a live run, with the questions of one.
        #[arg(long)]
        live: bool,
        /// Leave the mouse to the terminal.
        #[arg(long)]
        no_mouse: bool,
        /// Draw ASCII characters only.
        #[arg(long)]
        ascii: bool,
        /// The first theme.
        #[arg(long)]
        theme: Option<ui::ThemeName>,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let Arguments::Replay { file, speed, live, no_mouse, ascii, theme } = Arguments::parse();
    let records = ui::replay::read(&file)?;
    let source = if live { ui::Source::Live } else { ui::Source::Replay };
    let mut options = ui::UiOptions::from_environment(source, |name| std::env::var(name).ok());
    options.speed = speed;
    if no_mouse {
        options.mouse = ui::Mouse::Free;
    }
    if ascii {
        options.charset = ui::Charset::Ascii;
    }
    if let Some(theme) = theme {
        options.theme = theme;
    }
    let (sender, receiver) = unbounded_channel();
    let (command_sender, command_receiver) = unbounded_channel();
    let end = tokio::runtime::Runtime::new()?.block_on(async {
        let feeder = tokio::spawn(ui::replay::feed(records, sender, command_receiver, speed));
        let send = |command| {
            // A feeder that is done takes no more commands.
            command_sender.send(command).unwrap_or_default();
        };
        let end = ui::run(receiver, send, options).await;
        feeder.abort();
        end
    })?;
    Ok(if end == ui::UiEnd::Left { ExitCode::SUCCESS } else { ExitCode::from(130) })
}
