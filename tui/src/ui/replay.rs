//! Plays a stored run back at its own pace or faster. The UI cannot tell it from a live run's channel.

use std::time::Duration;

use gdrtune_session::event::{Command, Record};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    time::{Instant, sleep_until},
};

/// Sends the records when their time has come, `speed` times as fast as they happened. Pause and resume act on the
/// playback; it ends early when nobody listens any more.
pub(crate) async fn feed(
    records: Vec<Record>,
    sender: UnboundedSender<Record>,
    mut commands: UnboundedReceiver<Command>,
    speed: f64,
) {
    // The time when run time 0 was (or would have been) played.
    let mut origin = Instant::now();
    for record in records {
        let offset = Duration::from_secs_f64(record.t_ms as f64 / 1000.0 / speed.max(f64::MIN_POSITIVE));
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    None => return,
                    Some(Command::Pause) => {
                        let paused_at = Instant::now();
                        while let Some(command) = commands.recv().await {
                            if command == Command::Resume {
                                break;
                            }
                        }
                        origin += paused_at.elapsed();
                    }
                    Some(_) => {}
                },
                () = sleep_until(origin + offset) => break,
            }
        }
        if sender.send(record).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_session::event::{Event, Phase};
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    fn record(seq: u64, t_ms: u64) -> Record {
        Record { seq, t_ms, event: Event::Phase { phase: Phase::Search } }
    }

    #[tokio::test(start_paused = true)]
    async fn records_come_at_the_speed_of_the_playback() {
        let (sender, mut receiver) = unbounded_channel();
        let (commands, command_receiver) = unbounded_channel();
        let start = Instant::now();
        let feeder = tokio::spawn(feed(vec![record(0, 0), record(1, 4_000)], sender, command_receiver, 2.0));
        assert_eq!(receiver.recv().await.map(|r| r.seq), Some(0));
        assert_eq!(receiver.recv().await.map(|r| r.seq), Some(1));
        assert_eq!(start.elapsed().as_millis(), 2_000);
        assert_eq!(receiver.recv().await, None);
        feeder.await.unwrap();
        drop(commands);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_shifts_what_follows() {
        let (sender, mut receiver) = unbounded_channel();
        let (commands, command_receiver) = unbounded_channel();
        let start = Instant::now();
        commands.send(Command::Pause).unwrap();
        let feeder = tokio::spawn(feed(vec![record(0, 1_000)], sender, command_receiver, 1.0));
        tokio::time::sleep(Duration::from_secs(5)).await;
        commands.send(Command::Resume).unwrap();
        assert_eq!(receiver.recv().await.map(|r| r.seq), Some(0));
        assert_eq!(start.elapsed().as_millis(), 6_000);
        feeder.await.unwrap();
    }
}
