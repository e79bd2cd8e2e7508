//! The kernel's list of interface addresses, by `getifaddrs`.
#![expect(unsafe_code, reason = "no safe wrapper of getifaddrs is among our dependencies")]

use std::{
    ffi::CStr,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr,
};

use super::Link;

/// Interfaces that are up and running and have an address, in kernel order.
pub(super) fn read() -> io::Result<Vec<Link>> {
    let mut head: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is valid for the call, which stores the head of a list that we free below.
    if unsafe { libc::getifaddrs(&raw mut head) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut links: Vec<Link> = vec![];
    let mut next = head;
    // SAFETY: every entry of the list is valid until it is freed, and `ifa_next` is null at its end.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: the entry comes from `getifaddrs`.
        unsafe { add(&mut links, entry) };
        next = entry.ifa_next;
    }
    // SAFETY: `head` comes from `getifaddrs` and nothing of the list is kept.
    unsafe { libc::freeifaddrs(head) };
    links.retain(|link| !link.addresses.is_empty());
    Ok(links)
}

/// # Safety
/// `entry` must be a live entry of `getifaddrs`' list.
unsafe fn add(links: &mut Vec<Link>, entry: &libc::ifaddrs) {
    let needed = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    if entry.ifa_flags & needed != needed || entry.ifa_name.is_null() {
        return;
    }
    // SAFETY: names in the list are C strings.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy();
    // The first entries are the links themselves in index order, so entries without a usable address keep that order.
    let known = links.iter().position(|link| link.name == name);
    let at = known.unwrap_or_else(|| {
        let loopback = entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0;
        links.push(Link { name: name.into_owned(), loopback, addresses: vec![] });
        links.len() - 1
    });
    // SAFETY: the entry's address is null or valid.
    let Some(own) = (unsafe { address(entry.ifa_addr) }).filter(|ip| !is_link_local(ip)) else { return };
    // SAFETY: the entry's netmask is null or valid, and of the same family.
    let mask = unsafe { address(entry.ifa_netmask) };
    links[at].addresses.push((own, prefix(own, mask)));
}

/// # Safety
/// `address` must be null or point to a socket address as long as its family demands.
unsafe fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: by contract of this function.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the family says that it is a `sockaddr_in`; no alignment is assumed.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a `sockaddr_in6`; no alignment is assumed.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

fn is_link_local(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Bits of a netmask; those of the whole address where there is none.
fn prefix(ip: IpAddr, mask: Option<IpAddr>) -> u8 {
    let ones = match (ip, mask) {
        (IpAddr::V4(_), Some(IpAddr::V4(mask))) => u32::from(mask).leading_ones(),
        (IpAddr::V6(_), Some(IpAddr::V6(mask))) => u128::from(mask).leading_ones(),
        (IpAddr::V4(_), _) => u32::BITS,
        (IpAddr::V6(_), _) => u128::BITS,
    };
    ones as u8
}
