//! `libweirpsock`: parallel sockets for C, by the BSD socket calls with a `p` in front.
//!
//! `docs/psock-c.md` explains them. The header `include/psock.h` is generated from this crate.
//!
//! - [`calls`]: the functions that C sees.
//! - [`options`]: `setpsockopt` and `getpsockopt`.
//! - [`descriptor`], [`table`]: what is behind a descriptor, and which descriptors exist.
//! - [`setup`]: what can be set before there is a session.
//! - [`failure`]: errors as `errno`; no panic crosses into C.
//! - [`address`], [`message`]: `struct sockaddr`, `struct msghdr`.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

pub mod address;
pub mod calls;
pub mod descriptor;
pub mod failure;
pub mod message;
pub mod options;
pub mod setup;
pub mod table;
