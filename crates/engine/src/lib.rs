//! Sends test traffic through a device and counts what comes out.
//!
//! One [`Plan`] can be played by three back ends, which all answer with an [`Outcome`] of
//! the same shape: XDP live frames ([`Engine`]), AF_PACKET sockets where XDP cannot run
//! (the same [`Engine`], chosen automatically), and a simulated device ([`simulate`]).

mod account;
pub mod emulator;
pub mod endpoints;
mod engine;
pub mod esp_cost;
mod frames;
pub mod gateway;
mod histogram;
mod layout;
mod mapped;
mod noise;
mod outcome;
mod packet;
mod partition;
mod plan;
mod priority;
pub mod record;
mod schedule;
mod sim;
pub mod tap;
mod thread;
mod window;
mod xdp;

pub use engine::{BackendChoice, Caller, Endpoint, Engine, EngineError, Options};
pub use frames::{Frames, frames};
pub use histogram::{BUCKETS, bounds_ns, bucket};
pub use layout::{Look, TaskTime, WATCHED};
pub use noise::{Gap, Heard, Way, listen};
pub use outcome::{Answers, Backend, Bin, FlowOutcome, Outcome, PacketLog, Windows};
pub use packet::port::PortError;
pub use plan::{
    Answering, Entry, Impairment, Macs, Media, MediaFlow, NEXT_FLOW, NO_PAYLOAD, NewFlows, Packet, Phase,
    Plan, PlanError, Side,
};
pub use sim::{Device, DeviceError, FlowPath, Noise, simulate};
pub use thread::handover_ns;
