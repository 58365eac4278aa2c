//! Which destinations are selected.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use thiserror::Error;

/// Most rules that a user can give.
pub const MOST_RULES: usize = 16;

/// Most networks that wider ones do not include.
pub const MOST_APART: usize = 128;

/// Networks that wider ones do not include: this host, its neighbours, many hosts at once, no host at all.
const SPECIAL: [(u128, u8); 8] = [
    (v4([127, 0, 0, 0]), 96 + 8),
    (v4([169, 254, 0, 0]), 96 + 16),
    (v4([224, 0, 0, 0]), 96 + 4),
    (v4([0, 0, 0, 0]), 96 + 8),
    (1, 128),
    (0, 128),
    (0xfe80 << 112, 10),
    (0xff00 << 112, 8),
];

const fn v4(octets: [u8; 4]) -> u128 {
    Ipv4Addr::from_octets(octets).to_ipv6_mapped().to_bits()
}

/// Why a rule was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// It is not a rule.
    #[error(
        "{0:?} is no destination; accepted are any, 192.0.2.0/24, 192.0.2.1:443, any:8000-8999 and \
         [2001:db8::/32]:443"
    )]
    Malformed(String),
    /// An address within the network, not the network itself.
    #[error("{given:?} has bits outside of its network; it would be {meant}")]
    Bits {
        /// What was given.
        given: String,
        /// The network.
        meant: String,
    },
    /// Too many.
    #[error("{0} destinations: {MOST_RULES} are possible")]
    Many(usize),
    /// This host has too many networks.
    #[error("this host's interfaces are in {0} networks, more than can be left out")]
    Interfaces(usize),
}

/// One rule. Addresses are those of IPv6, which maps IPv4 into itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    network: u128,
    prefix: u8,
    pub ports: RangeInclusive<u16>,
    /// Whether the destinations that match are selected.
    pub takes: bool,
}

impl Rule {
    fn new(network: u128, prefix: u8, ports: RangeInclusive<u16>, takes: bool) -> Self {
        Self { network, prefix, ports, takes }
    }

    /// The network, in the order of its bytes.
    pub fn network(&self) -> [u8; 16] {
        self.network.to_be_bytes()
    }

    /// The bits that count.
    pub fn mask(&self) -> [u8; 16] {
        mask(self.prefix).to_be_bytes()
    }

    fn fits(&self, address: u128, port: u16) -> bool {
        address & mask(self.prefix) == self.network && self.ports.contains(&port)
    }

    fn is_within(&self, (network, prefix): (u128, u8)) -> bool {
        self.prefix >= prefix && self.network & mask(prefix) == network
    }

    fn parse(text: &str) -> Result<Self, RuleError> {
        let malformed = || RuleError::Malformed(text.to_owned());
        let (network, ports) = split(text.trim()).ok_or_else(malformed)?;
        let ports = ports.map_or(Some(0..=u16::MAX), parse_ports).ok_or_else(malformed)?;
        if network == "any" {
            return Ok(Self::new(0, 0, ports, true));
        }
        let (address, length) = match network.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (network, None),
        };
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Some(most), number).filter(|length| *length <= most);
        let length = length.ok_or_else(malformed)?;
        let prefix = length + (128 - most);
        let bits = bits(address);
        if bits & mask(prefix) != bits {
            let network = Ipv6Addr::from_bits(bits & mask(prefix));
            let network = if most == 32 { network.to_canonical() } else { network.into() };
            return Err(RuleError::Bits { given: text.to_owned(), meant: format!("{network}/{length}") });
        }
        Ok(Self::new(bits, prefix, ports, true))
    }
}

/// The first rule that matches decides; if none does, a destination is not selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Parses rules such as `any`, `192.0.2.0/24`, `192.0.2.1:443`, `[2001:db8::/32]:8000-8999`.
    ///
    /// Loopback, link-local and multicast addresses are selected only by rules within those networks.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, RuleError> {
        Self::select(texts, &[], &[])
    }

    /// As [`Rules::parse`], without what `except` names, however narrow a rule is. `local`: networks that wider rules do
    /// not include either, each by an address and the length of its prefix.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn select<T: AsRef<str>>(
        texts: &[T],
        except: &[T],
        local: &[(IpAddr, u8)],
    ) -> Result<Self, RuleError> {
        let parse = |texts: &[T]| {
            if texts.len() > MOST_RULES {
                return Err(RuleError::Many(texts.len()));
            }
            texts.iter().map(|text| Rule::parse(text.as_ref())).collect::<Result<Vec<_>, _>>()
        };
        let never = parse(except)?.into_iter().map(|rule| Rule { takes: false, ..rule });
        let mut apart = SPECIAL.to_vec();
        for (address, length) in local {
            let prefix = if address.is_ipv4() { 96_u8.saturating_add(*length) } else { *length }.min(128);
            let network = (bits(*address) & mask(prefix), prefix);
            if !apart.contains(&network) {
                apart.push(network);
            }
        }
        if apart.len() > MOST_APART {
            return Err(RuleError::Interfaces(apart.len() - SPECIAL.len()));
        }
        let is_apart = |rule: &Rule| apart.iter().any(|network| rule.is_within(*network));
        let (first, last): (Vec<_>, Vec<_>) = parse(texts)?.into_iter().partition(is_apart);
        let apart = apart.iter().map(|(network, prefix)| Rule::new(*network, *prefix, 0..=u16::MAX, false));
        Ok(Self(never.chain(first).chain(apart).chain(last).collect()))
    }

    /// Whether `to` is selected.
    #[must_use]
    pub fn takes(&self, to: SocketAddr) -> bool {
        let address = bits(to.ip());
        self.0.iter().find(|rule| rule.fits(address, to.port())).is_some_and(|rule| rule.takes)
    }

    /// Whether `to` is selected by a rule for its address alone, or for one of the networks that wider ones do not
    /// include.
    #[must_use]
    pub fn names(&self, to: SocketAddr) -> bool {
        let address = bits(to.ip());
        let is_narrow =
            |rule: &Rule| rule.prefix == 128 || SPECIAL.iter().any(|special| rule.is_within(*special));
        let decides = self.0.iter().find(|rule| rule.fits(address, to.port()));
        decides.is_some_and(|rule| rule.takes && is_narrow(rule))
    }

    pub(crate) fn all(&self) -> &[Rule] {
        &self.0
    }
}

const fn mask(prefix: u8) -> u128 {
    match prefix {
        0 => 0,
        _ => u128::MAX << (128 - prefix),
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The network and the ports, if there are any.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (network, rest) = rest.split_once(']')?;
        // Brackets are for addresses that have colons themselves.
        return network
            .contains(':')
            .then_some((network, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) }));
    }
    match text.split_once(':') {
        None => Some((text, None)),
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((network, ports)) => Some((network, Some(ports))),
    }
}

fn parse_ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number::<u16>(first)?, number::<u16>(last)?);
    (1 <= first && first <= last).then_some(first..=last)
}

/// Only digits: no sign.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn takes(rules: &[&str], to: &str) -> bool {
        Rules::parse(rules).unwrap().takes(to.parse().unwrap())
    }

    #[test]
    fn a_destination_is_meant_by_its_network_and_its_port() {
        assert!(takes(&["192.0.2.0/24"], "192.0.2.77:1"));
        assert!(!takes(&["192.0.2.0/24"], "192.0.3.77:1"));
        assert!(takes(&["192.0.2.1:443"], "192.0.2.1:443"));
        assert!(!takes(&["192.0.2.1:443"], "192.0.2.1:80"));
        assert!(takes(&["any:8000-8999"], "[2001:db8::1]:8999"));
        assert!(!takes(&["any:8000-8999"], "[2001:db8::1]:9000"));
        assert!(takes(&["[2001:db8::/32]:443"], "[2001:db8:1::1]:443"));
        assert!(takes(&["2001:db8::1"], "[2001:db8::1]:22"));
        assert!(takes(&["198.51.100.1", "any:22"], "203.0.113.5:22"));
        assert!(!takes(&[], "203.0.113.5:22"));
    }

    #[test]
    fn a_mapped_address_is_the_address_of_ipv4() {
        assert!(takes(&["192.0.2.0/24"], "[::ffff:192.0.2.1]:80"));
        assert!(!takes(&["any"], "[::ffff:127.0.0.1]:80"));
    }

    #[test]
    fn this_host_and_its_neighbours_are_only_meant_where_they_are_named() {
        for to in [
            "127.0.0.1:80",
            "[::1]:80",
            "169.254.169.254:80",
            "[fe80::1]:80",
            "0.0.0.0:80",
            "[::]:80",
            "224.0.0.1:80",
            "[ff02::1]:80",
        ] {
            assert!(!takes(&["any"], to), "{to}");
            assert!(!takes(&["0.0.0.0/0", "::/0"], to), "{to}");
        }
        assert!(takes(&["127.0.0.1:80"], "127.0.0.1:80"));
        assert!(!takes(&["127.0.0.1:80", "any"], "127.0.0.1:81"));
        assert!(takes(&["169.254.0.0/16"], "169.254.169.254:80"));
        assert!(takes(&["any"], "192.0.2.1:80") && takes(&["any"], "[2001:db8::1]:80"));
    }

    #[test]
    fn a_destination_is_named_by_its_own_address() {
        let names = |rules: &[&str], to: &str| Rules::parse(rules).unwrap().names(to.parse().unwrap());
        assert!(names(&["192.0.2.1"], "192.0.2.1:80") && names(&["192.0.2.1:80"], "192.0.2.1:80"));
        assert!(names(&["192.0.2.1"], "[::ffff:192.0.2.1]:80"));
        assert!(names(&["127.0.0.0/8"], "127.0.0.1:80"));
        assert!(!names(&["any"], "192.0.2.1:80") && !names(&["192.0.2.0/31"], "192.0.2.1:80"));
        assert!(!names(&["192.0.2.1:81"], "192.0.2.1:80") && !names(&["any"], "127.0.0.1:80"));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "all",
            "192.0.2.0/33",
            "192.0.2.1:",
            "192.0.2.1:0",
            "192.0.2.1:9-8",
            "192.0.2.1:65536",
            "any:+1",
            "[192.0.2.1]:80",
            "[2001:db8::1",
            "[2001:db8::1]80",
            "2001:db8::/129",
            "192.0.2.0/+8",
            "192.0.2.0/",
            "host.example:80",
            "fe80::1%eth0",
        ] {
            assert_eq!(Rules::parse(&[text]), Err(RuleError::Malformed(text.to_owned())), "{text}");
        }
        let found = Rules::parse(&["192.0.2.1/24"]).unwrap_err();
        assert!(found.to_string().ends_with("it would be 192.0.2.0/24"), "{found}");
        let found = Rules::parse(&["2001:db8::1/32"]).unwrap_err();
        assert!(found.to_string().ends_with("it would be 2001:db8::/32"), "{found}");
        assert_eq!(Rules::parse(&["any"; 17]), Err(RuleError::Many(17)));
    }

    #[test]
    fn networks_of_this_host_are_only_meant_where_they_are_named() {
        let local = [("10.0.1.7", 24), ("2001:db8:1::7", 64), ("10.9.9.9", 32)]
            .map(|(address, length)| (address.parse().unwrap(), length));
        let takes =
            |only: &[&str], to: &str| Rules::select(only, &[], &local).unwrap().takes(to.parse().unwrap());
        for near in
            ["10.0.1.7:80", "10.0.1.200:443", "[2001:db8:1::1]:1", "10.9.9.9:1", "[::ffff:10.0.1.1]:80"]
        {
            assert!(!takes(&["any"], near) && !takes(&["10.0.0.0/8", "2001:db8::/32"], near), "{near}");
        }
        for far in ["10.0.2.7:80", "[2001:db8:2::1]:1", "10.9.9.8:1"] {
            assert!(takes(&["any"], far), "{far}");
        }
        assert!(takes(&["any", "10.0.1.200:443"], "10.0.1.200:443"));
        assert!(takes(&["10.0.1.0/24"], "10.0.1.200:443"));
        assert!(!takes(&["any", "10.0.1.200:443"], "10.0.1.200:80"));
    }

    #[test]
    fn what_is_excepted_is_never_meant() {
        let takes = |except: &[&str], to: &str| {
            let only = ["any", "198.51.100.7", "127.0.0.1:7"];
            Rules::select(&only, except, &[]).unwrap().takes(to.parse().unwrap())
        };
        for (except, to) in [
            ("198.51.100.0/24", "198.51.100.7:80"),
            ("any:22", "192.0.2.1:22"),
            ("127.0.0.1", "127.0.0.1:7"),
            ("[2001:db8::/32]:1-9", "[2001:db8::5]:9"),
        ] {
            assert!(takes(&[], to) && !takes(&[except], to), "{except} {to}");
        }
        assert!(takes(&["198.51.100.0/24:443", "any:22"], "198.51.100.7:80"));
        assert_eq!(Rules::select(&["any"; 1], &["any"; 17], &[]), Err(RuleError::Many(17)));
    }

    proptest! {
        #[test]
        fn parsing_ends_whatever_the_text(text in ".{0,40}") {
            let _ = Rules::parse(&[text]);
        }

        #[test]
        fn a_network_means_its_addresses_and_no_others(
            address: u32, length in 0_u8..=32, other: u32, port in 1..=u16::MAX,
        ) {
            let mask = if length == 0 { 0 } else { u32::MAX << (32 - length) };
            let network = Ipv4Addr::from_bits(address & mask);
            let rules = Rules::parse(&[format!("{network}/{length}")]).unwrap();
            let to = SocketAddr::new(Ipv4Addr::from_bits(other).into(), port);
            if rules.takes(to) {
                prop_assert_eq!(other & mask, address & mask);
            } else if other & mask == address & mask {
                let special = |rule: &(u128, u8)| v4(other.to_be_bytes()) & super::mask(rule.1) == rule.0;
                prop_assert!(SPECIAL.iter().any(special));
            }
        }
    }
}
