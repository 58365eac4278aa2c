//! `setpsockopt` and `getpsockopt`.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use libc::{c_int, socklen_t};
use weir_psock::io::{LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES};
use weir_psock::schedule::SCHEDULERS;
use weir_psock::wire::{MOST_BLOCK_BYTES, MOST_STREAMS};
use weir_tcp::option::Setting;

use crate::address;
use crate::calls::IPPROTO_PSOCK;
use crate::descriptor::Descriptor;
use crate::failure::{Failure, Outcome};
use crate::setup::{Linger, Setup};

/// Level of the options below.
pub const SOL_PSOCK: c_int = 0x7073;

/// `int`: streams that a client makes, over all paths in turn; 0: two over each path.
pub const PSOCK_RCMD_STREAM_CNT: c_int = 1;
/// `int`: most streams of a session, 1 to 64. A client makes no more, a server accepts no more.
pub const PSOCK_MAX_STREAM_CNT: c_int = 2;
/// `struct sockaddr`: another local address, to connect from or to listen on; after `pbind`, in any number. A server
/// may add one after `plisten`.
pub const PSOCK_ADD_LOCAL_ADDR: c_int = 3;
/// `struct sockaddr`: another address of the server, with its port; in any number.
pub const PSOCK_ADD_REMOTE_ADDR: c_int = 4;
/// `struct pstream_int`, or `int` for all streams: `SO_SNDBUF` of a stream.
pub const PSOCK_SNDBUF: c_int = 5;
/// `struct pstream_int`, or `int` for all streams: `SO_RCVBUF` of a stream.
pub const PSOCK_RCVBUF: c_int = 6;
/// Bytes: the secret that both ends know. A server that others can reach needs one.
pub const PSOCK_TOKEN: c_int = 7;
/// Text: "earliest", "poll-all", "round-robin", "ecf", "blest" or "redundant".
pub const PSOCK_SCHEDULER: c_int = 8;
/// `int`: largest block in bytes, up to 65536.
pub const PSOCK_BLOCK_BYTES: c_int = 9;
/// `int`: buffer of each direction in bytes.
pub const PSOCK_MEMORY_BYTES: c_int = 10;
/// `int`: most unsent bytes of a stream; 0: the system's limit.
pub const PSOCK_UNSENT_BYTES: c_int = 11;
/// `int`: milliseconds without a stream that works after which the session fails.
pub const PSOCK_LOST_MS: c_int = 12;
/// `int`: 1: the streams together take no more of a shared bottleneck than one TCP connection.
pub const PSOCK_FAIR: c_int = 13;
/// `int`: 1: plain TCP where the server speaks no psock. Not with a token.
pub const PSOCK_FALLBACK: c_int = 14;
/// `int`, only read: streams that there are now.
pub const PSOCK_STREAM_CNT: c_int = 15;
/// Text, only read: what went wrong in the last call with this descriptor that failed.
pub const PSOCK_ERROR_TEXT: c_int = 16;
/// `int`, only read: 1 where plain TCP is used.
pub const PSOCK_IS_PLAIN: c_int = 17;

/// Stands for every stream in `struct pstream_int`.
pub const PSOCK_ALL_STREAMS: c_int = -1;

/// An option of one stream.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "C's name")]
pub struct pstream_int {
    /// The stream's number, from 0 in the order in which streams were made, or `PSOCK_ALL_STREAMS`.
    pub index: c_int,
    /// The option's value.
    pub value: c_int,
}

fn failed<T>(errno: c_int) -> Outcome<T> {
    Err(Failure::new(errno))
}

fn number(value: &[u8]) -> Outcome<c_int> {
    let bytes = value.first_chunk().ok_or_else(|| Failure::new(libc::EINVAL))?;
    Ok(c_int::from_ne_bytes(*bytes))
}

fn within(value: &[u8], least: usize, most: usize) -> Outcome<usize> {
    let found = usize::try_from(number(value)?).unwrap_or(usize::MAX);
    if (least..=most).contains(&found) { Ok(found) } else { failed(libc::EINVAL) }
}

fn flag(value: &[u8]) -> Outcome<bool> {
    number(value).map(|found| found != 0)
}

fn text(value: &[u8]) -> Outcome<&str> {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    str::from_utf8(&value[..end]).map_err(|_| Failure::new(libc::EINVAL))
}

/// Reads a value of C's that is plain numbers.
fn plain<T: Copy>(value: &[u8]) -> Outcome<T> {
    if value.len() < size_of::<T>() {
        return failed(libc::EINVAL);
    }
    // SAFETY: as many bytes are there, and every pattern of bits is a value of the types that are read here.
    Ok(unsafe { value.as_ptr().cast::<T>().read_unaligned() })
}

/// Sets an option.
///
/// # Errors
/// `ENOPROTOOPT`: unknown. `EINVAL`: another value, or too late.
pub fn set(descriptor: &Descriptor, level: c_int, name: c_int, value: &[u8]) -> Outcome<()> {
    match (level, name) {
        (SOL_PSOCK, PSOCK_SNDBUF) => set_buffer(descriptor, libc::SO_SNDBUF, value),
        (SOL_PSOCK, PSOCK_RCVBUF) => set_buffer(descriptor, libc::SO_RCVBUF, value),
        (SOL_PSOCK, PSOCK_ADD_LOCAL_ADDR) if descriptor.is_listening() => {
            descriptor.listen_also(read_address(value)?)
        }
        (SOL_PSOCK, _) => descriptor.set(|setup| set_own(setup, name, value)),
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => {
            let limit = time(value)?;
            descriptor.set_anytime(|setup| setup.receive_timeout = limit);
            Ok(())
        }
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => {
            let limit = time(value)?;
            descriptor.set_anytime(|setup| setup.send_timeout = limit);
            Ok(())
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let libc::linger { l_onoff, l_linger } = plain(value)?;
            let seconds = u64::try_from(l_linger).map_err(|_| Failure::new(libc::EINVAL))?;
            let linger =
                if l_onoff == 0 { Linger::Always } else { Linger::For(Duration::from_secs(seconds)) };
            descriptor.set_anytime(|setup| setup.linger = linger);
            Ok(())
        }
        (libc::SOL_SOCKET, libc::SO_ERROR | libc::SO_TYPE | libc::SO_DOMAIN | libc::SO_PROTOCOL) => {
            failed(libc::ENOPROTOOPT)
        }
        (libc::SOL_SOCKET | libc::IPPROTO_TCP | libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => {
            let setting = if (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
                Setting::new("TCP_CONGESTION", text(value)?)?
            } else {
                Setting::new(&format!("{level}:{name}"), &number(value)?.to_string())?
            };
            set_streams(descriptor, PSOCK_ALL_STREAMS, setting)
        }
        _ => failed(libc::ENOPROTOOPT),
    }
}

fn set_own(setup: &mut Setup, name: c_int, value: &[u8]) -> Outcome<()> {
    let options = &mut setup.options;
    match name {
        PSOCK_RCMD_STREAM_CNT => setup.streams = within(value, 0, MOST_STREAMS)?,
        PSOCK_MAX_STREAM_CNT => options.most_streams = within(value, 1, MOST_STREAMS)?,
        PSOCK_ADD_LOCAL_ADDR | PSOCK_ADD_REMOTE_ADDR => {
            let is_local = name == PSOCK_ADD_LOCAL_ADDR;
            let list = if is_local { &mut setup.local } else { &mut setup.remote };
            if list.len() >= MOST_STREAMS {
                return failed(libc::ENOBUFS);
            }
            let added = read_address(value)?;
            if !is_local && added.port() == 0 {
                return failed(libc::EINVAL);
            }
            list.push(added);
        }
        PSOCK_TOKEN => options.token = value.to_vec(),
        PSOCK_SCHEDULER => {
            let found = text(value)?;
            if !SCHEDULERS.contains(&found) {
                return failed(libc::EINVAL);
            }
            options.scheduler = found.to_owned();
        }
        PSOCK_BLOCK_BYTES => options.config.block_bytes = within(value, 1, MOST_BLOCK_BYTES as usize)? as u32,
        PSOCK_MEMORY_BYTES => {
            let bytes = within(value, LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES)?;
            options.config.receive_bytes = bytes;
            options.config.send_bytes = bytes;
        }
        PSOCK_UNSENT_BYTES => options.unsent_bytes = within(value, 0, i32::MAX as usize)? as u32,
        PSOCK_LOST_MS => {
            options.config.timing.lost_ns = within(value, 1, i32::MAX as usize)? as u64 * 1_000_000
        }
        PSOCK_FAIR => options.config.is_fair = flag(value)?,
        PSOCK_FALLBACK => options.is_fallback = flag(value)?,
        _ => return failed(libc::ENOPROTOOPT),
    }
    Ok(())
}

fn read_address(value: &[u8]) -> Outcome<SocketAddr> {
    // SAFETY: the value has the length given.
    unsafe { address::read(value.as_ptr().cast(), value.len() as socklen_t) }
}

/// Sets what an option is for the sockets that are made from now on.
///
/// # Errors
/// `ENOPROTOOPT`: unknown, or an address, which belongs to one socket. `EINVAL`: another value.
pub fn set_default(name: c_int, value: &[u8]) -> Outcome<()> {
    Setup::change_defaults(|setup| match name {
        PSOCK_ADD_LOCAL_ADDR | PSOCK_ADD_REMOTE_ADDR => failed(libc::ENOPROTOOPT),
        PSOCK_SNDBUF => setup.set_for_streams(buffer(libc::SO_SNDBUF, number(value)?)?),
        PSOCK_RCVBUF => setup.set_for_streams(buffer(libc::SO_RCVBUF, number(value)?)?),
        _ => set_own(setup, name, value),
    })
}

fn buffer(name: c_int, bytes: c_int) -> Outcome<Setting> {
    Ok(Setting::new(&format!("{}:{name}", libc::SOL_SOCKET), &bytes.to_string())?)
}

fn set_buffer(descriptor: &Descriptor, name: c_int, value: &[u8]) -> Outcome<()> {
    let wanted = match plain(value) {
        Ok(wanted) => wanted,
        Err(_) => pstream_int { index: PSOCK_ALL_STREAMS, value: number(value)? },
    };
    set_streams(descriptor, wanted.index, buffer(name, wanted.value)?)
}

/// Sets an option of a stream, or of every one: of those that will be made before there is a session, of those that
/// there are afterwards.
fn set_streams(descriptor: &Descriptor, stream: c_int, setting: Setting) -> Outcome<()> {
    let Ok(socket) = descriptor.look() else {
        if stream != PSOCK_ALL_STREAMS {
            return failed(libc::ENOTCONN);
        }
        return descriptor.set(|setup| setup.set_for_streams(setting));
    };
    let streams = socket.report().streams.len();
    let chosen = match usize::try_from(stream) {
        Ok(stream) if stream < streams => stream..stream + 1,
        Err(_) if stream == PSOCK_ALL_STREAMS => 0..streams,
        _ => return failed(libc::EINVAL),
    };
    for connection in chosen.filter_map(|stream| socket.connection(stream)) {
        setting.set(&*connection)?;
    }
    Ok(())
}

/// A `struct timeval`, of which 0 means without end (socket(7)).
fn time(value: &[u8]) -> Outcome<Option<Duration>> {
    let libc::timeval { tv_sec, tv_usec } = plain(value)?;
    let (Ok(seconds), Ok(micros @ 0..1_000_000)) = (u64::try_from(tv_sec), u32::try_from(tv_usec)) else {
        return failed(libc::EDOM);
    };
    Ok(Some(Duration::new(seconds, 1000 * micros)).filter(|limit| !limit.is_zero()))
}

/// Reads an option; `given` is what is in the place for it, of which the caller takes as much as it has room for.
///
/// # Errors
/// `ENOPROTOOPT`: unknown. `ENOTCONN`: there is no such stream.
pub fn get(descriptor: &Arc<Descriptor>, level: c_int, name: c_int, given: &[u8]) -> Outcome<Vec<u8>> {
    let int = |found: usize| Ok(c_int::try_from(found).unwrap_or(c_int::MAX).to_ne_bytes().to_vec());
    let setup = descriptor.setup();
    let options = &setup.options;
    match (level, name) {
        (SOL_PSOCK, PSOCK_RCMD_STREAM_CNT) => int(setup.streams),
        (SOL_PSOCK, PSOCK_MAX_STREAM_CNT) => int(options.most_streams),
        (SOL_PSOCK, PSOCK_SNDBUF) => get_buffer(descriptor, libc::SO_SNDBUF, given),
        (SOL_PSOCK, PSOCK_RCVBUF) => get_buffer(descriptor, libc::SO_RCVBUF, given),
        (SOL_PSOCK, PSOCK_SCHEDULER) => Ok([options.scheduler.as_bytes(), &[0]].concat()),
        (SOL_PSOCK, PSOCK_BLOCK_BYTES) => int(options.config.block_bytes as usize),
        (SOL_PSOCK, PSOCK_MEMORY_BYTES) => int(options.config.receive_bytes),
        (SOL_PSOCK, PSOCK_UNSENT_BYTES) => int(options.unsent_bytes as usize),
        (SOL_PSOCK, PSOCK_LOST_MS) => int((options.config.timing.lost_ns / 1_000_000) as usize),
        (SOL_PSOCK, PSOCK_FAIR) => int(options.config.is_fair.into()),
        (SOL_PSOCK, PSOCK_FALLBACK) => int(options.is_fallback.into()),
        (SOL_PSOCK, PSOCK_STREAM_CNT) => {
            let socket = descriptor.look()?;
            int(socket.report().streams.iter().filter(|stream| stream.ended.is_empty()).count())
        }
        (SOL_PSOCK, PSOCK_IS_PLAIN) => int(descriptor.look()?.report().is_plain.into()),
        (SOL_PSOCK, PSOCK_ERROR_TEXT) => Ok([descriptor.text().as_bytes(), &[0]].concat()),
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            let found = descriptor.take_error();
            if let Some(failure) = &found {
                descriptor.note(failure);
            }
            Ok(found.map_or(0, |failure| failure.errno).to_ne_bytes().to_vec())
        }
        (libc::SOL_SOCKET, libc::SO_TYPE) => Ok(libc::SOCK_STREAM.to_ne_bytes().to_vec()),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Ok(setup.domain.to_ne_bytes().to_vec()),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Ok(IPPROTO_PSOCK.to_ne_bytes().to_vec()),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => int(descriptor.is_listening().into()),
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => Ok(time_bytes(setup.receive_timeout)),
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let (is_on, seconds): (c_int, c_int) = match setup.linger {
                Linger::Always => (0, 0),
                Linger::For(limit) => (1, limit.as_secs().try_into().unwrap_or(c_int::MAX)),
            };
            // `struct linger` is these two numbers.
            Ok([is_on.to_ne_bytes(), seconds.to_ne_bytes()].concat())
        }
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => Ok(time_bytes(setup.send_timeout)),
        (libc::SOL_SOCKET | libc::IPPROTO_TCP | libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => {
            of_stream(descriptor, 0, level, name, given.len())
        }
        _ => failed(libc::ENOPROTOOPT),
    }
}

fn time_bytes(limit: Option<Duration>) -> Vec<u8> {
    let limit = limit.unwrap_or_default();
    // `struct timeval` is these two numbers.
    let (seconds, micros) = (limit.as_secs() as libc::time_t, libc::suseconds_t::from(limit.subsec_micros()));
    [seconds.to_ne_bytes(), micros.to_ne_bytes()].concat()
}

/// The value of a stream, whose number is in the place for it; the first one's where that holds an `int` alone.
fn get_buffer(descriptor: &Descriptor, name: c_int, given: &[u8]) -> Outcome<Vec<u8>> {
    let asked: Option<pstream_int> = plain(given).ok();
    let stream = asked.map_or(0, |asked| asked.index.max(0));
    let value = of_stream(descriptor, stream, libc::SOL_SOCKET, name, size_of::<c_int>())?;
    Ok(if asked.is_some() { [&stream.to_ne_bytes()[..], &value].concat() } else { value })
}

/// What the kernel says of a stream.
fn of_stream(
    descriptor: &Descriptor,
    stream: c_int,
    level: c_int,
    name: c_int,
    room: usize,
) -> Outcome<Vec<u8>> {
    let socket = descriptor.look().map_err(|_| Failure::new(libc::ENOTCONN))?;
    let connection = usize::try_from(stream).ok().and_then(|stream| socket.connection(stream));
    let connection = connection.ok_or_else(|| Failure::new(libc::EINVAL))?;
    let mut value = vec![0; room];
    let mut len = room as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes.
    let asked = unsafe {
        libc::getsockopt(connection.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len)
    };
    if asked != 0 {
        return Err(Failure::last());
    }
    value.truncate(len as usize);
    Ok(value)
}
