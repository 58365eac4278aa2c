//! What the fuzz target `logger` does with its bytes, and what must hold whatever these are: a recorder takes frames
//! of anybody (`weir log`, the captures of TCP tests), and its file has those that it counts as written.
//!
//! `crates/engine/tests/seeds.rs` runs the same function over the committed seeds.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use weir_engine::record::{Connections, Direction, Frame, Interface, Options, Recorder, Source};

const PORT: u16 = 80;

/// Frames, each of which was longer than it is by `cut` bytes.
struct Frames {
    interfaces: [Interface; 1],
    bytes: Vec<u8>,
    at: usize,
    time_ns: i64,
    cut: u32,
}

impl Source for Frames {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn read(&mut self, _wait: Duration, take: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let mut count = 0;
        while let Some(len) = self.bytes.get(self.at) {
            let end = (self.at + 1 + usize::from(*len)).min(self.bytes.len());
            let data = &self.bytes[self.at + 1..end];
            (self.at, self.time_ns, count) = (end, self.time_ns + 1, count + 1);
            take(Frame {
                time_ns: self.time_ns,
                interface: 0,
                direction: Direction::Inbound,
                original_len: data.len() as u32 + self.cut,
                lost_before: u64::from(data.first() == Some(&0xff)),
                lost_since_ns: None,
                data,
            });
        }
        Ok(count)
    }

    fn lost(&self) -> Vec<u64> {
        vec![0]
    }
}

/// What is recorded, in a folder of its own.
pub static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("weir-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    folder.join("x.pcapng")
});

/// Records the frames of `data`; the first byte chooses how.
pub fn logger(data: &[u8]) -> &'static str {
    let Some((choice, bytes)) = data.split_first() else { return "nothing" };
    let connections = (choice & 1 != 0).then(|| Connections::of_port(PORT));
    if let Some(connections) = connections.as_ref().filter(|_| choice & 2 != 0) {
        let end = |last, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), port);
        connections.name([(end(1, 40_000), end(2, PORT))]);
    }
    let most_bytes = (choice & 4 != 0).then_some(2000);
    let snap_bytes = if choice & 8 != 0 { 60 } else { 262_144 };
    let options = Options { connections, most_bytes, snap_bytes, ..Options::new(FILE.clone()) };
    let name = "x".to_owned();
    let interfaces = [Interface { name, description: String::new(), mac: [0; 6] }];
    let cut = u32::from(choice >> 4);
    let frames = Frames { interfaces, bytes: bytes.to_vec(), at: 0, time_ns: 0, cut };
    let mut recorder = Recorder::new(options).expect("a recorder");
    recorder.start(Box::new(frames)).expect("threads");
    let progress = recorder.stop().progress;
    assert_eq!(progress.failure, "");
    let counts = &progress.interfaces[0];
    assert_eq!(counts.seen, counts.filtered + counts.written + counts.not_written);
    let mut capture = weir_capture::open(File::open(&*FILE).expect("the file")).expect("a capture");
    let mut written = 0;
    while let Some(packet) = capture.next_packet().expect("whole packets") {
        assert!(
            packet.data.len() <= snap_bytes as usize && packet.data.len() <= packet.original_len as usize
        );
        written += 1;
    }
    assert_eq!(written, counts.written);
    if written > 0 { "written" } else { "empty" }
}
