//! stub
use gdrtune_session::event::{Command, Record};
pub struct UiOptions { pub ascii: bool, pub replay: bool }
pub async fn run(mut r: tokio::sync::mpsc::UnboundedReceiver<Record>, _c: impl Fn(Command), _o: UiOptions) -> anyhow::Result<()> { while r.recv().await.is_some() {} Ok(()) }
