#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SshConfig { pub config_file: Option<std::path::PathBuf>, pub accept_new_host_keys: bool }
pub(crate) struct SshLauncher;
impl SshLauncher { pub(crate) fn new(_: SshConfig, _: std::path::PathBuf) -> Result<Self, crate::FleetError> { Ok(Self) } }
impl crate::launch::Launcher for SshLauncher {
    fn launch<'a>(&'a self, host: &'a crate::hosts::Host) -> crate::launch::BoxFuture<'a, Result<crate::launch::Launched, crate::LaunchError>> {
        Box::pin(async move { Err(crate::LaunchError::new(&host.name, crate::LaunchErrorKind::Ssh, "stub")) })
    }
}
