//! Associations that follow one another while packets pass: another SPI, other keys (RFC 4301, 4.4.2.1).
//!
//! There is no negotiation. Both ends know a secret from which every association but the first one is derived, as
//! IKE derives those of its children. The sender decides when to change over. The receiver has the next
//! associations ready and follows with the first packet that one of them lets through. It keeps the association
//! before, so that no packet in transit is lost, not even one that another has overtaken.

mod inbound;
mod keys;
mod outbound;

pub use inbound::RekeyingInbound;
pub use keys::SECRET_LEN;
pub use outbound::RekeyingOutbound;
