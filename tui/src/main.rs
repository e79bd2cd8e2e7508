//! Under construction.

use std::{path::Path, process::ExitCode};

use tokio::sync::mpsc::unbounded_channel;

mod ui;

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    anyhow::ensure!(arguments.next().as_deref() == Some("__ui-replay"), "usage: gdrtune __ui-replay FILE [SPEED]");
    let file = arguments.next().unwrap_or_default();
    let speed = arguments.next().map_or(Ok(1.0), |text| text.parse())?;
    let records = ui::replay::read(Path::new(&file))?;
    let mut options = ui::UiOptions::from_environment(ui::Source::Replay, |name| std::env::var(name).ok());
    options.speed = speed;
    if let Some("live") = arguments.next().as_deref() {
        options.source = ui::Source::Live;
    }
    let (sender, receiver) = unbounded_channel();
    let (command_sender, command_receiver) = unbounded_channel();
    tokio::runtime::Runtime::new()?.block_on(async {
        let feeder = tokio::spawn(ui::replay::feed(records, sender, command_receiver, speed));
        ui::run(receiver, |command| drop(command_sender.send(command)), options).await?;
        feeder.abort();
        Ok(ExitCode::SUCCESS)
    })
}
