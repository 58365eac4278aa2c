//! What the kernel knows about a stream's connection.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use weir_tcp::Info;
use weir_tcp::fields::{Field, field};

use crate::schedule::PathStats;

/// Queries the kernel; `None` if it does not answer.
pub fn observe(stream: &TcpStream) -> Option<PathStats> {
    let info = Info::of(stream).ok()?;
    let known = Known::get();
    let unsent_bytes = read(&info, known.notsent_bytes);
    let mss_bytes = read(&info, known.snd_mss_bytes);
    Some(PathStats {
        srtt_ns: 1000 * read(&info, known.rtt_us),
        least_rtt_ns: 1000 * read(&info, known.min_rtt_us),
        rttvar_ns: 1000 * read(&info, known.rttvar_us),
        cwnd_bytes: mss_bytes * read(&info, known.snd_cwnd),
        ssthresh_bytes: mss_bytes * read(&info, known.snd_ssthresh),
        mss_bytes,
        unacked_bytes: unacked(stream).unwrap_or(unsent_bytes),
        sacked_bytes: mss_bytes * read(&info, known.sacked),
        unsent_bytes,
        rate_bytes_per_s: read(&info, known.delivery_rate),
        is_rate_limited: read(&info, known.app_limited) != 0,
        acked_bytes: read(&info, known.bytes_acked),
        retransmitted_segments: read(&info, known.total_retrans),
    })
}

/// The fields of `struct tcp_info` that are used here.
struct Known {
    rtt_us: Option<&'static Field>,
    min_rtt_us: Option<&'static Field>,
    rttvar_us: Option<&'static Field>,
    snd_cwnd: Option<&'static Field>,
    snd_ssthresh: Option<&'static Field>,
    snd_mss_bytes: Option<&'static Field>,
    sacked: Option<&'static Field>,
    notsent_bytes: Option<&'static Field>,
    delivery_rate: Option<&'static Field>,
    app_limited: Option<&'static Field>,
    bytes_acked: Option<&'static Field>,
    total_retrans: Option<&'static Field>,
}

impl Known {
    fn get() -> &'static Self {
        static KNOWN: OnceLock<Known> = OnceLock::new();
        KNOWN.get_or_init(|| Self {
            rtt_us: field("rtt_us"),
            min_rtt_us: field("min_rtt_us"),
            rttvar_us: field("rttvar_us"),
            snd_cwnd: field("snd_cwnd"),
            snd_ssthresh: field("snd_ssthresh"),
            snd_mss_bytes: field("snd_mss_bytes"),
            sacked: field("sacked"),
            notsent_bytes: field("notsent_bytes"),
            delivery_rate: field("delivery_rate_bytes_per_s"),
            app_limited: field("delivery_rate_app_limited"),
            bytes_acked: field("bytes_acked"),
            total_retrans: field("total_retrans"),
        })
    }
}

fn read(info: &Info, field: Option<&Field>) -> u64 {
    field.and_then(|field| info.get(field)).unwrap_or_default()
}

/// Bytes that were written and not acknowledged (tcp(7)).
pub fn unacked(stream: &TcpStream) -> Option<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one `int`.
    let failed = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if failed == 0 { u64::try_from(bytes).ok() } else { None }
}

/// `asm-generic/socket.h`.
const SO_MAX_PACING_RATE: libc::c_int = 47;

/// Whether a rate has changed enough to tell the kernel: by more than 1/32.
pub fn is_another_rate(told: Option<u64>, wanted: Option<u64>) -> bool {
    match (told, wanted) {
        (Some(told), Some(wanted)) => told.abs_diff(wanted) > told / 32,
        (told, wanted) => told != wanted,
    }
}

/// Limits the rate at which TCP sends; `None`: no limit.
pub fn pace(stream: &TcpStream, bytes_per_s: Option<u64>) {
    // All ones are no limit (socket(7), SO_MAX_PACING_RATE).
    let rate = bytes_per_s.map_or(u32::MAX, |rate| u32::try_from(rate).unwrap_or(u32::MAX).max(1));
    // SAFETY: the value has the length given, and lives through the call. A kernel without the option does not pace.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
}
