//! Packets that may contain IP and are not decoded.

/// Why a packet is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Opaque {
    /// The MPLS labels are followed by something other than IP, such as the frames of a pseudowire (RFC 3985),
    /// whose kind the labels do not show.
    Mpls,
    /// Encrypted frames (IEEE 802.1AE).
    Macsec,
    /// Frames in frames (IEEE 802.1ah).
    Backbone,
    /// PPP that is compressed, encrypted or spread over links.
    Ppp,
    /// Frames of a wireless LAN that are encrypted, in parts, or several in one.
    Wireless,
    /// A tunnel with something inside that is neither IP nor Ethernet nor MPLS, or GRE with source routes.
    Tunnel,
    /// More tunnels in tunnels than any network has.
    Deep,
    /// A fax (UDPTL, ITU-T T.38) where a session description announced one.
    Fax,
}

impl Opaque {
    /// Name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mpls => "mpls",
            Self::Macsec => "macsec",
            Self::Backbone => "backbone",
            Self::Ppp => "ppp",
            Self::Wireless => "wireless",
            Self::Tunnel => "tunnel",
            Self::Deep => "deep",
            Self::Fax => "fax",
        }
    }
}
