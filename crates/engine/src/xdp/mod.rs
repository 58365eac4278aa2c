//! The XDP back end: loads `bpf/*.bpf.c` and drives them.

mod generator;
mod load;
mod media;
mod receiver;
mod witness;

pub use generator::{Brake, Generator, attach_aside};
pub use load::{Object, XdpError};
pub use receiver::{Receiver, log_room, possible_cpus};
pub use witness::Witness;
