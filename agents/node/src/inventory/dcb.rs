//! Priority flow control of network devices, by the kernel's netlink interface for data centre bridging (Linux
//! `include/uapi/linux/dcbnl.h`). It needs no privileges; most drivers do not answer.

use std::{io, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with},
};

/// `RTM_GETDCB` (`include/uapi/linux/rtnetlink.h`).
const GET: u16 = 78;

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;

/// `DCB_CMD_IEEE_GET`.
const IEEE_GET: u8 = 21;

/// `DCB_ATTR_IFNAME`, `DCB_ATTR_IEEE`, `DCB_ATTR_IEEE_PFC`.
const IFNAME: u16 = 1;
const IEEE: u16 = 13;
const IEEE_PFC: u16 = 2;

/// Bytes of the headers: `struct nlmsghdr` and `struct dcbmsg`.
const HEADERS: usize = 16 + 4;

/// Flags in an attribute's type (`NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`).
const TYPE_MASK: u16 = 0x3fff;

/// Longest wait for an answer; the kernel gives it at once.
const LIMIT: Duration = Duration::from_millis(100);

/// Largest answer: with all tables of an adapter some 2,000 bytes.
const ANSWER_BYTES: usize = 16 << 10;

/// Priority flow control of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pfc {
    pub(super) net: String,
    /// Priorities that it is on for.
    pub(super) priorities: Vec<u8>,
}

/// What the kernel says of these devices. One that has no such thing is left out, and so is all where the kernel does not answer.
pub(super) fn ask(nets: &[String]) -> Vec<Pfc> {
    // Protocol 0 is `NETLINK_ROUTE`.
    let flags = SocketFlags::CLOEXEC;
    let Ok(socket) = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None) else {
        return Vec::new();
    };
    let of = |net: &String| {
        let priorities = exchange(&socket, &request(net)).ok().and_then(|answer| parse(&answer))?;
        Some(Pfc { net: net.clone(), priorities })
    };
    nets.iter().filter_map(of).collect()
}

fn exchange(socket: &rustix::fd::OwnedFd, request: &[u8]) -> io::Result<Vec<u8>> {
    send(socket, request, SendFlags::empty())?;
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(LIMIT.subsec_nanos()) };
    if poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout))? == 0 {
        return Err(Errno::TIMEDOUT.into());
    }
    let mut buffer = vec![0; ANSWER_BYTES];
    let (count, _) = recv(socket, buffer.as_mut_slice(), RecvFlags::empty())?;
    buffer.truncate(count);
    Ok(buffer)
}

fn request(net: &str) -> Vec<u8> {
    let mut name = net.as_bytes().to_vec();
    name.push(0);
    let attribute = 4 + name.len();
    name.resize(name.len().next_multiple_of(4), 0);
    let length = HEADERS + 4 + name.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(GET.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    // Number of the message and port of the sender, which the kernel fills in.
    bytes.extend([0; 8]);
    bytes.extend([libc::AF_UNSPEC as u8, IEEE_GET, 0, 0]);
    bytes.extend((attribute as u16).to_ne_bytes());
    bytes.extend(IFNAME.to_ne_bytes());
    bytes.extend(name);
    bytes
}

/// Priorities in an answer; `None` where it has none, or is an error.
fn parse(answer: &[u8]) -> Option<Vec<u8>> {
    let kind = u16::from_ne_bytes([*answer.get(4)?, *answer.get(5)?]);
    if kind != GET {
        return None;
    }
    let pfc = attribute(attribute(answer.get(HEADERS..)?, IEEE)?, IEEE_PFC)?;
    // `struct ieee_pfc`: what it is capable of, then a bit for each priority.
    let enabled = *pfc.get(1)?;
    Some((0..8).filter(|priority| enabled >> priority & 1 == 1).collect())
}

/// The contents of an attribute.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]) & TYPE_MASK;
        let contents = bytes.get(4..length)?;
        if kind == wanted {
            return Some(contents);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute_bytes(kind: u16, contents: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + contents.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(contents);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn answer(kind: u16, enabled: u8) -> Vec<u8> {
        let pfc = attribute_bytes(IEEE_PFC, &[&[8, enabled, 0, 0][..], &[0; 132]].concat());
        let ieee = attribute_bytes(IEEE | 0x8000, &[attribute_bytes(1, &[0; 9]), pfc].concat());
        let mut bytes = vec![0; HEADERS];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend(attribute_bytes(IFNAME, b"eth0\0"));
        bytes.extend(ieee);
        bytes
    }

    #[test]
    fn priorities_are_read() {
        assert_eq!(parse(&answer(GET, 0b1000)), Some(vec![3]));
        assert_eq!(parse(&answer(GET, 0)), Some(vec![]));
        assert_eq!(parse(&answer(2, 0b1000)), None, "an error");
        let whole = answer(GET, 0b1001);
        for cut in 0..whole.len() - 132 {
            assert_eq!(parse(&whole[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn a_request_is_as_long_as_it_says() {
        for net in ["e", "eth0", "enp193s0f0np0"] {
            let bytes = request(net);
            assert_eq!((bytes[0] as usize, bytes.len() % 4), (bytes.len(), 0));
            assert_eq!(attribute(&bytes[HEADERS..], IFNAME), Some([net.as_bytes(), &[0]].concat().as_slice()));
        }
    }

    /// Whatever this kernel can do, it answers or not, and nothing hangs.
    #[test]
    fn the_loopback_has_no_priorities() {
        assert_eq!(ask(&["lo".to_owned(), "gdrtune-none".to_owned()]), []);
    }
}
