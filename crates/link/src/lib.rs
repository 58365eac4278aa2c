//! An emulated link: what happens to a frame between one end and the other, and when it leaves.
//!
//! A [`Path`] is one direction; a link is two of them that share nothing. There is no clock and no socket
//! here: every call is given the time in ns, on any clock that does not go back, and a frame is a `T`.
//!
//! # What happens to a frame, in this order
//!
//! 1. **Arrival.** Frames are numbered as they arrive, from 1. The frame's fate is drawn: whether it will be
//!    lost, duplicated or held back ([`Selection`]). Each draws from a random sequence of its own, so that
//!    duplicates do not change which frames are lost.
//! 2. **Queue** ([`Queue`]). It holds what waits for the transmitter; the frame in transmission is not in it. A
//!    frame for which there is no room is dropped (tail drop), as are those that RED drops on arrival and CoDel
//!    when they come to the head. Without a rate or a trace there is no queue: nothing ever waits.
//! 3. **Rate** ([`Rate`]). Frames are transmitted one after the other. At a constant rate a frame takes
//!    `8 × (bytes + overhead) / rate`, fractions of a ns carried over, so that a backlogged path carries exactly
//!    its rate. `bytes` are those of the frame without FCS, as packet sockets and `tc` count them. By a trace
//!    ([`Trace`]) frames leave at its delivery opportunities, counted as Mahimahi counts them.
//! 4. **Loss.** A frame that is to be lost is lost after the transmitter, like one damaged on the way: it
//!    took its place in the queue and its time on the wire.
//! 5. **Delay.** A constant, with [`Jitter`] around it if asked for. Jitter keeps the order of frames unless it
//!    is told not to: a frame that would overtake another leaves right after it.
//! 6. **Reordering and duplication.** A frame that is held back ([`Reorder`]) leaves later by a given time, and
//!    others pass it meanwhile. A duplicate is created after the transmitter, costs no rate, and has its
//!    own delay.
//!
//! Events take place at their own times, however late they are requested: a delayed caller gets the same
//! frames, due at the same times, as long as it hands over the frames in the order of their arrival.

mod codel;
mod counters;
mod delay;
mod device;
mod line;
mod path;
mod pattern;
mod queue;
mod red;
mod seeds;
mod selection;
mod spec;
mod trace;
mod transmitter;

pub use counters::Counters;
pub use device::{Admission, Behaviour, BehaviourError, DeviceQueue, MeasuredDevice};
pub use path::{Departure, Pace, Path};
pub use pattern::{Pattern, PatternError};
pub use selection::{GilbertElliott, Selection};
pub use spec::{
    CoDel, Discipline, Distribution, Jitter, LONGEST_NS, Limit, PathSpec, Queue, Rate, Red, Reorder,
    SpecError,
};
pub use trace::{OPPORTUNITY_BYTES, Trace, TraceError};
