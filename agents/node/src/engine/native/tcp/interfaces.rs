//! Reads the host's IPv4 interfaces. The one FFI module of the native engine.
#![expect(unsafe_code, reason = "getifaddrs has no safe wrapper in our dependencies")]

use std::{ffi::CStr, io, net::Ipv4Addr, ptr};

/// An interface that is up and has an IPv4 address (the first one where there are several).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocalInterface {
    pub(super) name: String,
    pub(super) address: Ipv4Addr,
    pub(super) is_loopback: bool,
}

/// Frees the list of `getifaddrs` however the reading ends.
struct List(*mut libc::ifaddrs);

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a successful getifaddrs and is freed once.
        unsafe { libc::freeifaddrs(self.0) }
    }
}

/// The interfaces in kernel order.
pub(super) fn list() -> io::Result<Vec<LocalInterface>> {
    let mut head = ptr::null_mut();
    // SAFETY: `head` is a valid place for the list's pointer.
    if unsafe { libc::getifaddrs(&raw mut head) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let list = List(head);
    let mut found: Vec<LocalInterface> = Vec::new();
    let mut next = list.0;
    while !next.is_null() {
        // SAFETY: entries of the list are valid until it is freed, which `list` does after this loop.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        let is_up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        // SAFETY: an entry's address is null or points to a socket address whose family tells its type.
        if !is_up || entry.ifa_addr.is_null() || unsafe { (*entry.ifa_addr).sa_family } != libc::AF_INET as u16 {
            continue;
        }
        // SAFETY: the family is AF_INET, so it is a sockaddr_in; the copy makes no claim on its alignment.
        let address = unsafe { ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in>()) };
        // SAFETY: the name is a C string that lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        if found.iter().all(|interface| interface.name != name) {
            found.push(LocalInterface {
                name,
                address: Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)),
                is_loopback: entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_found() {
        let expected = LocalInterface { name: "lo".into(), address: Ipv4Addr::LOCALHOST, is_loopback: true };
        assert!(list().unwrap().contains(&expected));
    }
}
