//! The interface over which a connection of this host goes.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct nlmsghdr`, and `struct rtmsg`.
const NETLINK_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;

/// An address of this host, and where it is.
struct Place {
    interface: String,
    address: IpAddr,
    /// Length of the prefix of the network behind the interface.
    prefix: u8,
    is_loopback: bool,
}

/// The networks that this host reaches without a router, each by its own address in it and the length of its prefix.
///
/// # Errors
/// The system does not report its addresses.
pub fn networks() -> io::Result<Vec<(IpAddr, u8)>> {
    Ok(places()?.into_iter().map(|place| (place.address, place.prefix)).collect())
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

/// Whether packets to `address` stay on this host: it is an address of its own, or routed to it
/// (`ip route add local`).
///
/// # Errors
/// The kernel does not say.
pub fn is_own(address: IpAddr) -> io::Result<bool> {
    // SAFETY: plain system call; the descriptor is owned by nobody else yet.
    let fd =
        unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was opened just now.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let (request, mut answer) = (route_request(address.to_canonical()), [0_u8; 4096]);
    // SAFETY: `request` has the length given.
    let sent = unsafe { libc::send(fd, request.as_ptr().cast(), request.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel writes at most as many bytes as there are.
    let received = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    is_local_route(&answer[..received])
}

/// `RTM_GETROUTE` (rtnetlink(7)).
fn route_request(address: IpAddr) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let attribute = 4 + octets.len() as u16;
    let mut bytes = Vec::new();
    bytes.extend(u32::to_ne_bytes(NETLINK_BYTES as u32 + ROUTE_BYTES as u32 + u32::from(attribute)));
    bytes.extend(libc::RTM_GETROUTE.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // Sequence number, and port of the sender.
    bytes.extend([0; 8]);
    let mut route = [0; ROUTE_BYTES];
    (route[0], route[1]) = (family as u8, octets.len() as u8 * 8);
    bytes.extend(route);
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(libc::RTA_DST.to_ne_bytes());
    bytes.extend(octets);
    bytes
}

/// Whether the answer to [`route_request`] is a route that ends here; without a route, none does.
fn is_local_route(answer: &[u8]) -> io::Result<bool> {
    let senseless =
        || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer about a route makes no sense");
    let kind = answer.get(4..6).and_then(|kind| Some(u16::from_ne_bytes(kind.try_into().ok()?)));
    match kind.ok_or_else(senseless)? {
        libc::RTM_NEWROUTE => {
            let kind = *answer.get(NETLINK_BYTES + 7).ok_or_else(senseless)?;
            Ok([libc::RTN_LOCAL, libc::RTN_BROADCAST, libc::RTN_ANYCAST].contains(&kind))
        }
        kind if i32::from(kind) == libc::NLMSG_ERROR => Ok(false),
        _ => Err(senseless()),
    }
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
        // SAFETY: both are null, or of the entry.
        let (at, mask) = unsafe { (address(entry.ifa_addr), address(entry.ifa_netmask)) };
        if let Some(address) = at {
            found.push(Place {
                interface: name.to_string_lossy().into_owned(),
                address,
                prefix: prefix(address, mask),
                is_loopback: entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0,
            });
        }
        next = entry.ifa_next;
    }
    // SAFETY: from the call above, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// How long the prefix of a mask is; without one, it is the whole address.
fn prefix(address: IpAddr, mask: Option<IpAddr>) -> u8 {
    let ones = match mask {
        Some(IpAddr::V4(mask)) => mask.to_bits().leading_ones(),
        Some(IpAddr::V6(mask)) => mask.to_bits().leading_ones(),
        None if address.is_ipv4() => Ipv4Addr::BITS,
        None => Ipv6Addr::BITS,
    };
    ones as u8
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
        Place { interface: interface.to_owned(), address, prefix: 24, is_loopback: address.is_loopback() }
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
    fn addresses_of_loopback_are_this_host() {
        for address in ["127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1"] {
            assert!(is_own(address.parse().unwrap()).unwrap(), "{address}");
        }
        // Interfaces come and go meanwhile, and a link-local address has a route once nobody else has it.
        let is_global = |address: IpAddr| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let owned: Vec<(IpAddr, bool)> = places()
            .unwrap()
            .iter()
            .filter(|place| !place.is_loopback && is_global(place.address))
            .map(|place| (place.address, is_own(place.address).unwrap()))
            .collect();
        let still: Vec<IpAddr> = places().unwrap().iter().map(|place| place.address).collect();
        for (address, own) in owned {
            assert!(own || !still.contains(&address), "{address}");
        }
        // RFC 5737 and RFC 3849: of documentation.
        for address in ["192.0.2.7", "2001:db8::7"] {
            assert!(!is_own(address.parse().unwrap()).unwrap(), "{address}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert!(is_local_route(&[]).is_err() && is_local_route(&[0; 40]).is_err());
        let mut cut = [0; NETLINK_BYTES];
        cut[4..6].copy_from_slice(&libc::RTM_NEWROUTE.to_ne_bytes());
        assert!(is_local_route(&cut).is_err());
    }

    #[test]
    fn loopback_is_a_network_of_this_host() {
        assert!(networks().unwrap().contains(&(Ipv4Addr::LOCALHOST.into(), 8)));
    }

    #[test]
    fn a_mask_is_as_long_as_its_ones() {
        let four: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(prefix(four, Some("255.255.254.0".parse().unwrap())), 23);
        assert_eq!(prefix("::1".parse().unwrap(), Some("ffff:ffff:ffff:ff80::".parse().unwrap())), 57);
        assert_eq!((prefix(four, None), prefix("::1".parse().unwrap(), None)), (32, 128));
    }

    #[test]
    fn this_host_has_a_loopback_interface() {
        let here = Ipv4Addr::LOCALHOST.into();
        assert_eq!(towards(here, here).unwrap().as_deref(), Some("lo"));
    }
}
