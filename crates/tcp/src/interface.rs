//! The interface over which a connection of this host goes.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of this host, and where it is.
struct Place {
    interface: String,
    address: IpAddr,
    is_loopback: bool,
}

/// The interface of the address `local`, over which this host talks to `peer`; loopback if that is this host
/// itself, `None` if no interface has the address.
///
/// # Errors
/// The system does not report its addresses.
pub fn towards(local: IpAddr, peer: IpAddr) -> io::Result<Option<String>> {
    Ok(chosen(&places()?, local.to_canonical(), peer.to_canonical()))
}

fn chosen(places: &[Place], local: IpAddr, peer: IpAddr) -> Option<String> {
    let is_own = peer.is_loopback() || places.iter().any(|place| place.address == peer);
    places
        .iter()
        .find(|place| if is_own { place.is_loopback } else { place.address == local })
        .map(|place| place.interface.clone())
}

fn places() -> io::Result<Vec<Place>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call writes one pointer, to a list that is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut found, mut next) = (Vec::new(), first);
    while !next.is_null() {
        // SAFETY: not null, and the list lives until it is freed below; names end with 0.
        let (entry, name) = unsafe { (&*next, CStr::from_ptr((*next).ifa_name)) };
        // SAFETY: the address is null, or of the entry.
        if let Some(address) = unsafe { address(entry.ifa_addr) } {
            found.push(Place {
                interface: name.to_string_lossy().into_owned(),
                address,
                is_loopback: entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0,
            });
        }
        next = entry.ifa_next;
    }
    // SAFETY: from the call above, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// An address of IP.
///
/// # Safety
/// `from` is null or points to an address whose family says how long it is.
unsafe fn address(from: *const libc::sockaddr) -> Option<IpAddr> {
    if from.is_null() {
        return None;
    }
    // SAFETY: every address begins with its family, and has the length that belongs to it.
    unsafe {
        match i32::from((*from).sa_family) {
            libc::AF_INET => {
                let v4 = from.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = from.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(interface: &str, address: &str) -> Place {
        let address: IpAddr = address.parse().unwrap();
        Place { interface: interface.to_owned(), address, is_loopback: address.is_loopback() }
    }

    #[test]
    fn the_interface_has_the_local_address_and_loopback_leads_to_this_host() {
        let places = [place("lo", "127.0.0.1"), place("eth0", "192.0.2.1"), place("eth1", "2001:db8::1")];
        let towards = |local: &str, peer: &str| {
            chosen(&places, local.parse().unwrap(), peer.parse().unwrap()).unwrap_or_default()
        };
        assert_eq!(towards("192.0.2.1", "198.51.100.7"), "eth0");
        assert_eq!(towards("2001:db8::1", "2001:db8::2"), "eth1");
        assert_eq!(towards("192.0.2.1", "192.0.2.1"), "lo");
        assert_eq!(towards("127.0.0.5", "127.0.0.1"), "lo");
        assert_eq!(towards("192.0.2.9", "198.51.100.7"), "");
    }

    #[test]
    fn this_host_has_a_loopback_interface() {
        let here = Ipv4Addr::LOCALHOST.into();
        assert_eq!(towards(here, here).unwrap().as_deref(), Some("lo"));
    }
}
