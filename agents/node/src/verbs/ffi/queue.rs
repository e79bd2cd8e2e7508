//! Queue pairs: how they are connected, and what is posted to them.

use std::{fmt, net::Ipv6Addr, ptr::NonNull, sync::Arc};

use ibverbs_sys as ib;

use super::{Completion, CompletionQueue, Device, Domain, Region, RemoteRegion, check, last_error};
use crate::verbs::{
    Endpoint, Family, GidEntry, LinkLayer, PathOptions, Port, Verb, VerbsError, WorkFailed, port::mtu_number,
};

/// Hops that a routed packet may take; what NCCL and rdma-core's examples use is 255 and 1, and routers count down.
const HOP_LIMIT: u8 = 255;

/// The default partition, which every port has at this place (InfiniBand specification, 10.9.2).
const PARTITION_INDEX: u16 = 0;

/// Reads that may be under way at once, at either end. The probe's one direction at a time needs no more.
const READS_AT_ONCE: u8 = 1;

/// Bits of queue pair and packet numbers.
const NUMBER_MASK: u32 = 0xff_ffff;

/// What a queue pair is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Writes and reads that may be under way.
    pub send_depth: u32,
    /// Receives that may wait.
    pub receive_depth: u32,
    /// Bytes that [`QueuePair::post_inline_write`] takes.
    pub inline_bytes: u32,
}

/// A reliable connection, or one end of what becomes one.
pub struct QueuePair {
    domain: Arc<Domain>,
    /// Completions go there as long as this lives.
    _queue: Arc<CompletionQueue>,
    qp: NonNull<ib::ibv_qp>,
    port: u8,
    gid_index: u8,
    local: Endpoint,
    peer: Option<Endpoint>,
    inline_bytes: u32,
}

// SAFETY: queue pairs may be used from every thread, several at once (see the module).
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

/// A range of a region here.
#[derive(Debug, Clone, Copy)]
pub struct Local<'a> {
    /// The region, of the queue pair's domain.
    pub region: &'a Region,
    /// Its first byte.
    pub offset: usize,
    /// Its length; 0 is allowed.
    pub bytes: usize,
}

/// A place in a peer's region.
#[derive(Debug, Clone, Copy)]
pub struct Remote {
    /// The region.
    pub region: RemoteRegion,
    /// The first byte.
    pub offset: u64,
}

/// What posted work is called.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// Comes back with its completion.
    pub id: u64,
    /// Whether it gets a completion when it goes well. Room in the queue becomes free with the next completion only, so
    /// every so often one must; a failure always gets one.
    pub signalled: bool,
}

/// What goes into the library's request, beside its memory.
struct Request {
    opcode: u32,
    flags: ib::ibv_send_flags,
    immediate: u32,
}

impl QueuePair {
    /// A queue pair on an active port, in state INIT: receives can be posted, and it can be connected.
    ///
    /// # Errors
    /// [`VerbsError::Port`] where the port cannot be used, [`VerbsError::Call`] where the adapter says no.
    pub fn new(
        domain: &Arc<Domain>,
        queue: &Arc<CompletionQueue>,
        (port, family): (u8, Family),
        caps: Caps,
    ) -> Result<Self, VerbsError> {
        let (attributes, gid) = domain.device().usable_port(port, family)?;
        Self::with_gid(domain, queue, (port, &attributes, &gid), caps)
    }

    /// As [`QueuePair::new`], with an address of the caller's choice.
    ///
    /// # Errors
    /// [`VerbsError::Call`] where the adapter says no.
    pub fn with_gid(
        domain: &Arc<Domain>,
        queue: &Arc<CompletionQueue>,
        (port, attributes, gid): (u8, &Port, &GidEntry),
        caps: Caps,
    ) -> Result<Self, VerbsError> {
        let device = domain.device();
        let mut init = ib::ibv_qp_init_attr {
            send_cq: queue.as_ptr(),
            recv_cq: queue.as_ptr(),
            cap: ib::ibv_qp_cap {
                max_send_wr: caps.send_depth,
                max_recv_wr: caps.receive_depth,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: caps.inline_bytes,
            },
            qp_type: ib::ibv_qp_type::IBV_QPT_RC,
            ..Default::default()
        };
        // SAFETY: domain and queue are valid and of one adapter, or the call fails; it writes back what it made of the caps.
        let qp = unsafe { (device.verbs.api.ibv_create_qp)(domain.pd.as_ptr(), &raw mut init) };
        let target =
            || format!("{} with {} writes and {} receives", device.name(), caps.send_depth, caps.receive_depth);
        let qp = NonNull::new(qp).ok_or_else(|| last_error(Verb::CreateQp, target()))?;
        // SAFETY: the queue pair was just made.
        let qpn = unsafe { (*qp.as_ptr()).qp_num };
        let local = Endpoint {
            qpn,
            psn: random_number(),
            lid: attributes.lid,
            gid: gid.gid.octets(),
            mtu: attributes.active_mtu,
            link_layer: attributes.link_layer,
        };
        let made = Self {
            domain: Arc::clone(domain),
            _queue: Arc::clone(queue),
            qp,
            port,
            gid_index: gid.index,
            local,
            peer: None,
            inline_bytes: init.cap.max_inline_data,
        };
        made.initialise()?;
        Ok(made)
    }

    fn initialise(&self) -> Result<(), VerbsError> {
        use ib::ibv_qp_attr_mask as mask;
        let access = ib::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE | ib::ibv_access_flags::IBV_ACCESS_REMOTE_READ;
        let mut attributes = ib::ibv_qp_attr {
            qp_state: ib::ibv_qp_state::IBV_QPS_INIT,
            pkey_index: PARTITION_INDEX,
            port_num: self.port,
            qp_access_flags: access.0,
            ..Default::default()
        };
        let set = mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_ACCESS_FLAGS;
        self.modify(&mut attributes, set, Verb::ModifyQpInit)
    }

    /// Connects to a peer: from here on both directions work, as soon as the peer has done the same.
    ///
    /// # Errors
    /// [`VerbsError::Peer`] where the ends do not fit, [`VerbsError::Call`] where the adapter cannot resolve the peer.
    pub fn connect(&mut self, peer: &Endpoint, options: PathOptions) -> Result<(), VerbsError> {
        use ib::ibv_qp_attr_mask as mask;
        if peer.link_layer != self.local.link_layer {
            let why = format!("it speaks {}, this port {}", peer.link_layer, self.local.link_layer);
            return Err(VerbsError::Peer { device: self.device().name().to_owned(), peer: *peer, why });
        }
        self.peer = Some(*peer);
        let timeouts = options.timeouts;
        let mut ready_to_receive = ib::ibv_qp_attr {
            qp_state: ib::ibv_qp_state::IBV_QPS_RTR,
            path_mtu: mtu_number(peer.mtu.min(self.local.mtu)),
            dest_qp_num: peer.qpn & NUMBER_MASK,
            rq_psn: peer.psn & NUMBER_MASK,
            max_dest_rd_atomic: READS_AT_ONCE,
            min_rnr_timer: timeouts.rnr_timer,
            ah_attr: self.path_to(peer, options),
            ..Default::default()
        };
        let set = mask::IBV_QP_STATE | mask::IBV_QP_AV | mask::IBV_QP_PATH_MTU | mask::IBV_QP_DEST_QPN;
        let set = set | mask::IBV_QP_RQ_PSN | mask::IBV_QP_MAX_DEST_RD_ATOMIC | mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(&mut ready_to_receive, set, Verb::ModifyQpRtr)?;
        let mut ready_to_send = ib::ibv_qp_attr {
            qp_state: ib::ibv_qp_state::IBV_QPS_RTS,
            sq_psn: self.local.psn,
            timeout: timeouts.ack_exponent,
            retry_cnt: timeouts.retries,
            rnr_retry: timeouts.rnr_retries,
            max_rd_atomic: READS_AT_ONCE,
            ..Default::default()
        };
        let set = mask::IBV_QP_STATE | mask::IBV_QP_SQ_PSN | mask::IBV_QP_TIMEOUT | mask::IBV_QP_RETRY_CNT;
        let set = set | mask::IBV_QP_RNR_RETRY | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut ready_to_send, set, Verb::ModifyQpRts)
    }

    /// InfiniBand goes by LID within a subnet; RoCE, and InfiniBand through a router, by GID.
    fn path_to(&self, peer: &Endpoint, options: PathOptions) -> ib::ibv_ah_attr {
        let by_gid = self.local.link_layer == LinkLayer::Ethernet || self.local.is_beyond_router(peer);
        ib::ibv_ah_attr {
            grh: ib::ibv_global_route {
                dgid: ib::ibv_gid { raw: peer.gid },
                flow_label: 0,
                sgid_index: self.gid_index,
                hop_limit: HOP_LIMIT,
                traffic_class: options.traffic_class,
            },
            dlid: peer.lid,
            sl: options.service_level,
            is_global: u8::from(by_gid),
            port_num: self.port,
            ..Default::default()
        }
    }

    fn modify(
        &self,
        attributes: &mut ib::ibv_qp_attr,
        set: ib::ibv_qp_attr_mask,
        verb: Verb,
    ) -> Result<(), VerbsError> {
        // SAFETY: the queue pair is valid; the attributes that the mask names are set.
        let code = unsafe { (self.device().verbs.api.ibv_modify_qp)(self.qp.as_ptr(), attributes, set.0 as i32) };
        check(code, verb, || self.described())
    }

    /// What a peer needs to connect to it.
    pub fn local(&self) -> Endpoint {
        self.local
    }

    /// Its number, as completions name it.
    pub fn number(&self) -> u32 {
        self.local.qpn
    }

    /// Bytes that [`QueuePair::post_inline_write`] takes.
    pub fn inline_bytes(&self) -> usize {
        self.inline_bytes as usize
    }

    /// The adapter.
    pub fn device(&self) -> &Arc<Device> {
        self.domain.device()
    }

    /// The port, from 1.
    pub fn port(&self) -> u8 {
        self.port
    }

    /// Posts a write of a range here to the peer's region; an immediate takes up one of the peer's receives.
    ///
    /// # Errors
    /// [`VerbsError::Range`], or [`VerbsError::Call`] where the queue is full.
    pub fn post_write(
        &self,
        local: Local<'_>,
        remote: Remote,
        immediate: Option<u32>,
        mark: Mark,
    ) -> Result<(), VerbsError> {
        self.post(self.entry(local)?, remote, &Request::write(immediate, mark), mark.id)
    }

    /// Posts a write of a few bytes, which are taken over at once: see [`QueuePair::inline_bytes`].
    ///
    /// # Errors
    /// As [`QueuePair::post_write`].
    pub fn post_inline_write(
        &self,
        data: &[u8],
        remote: Remote,
        immediate: Option<u32>,
        mark: Mark,
    ) -> Result<(), VerbsError> {
        let length = u64::from(self.inline_bytes);
        if self.inline_bytes() < data.len() {
            return Err(VerbsError::Range { side: "inline", offset: 0, bytes: data.len() as u64, length });
        }
        // With the flag set, the provider copies the bytes before it returns, and ignores the key.
        let entry = ib::ibv_sge { addr: data.as_ptr().expose_provenance() as u64, length: data.len() as u32, lkey: 0 };
        let mut request = Request::write(immediate, mark);
        request.flags |= ib::ibv_send_flags::IBV_SEND_INLINE;
        self.post(entry, remote, &request, mark.id)
    }

    /// Posts a read of the peer's region into a range here.
    ///
    /// # Errors
    /// As [`QueuePair::post_write`].
    pub fn post_read(&self, local: Local<'_>, remote: Remote, mark: Mark) -> Result<(), VerbsError> {
        let opcode = ib::ibv_wr_opcode::IBV_WR_RDMA_READ;
        let request = Request { opcode, ..Request::write(None, mark) };
        self.post(self.entry(local)?, remote, &request, mark.id)
    }

    fn entry(&self, local: Local<'_>) -> Result<ib::ibv_sge, VerbsError> {
        let (addr, lkey) = local.region.local(local.offset, local.bytes)?;
        // A region of another domain has keys of its own numbering, which could be another region's here.
        if !Arc::ptr_eq(local.region.domain(), &self.domain) {
            let (region, here) = (local.region.domain().device().name(), self.device().name());
            return Err(VerbsError::OtherDomain { region: region.to_owned(), device: here.to_owned() });
        }
        let Ok(length) = u32::try_from(local.bytes) else {
            let (offset, bytes) = (local.offset as u64, local.bytes as u64);
            return Err(VerbsError::Range { side: "local", offset, bytes, length: u64::from(u32::MAX) });
        };
        Ok(ib::ibv_sge { addr, length, lkey })
    }

    fn post(&self, mut entry: ib::ibv_sge, remote: Remote, request: &Request, id: u64) -> Result<(), VerbsError> {
        let (bytes, length) = (u64::from(entry.length), remote.region.bytes);
        if remote.offset.checked_add(bytes).is_none_or(|end| length < end) {
            return Err(VerbsError::Range { side: "remote", offset: remote.offset, bytes, length });
        }
        let rdma = ib::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
            remote_addr: remote.region.address.wrapping_add(remote.offset),
            rkey: remote.region.key,
        };
        let mut work = ib::ibv_send_wr {
            wr_id: id,
            sg_list: &raw mut entry,
            num_sge: 1,
            opcode: request.opcode,
            send_flags: request.flags.0,
            __bindgen_anon_1: ib::ibv_send_wr__bindgen_ty_1 { imm_data: request.immediate.to_be() },
            wr: ib::ibv_send_wr__bindgen_ty_2 { rdma },
            ..Default::default()
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair is valid, and every provider has this operation. Request and entry are read before it
        // returns. The entry is a registered range, or inline data that is copied before it returns.
        let code = unsafe {
            let post = (*self.device().context.as_ptr()).ops.post_send;
            post.map_or(-libc::ENOSYS, |post| post(self.qp.as_ptr(), &raw mut work, &raw mut bad))
        };
        check(code, Verb::PostSend, || self.described())
    }

    /// Posts a receive without memory of its own: it takes one of the peer's writes with an immediate.
    ///
    /// # Errors
    /// [`VerbsError::Call`] where the queue is full.
    pub fn post_receive(&self, id: u64) -> Result<(), VerbsError> {
        let mut work = ib::ibv_recv_wr { wr_id: id, ..Default::default() };
        let mut bad = std::ptr::null_mut();
        // SAFETY: as in `post`; there is no memory in it.
        let code = unsafe {
            let post = (*self.device().context.as_ptr()).ops.post_recv;
            post.map_or(-libc::ENOSYS, |post| post(self.qp.as_ptr(), &raw mut work, &raw mut bad))
        };
        check(code, Verb::PostRecv, || self.described())
    }

    /// What a completion of this queue pair says, as an error where its work failed.
    ///
    /// # Errors
    /// [`WorkFailed`] with the names of both ends.
    pub fn check(&self, completion: &Completion) -> Result<(), WorkFailed> {
        if completion.status.is_success() {
            return Ok(());
        }
        let (device, peer) = (self.device().name().to_owned(), self.peer_name());
        Err(WorkFailed { status: completion.status, device, port: self.port, peer })
    }

    fn peer_name(&self) -> String {
        self.peer.map_or_else(|| "nobody".to_owned(), |peer| peer.to_string())
    }

    fn described(&self) -> String {
        let (device, gid) = (self.device().name(), Ipv6Addr::from(self.local.gid));
        format!("{device} port {} (GID {}: {gid}) to {}", self.port, self.gid_index, self.peer_name())
    }
}

impl Request {
    fn write(immediate: Option<u32>, mark: Mark) -> Self {
        let opcode = match immediate {
            Some(_) => ib::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            None => ib::ibv_wr_opcode::IBV_WR_RDMA_WRITE,
        };
        let signalled = if mark.signalled { ib::ibv_send_flags::IBV_SEND_SIGNALED.0 } else { 0 };
        Self { opcode, flags: ib::ibv_send_flags(signalled), immediate: immediate.unwrap_or_default() }
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; the adapter is through with its work when this returns.
        unsafe { (self.device().verbs.api.ibv_destroy_qp)(self.qp.as_ptr()) };
    }
}

impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair").field("local", &self.local).field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Packet numbers of a new connection are random, so that packets of an older one between the same ends do not fit.
fn random_number() -> u32 {
    let mut bytes = [0; 4];
    // Without random numbers, connections work all the same.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok();
    u32::from_ne_bytes(bytes) & NUMBER_MASK
}
