//! The XDP back end: loads `bpf/*.bpf.c` and drives them.

mod generator;
mod load;
mod receiver;

pub use generator::{Generator, Window};
pub use load::XdpError;
pub use receiver::Receiver;
