//! What a file says about the interfaces of the capture.

use super::LinkType;

/// An interface of a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Section of the file, from 0.
    pub section: u32,
    /// Number within its section.
    pub id: u32,
    /// Name, as in `ip link`; empty if the file has none, cut after 255 bytes.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Filter that was in force.
    pub filter: String,
    /// Link type of its packets.
    pub link: LinkType,
    /// Bytes that were kept of each packet; 0: no limit.
    pub snap_bytes: u32,
    /// Packets read until now.
    pub packets: u64,
    /// Packets lost according to the packets themselves (`epb_dropcount`).
    pub lost_between: u64,
    /// The last statistics of this interface.
    pub statistics: Statistics,
}

/// Counters of an interface (pcapng's Interface Statistics Block); `None` if the file does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that the interface received (`isb_ifrecv`).
    pub received: Option<u64>,
    /// Packets that the interface dropped for lack of resources (`isb_ifdrop`).
    pub dropped: Option<u64>,
    /// Packets that the filter let through (`isb_filteraccept`).
    pub accepted: Option<u64>,
    /// Packets that the operating system dropped (`isb_osdrop`).
    pub dropped_by_system: Option<u64>,
    /// Packets that were handed over (`isb_usrdeliv`).
    pub delivered: Option<u64>,
}

impl Interface {
    /// Packets that the capture misses: by the statistics if there are any, otherwise by the packets themselves.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let Statistics { dropped, dropped_by_system, .. } = self.statistics;
        match (dropped, dropped_by_system) {
            (None, None) => self.lost_between,
            (dropped, system) => dropped.unwrap_or(0).saturating_add(system.unwrap_or(0)),
        }
    }
}

/// Longest text that is kept of an option.
const MAX_TEXT_BYTES: usize = 255;

/// The text of an option; invalid UTF-8 is replaced.
pub fn text(value: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&value[..value.len().min(MAX_TEXT_BYTES)]).into_owned();
    text.truncate(text.find('\0').unwrap_or(text.len()));
    text
}
