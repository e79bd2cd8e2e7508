//! An open adapter, and the protection domain that its memory and queue pairs belong to.

use std::{
    any::Any,
    ffi::c_int,
    fmt,
    os::fd::{AsRawFd as _, BorrowedFd},
    ptr::NonNull,
    sync::Arc,
};

use ibverbs_sys as ib;

use super::{
    DeviceList, HostMemory, Region, Verbs, check, last_error,
    memory::{Memory, Mr},
};
use crate::verbs::{
    Family, GidEntry, LinkLayer, Port, PortState, SYSFS, Verb, VerbsError, choose_gid,
    port::{mtu_bytes, rate_gbps},
    read_gids,
};

/// An open adapter. Closed when the last that was made of it is gone.
pub struct Device {
    pub(super) verbs: Arc<Verbs>,
    pub(super) context: NonNull<ib::ibv_context>,
    name: String,
}

// SAFETY: libibverbs' contexts may be used from every thread, several at once (see the module).
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// Opens the adapter of this name, such as `mlx5_0`.
    ///
    /// # Errors
    /// [`VerbsError::NoDevice`] where there is none, [`VerbsError::Call`] where it cannot be opened.
    pub fn open(verbs: &Arc<Verbs>, name: &str) -> Result<Arc<Self>, VerbsError> {
        let list = DeviceList::get(verbs)?;
        let Some(device) = list.devices().find(|device| list.name(*device) == name) else {
            let known = list.devices().map(|device| list.name(device)).collect();
            return Err(VerbsError::NoDevice { wanted: name.to_owned(), known });
        };
        // SAFETY: the device is of a list that lives until the end of this function.
        let context = unsafe { (verbs.api.ibv_open_device)(device) };
        let context = NonNull::new(context).ok_or_else(|| last_error(Verb::OpenDevice, name))?;
        Ok(Arc::new(Self { verbs: Arc::clone(verbs), context, name: name.to_owned() }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a port is and does now; ports are counted from 1.
    ///
    /// # Errors
    /// [`VerbsError::Call`] where it has no such port.
    pub fn port(&self, port: u8) -> Result<Port, VerbsError> {
        let mut attributes = ib::ibv_port_attr::default();
        // SAFETY: the context is open. The exported function writes the beginning of this structure; the rest is zero.
        let code = unsafe { (self.verbs.api.ibv_query_port)(self.context.as_ptr(), port, &raw mut attributes) };
        check(code, Verb::QueryPort, || format!("{} port {port}", self.name))?;
        Ok(Port {
            state: PortState(attributes.state),
            link_layer: LinkLayer::from_number(attributes.link_layer),
            active_mtu: mtu_bytes(attributes.active_mtu),
            max_mtu: mtu_bytes(attributes.max_mtu),
            lid: attributes.lid,
            rate_gbps: rate_gbps(attributes.active_width, attributes.active_speed),
        })
    }

    /// Every address of a port.
    ///
    /// # Errors
    /// [`VerbsError`] where the port or its table cannot be read.
    pub fn gids(&self, port: u8) -> Result<Vec<GidEntry>, VerbsError> {
        let layer = self.port(port)?.link_layer;
        read_gids(SYSFS.as_ref(), &self.name, port, layer)
    }

    /// An active port with the address that is best for `family`.
    ///
    /// # Errors
    /// [`VerbsError::Port`] where it is not active or has no address.
    pub fn usable_port(&self, port: u8, family: Family) -> Result<(Port, GidEntry), VerbsError> {
        let unusable = |why: String| VerbsError::Port { device: self.name.clone(), port, why };
        let attributes = self.port(port)?;
        if attributes.state != PortState::ACTIVE {
            return Err(unusable(format!("is {}: cable, switch port or subnet manager", attributes.state)));
        }
        let gids = read_gids(SYSFS.as_ref(), &self.name, port, attributes.link_layer)?;
        let gid = choose_gid(&gids, attributes.link_layer, family);
        let gid = gid.ok_or_else(|| unusable("has no GID: its network device needs an address".to_owned()))?;
        Ok((attributes, gid.clone()))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; what is made of it holds it, so nothing is left.
        unsafe { (self.verbs.api.ibv_close_device)(self.context.as_ptr()) };
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Who may do what with a region. The adapter may always write to it for its own side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nobody but this side.
    Local,
    /// Peers with its key may write.
    RemoteWrite,
    /// Peers with its key may write and read.
    RemoteReadWrite,
}

impl Access {
    /// No relaxed ordering: flags in the payload rely on the order of the bytes.
    fn flags(self) -> c_int {
        let flags = match self {
            Self::Local => ib::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE,
            Self::RemoteWrite => {
                ib::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | ib::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            }
            Self::RemoteReadWrite => {
                ib::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
                    | ib::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
                    | ib::ibv_access_flags::IBV_ACCESS_REMOTE_READ
            }
        };
        flags.0 as c_int
    }
}

/// A protection domain: what is made in it can be used together.
pub struct Domain {
    pub(super) device: Arc<Device>,
    pub(super) pd: NonNull<ib::ibv_pd>,
}

// SAFETY: protection domains may be used from every thread, several at once (see the module).
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    /// A new one.
    ///
    /// # Errors
    /// [`VerbsError::Call`] where the adapter has no more.
    pub fn new(device: &Arc<Device>) -> Result<Arc<Self>, VerbsError> {
        // SAFETY: the context is open.
        let pd = unsafe { (device.verbs.api.ibv_alloc_pd)(device.context.as_ptr()) };
        let pd = NonNull::new(pd).ok_or_else(|| last_error(Verb::AllocPd, device.name()))?;
        Ok(Arc::new(Self { device: Arc::clone(device), pd }))
    }

    /// The adapter.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Registers host memory.
    ///
    /// # Errors
    /// [`VerbsError::Call`]; most often locked memory is limited.
    pub fn register(self: &Arc<Self>, memory: HostMemory, access: Access) -> Result<Region, VerbsError> {
        let (address, bytes) = (memory.address(), memory.len());
        // SAFETY: the region owns the memory and frees it after it has been deregistered.
        let mr = unsafe { self.register_raw(address as u64, bytes, access, "host memory") }?;
        Ok(Region::new(mr, address as u64, bytes, Memory::Host(memory)))
    }

    /// Registers memory by its address, such as a GPU's through `nvidia_peermem`; `owner` frees it when dropped.
    ///
    /// # Safety
    /// Those bytes at `address` are `owner`'s, stay where they are until it is dropped, and no Rust reference to them is
    /// used while the region lives: adapter and peers write to them.
    ///
    /// # Errors
    /// [`VerbsError::Call`] where the memory cannot be pinned.
    pub(in crate::verbs) unsafe fn register_address(
        self: &Arc<Self>,
        (address, bytes): (u64, usize),
        access: Access,
        owner: Box<dyn Any + Send>,
    ) -> Result<Region, (VerbsError, Box<dyn Any + Send>)> {
        // SAFETY: by this function's own contract; the region keeps the owner until it has been deregistered.
        match unsafe { self.register_raw(address, bytes, access, "GPU memory by its address") } {
            Ok(mr) => Ok(Region::new(mr, address, bytes, Memory::Foreign { _owner: owner })),
            Err(error) => Err((error, owner)),
        }
    }

    /// Registers `bytes` of a dmabuf from `offset` on; peers address them from `address` on. The dmabuf keeps the memory;
    /// `owner` is kept as long as the region.
    ///
    /// # Errors
    /// [`VerbsError::Call`] where library, kernel or adapter do not take it, with the owner.
    pub(in crate::verbs) fn register_dmabuf(
        self: &Arc<Self>,
        (dmabuf, offset): (BorrowedFd<'_>, u64),
        (address, bytes): (u64, usize),
        access: Access,
        owner: Box<dyn Any + Send>,
    ) -> Result<Region, (VerbsError, Box<dyn Any + Send>)> {
        let target = || format!("{}, a dmabuf of {bytes} bytes", self.device.name());
        let Some(register) = self.device.verbs.api.ibv_reg_dmabuf_mr else {
            let source = std::io::Error::from_raw_os_error(libc::EOPNOTSUPP);
            return Err((VerbsError::Call { verb: Verb::RegDmabufMr, target: target(), source }, owner));
        };
        let (pd, fd) = (self.pd.as_ptr(), dmabuf.as_raw_fd());
        // SAFETY: domain and descriptor are valid. The kernel takes its own reference to the dmabuf and checks the range,
        // so no memory of this process but the dmabuf's own can be reached.
        let mr = unsafe { register(pd, offset, bytes, address, fd, access.flags()) };
        match NonNull::new(mr) {
            Some(mr) => {
                let mr = Mr { domain: Arc::clone(self), mr };
                Ok(Region::new(mr, address, bytes, Memory::Foreign { _owner: owner }))
            }
            None => Err((last_error(Verb::RegDmabufMr, target()), owner)),
        }
    }

    /// # Safety
    /// As [`Domain::register_address`], until the result is dropped.
    unsafe fn register_raw(
        self: &Arc<Self>,
        address: u64,
        bytes: usize,
        access: Access,
        what: &str,
    ) -> Result<Mr, VerbsError> {
        let pointer = std::ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: the domain is valid; the caller vouches for the memory.
        let mr = unsafe { (self.device.verbs.api.ibv_reg_mr)(self.pd.as_ptr(), pointer, bytes, access.flags()) };
        match NonNull::new(mr) {
            Some(mr) => Ok(Mr { domain: Arc::clone(self), mr }),
            None => Err(last_error(Verb::RegMr, format!("{}, {bytes} bytes of {what}", self.device.name()))),
        }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; regions and queue pairs hold it, so none of them is left.
        unsafe { (self.device.verbs.api.ibv_dealloc_pd)(self.pd.as_ptr()) };
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("device", &self.device).finish_non_exhaustive()
    }
}
