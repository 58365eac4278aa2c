//! ESP (RFC 4303), sans I/O: IP packets are encapsulated and decapsulated in place in buffers of the caller,
//! without allocating. There is no clock, no socket, no key exchange and no policy in here.
//!
//! ```
//! use weir_esp::{Association, Inbound, Mode, Outbound, Suite, DEFAULT_WINDOW};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let association = Association {
//!     spi: 0x1000,
//!     suite: Suite::AesGcm,
//!     encryption_key: &[7; 16 + 4],
//!     authentication_key: &[],
//!     mode: Mode::Tunnel { source: "192.0.2.1".parse()?, destination: "192.0.2.2".parse()? },
//!     udp: None,
//!     esn: false,
//! };
//! let mut sender = Outbound::new(&association, &[0; 16])?;
//! let mut receiver = Inbound::new(&association, DEFAULT_WINDOW)?;
//!
//! // An IPv4 header with nothing behind it, and room around it.
//! let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
//! let mut buffer = vec![0; sender.headroom() + packet.len() + sender.tailroom()];
//! let there = sender.headroom()..sender.headroom() + packet.len();
//! buffer[there.clone()].copy_from_slice(&packet);
//!
//! let sent = sender.encapsulate(&mut buffer, there)?;
//! let received = &mut buffer[sent];
//! let inside = receiver.decapsulate(received)?;
//! assert_eq!(received[inside], packet);
//! # Ok(())
//! # }
//! ```

mod association;
mod error;
mod inbound;
mod ip;
mod ivs;
mod outbound;
mod rekey;
mod replay;
mod suite;
#[cfg(test)]
mod tests;
mod transform;

pub use association::{Association, Mode, UdpPorts};
pub use error::{AssociationError, DecapsulateError, EncapsulateError};
pub use inbound::{Counts, DEFAULT_WINDOW, Inbound, spi_of};
pub use outbound::{Outbound, Slot};
pub use rekey::{RekeyingInbound, RekeyingOutbound, SECRET_LEN};
pub use replay::{MAX_WINDOW, Refusal, Window};
pub use suite::Suite;
