//! Buffers of blocks on their way to disk.

/// Size of a buffer: one write, and one zstd frame.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Frames of an interface with the same fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub frames: u64,
    /// Times of the first and the last one; only with frames.
    pub first_ns: i64,
    pub last_ns: i64,
}

impl Span {
    pub fn add(&mut self, time_ns: i64) {
        if self.frames == 0 {
            self.first_ns = time_ns;
        }
        self.frames += 1;
        self.last_ns = time_ns;
    }
}

/// What came from an interface so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub seen: u64,
    pub lost: u64,
    pub filtered: u64,
}

/// Whole blocks, to be written at once.
#[derive(Debug)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    /// Set if a file begins with it: the time.
    pub begins_ns: Option<i64>,
    /// Per interface: frames in `bytes`.
    pub spans: Vec<Span>,
    /// Per interface: counts when it was closed.
    pub counts: Vec<Counts>,
}

impl Chunk {
    pub fn new(interfaces: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(CHUNK_BYTES),
            begins_ns: None,
            spans: vec![Span::default(); interfaces],
            counts: vec![Counts::default(); interfaces],
        }
    }

    /// One that nothing goes into.
    pub const fn empty() -> Self {
        Self { bytes: Vec::new(), begins_ns: None, spans: Vec::new(), counts: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.begins_ns = None;
        self.spans.fill(Span::default());
    }
}
