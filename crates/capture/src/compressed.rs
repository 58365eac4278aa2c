//! gzip and zstd around a capture.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// What a file is wrapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nothing.
    None,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// Told by the first bytes of a file.
    #[must_use]
    pub fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or a frame to be skipped, which may come first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// `source` without its wrapping.
    pub(crate) fn reader<'a>(self, source: impl Read + 'a) -> Box<dyn Read + 'a> {
        match self {
            Self::None => Box::new(source),
            Self::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(source))),
            Self::Zstd => Box::new(Frames { state: Some(State::Between(BufReader::new(source))) }),
        }
    }
}

/// A zstd file is one frame after another (RFC 8878 section 3.1), a decoder reads one.
struct Frames<R: Read> {
    state: Option<State<BufReader<R>>>,
}

enum State<R: Read> {
    Between(R),
    Inside(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.state.take() {
                None => return Ok(0),
                Some(State::Between(mut source)) => {
                    if source.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    if skip_frame(&mut source)? {
                        self.state = Some(State::Between(source));
                        continue;
                    }
                    // A window beyond 100 MB is refused by the decoder, so memory is bounded.
                    let decoder = StreamingDecoder::new(source).map_err(io::Error::other)?;
                    self.state = Some(State::Inside(Box::new(decoder)));
                }
                Some(State::Inside(mut decoder)) => {
                    let read = decoder.read(buffer)?;
                    if read > 0 || buffer.is_empty() {
                        self.state = Some(State::Inside(decoder));
                        return Ok(read);
                    }
                    self.state = Some(State::Between(decoder.into_inner()));
                }
            }
        }
    }
}

/// Passes over a skippable frame (RFC 8878 section 3.1.2) if that is what comes.
fn skip_frame(source: &mut impl BufRead) -> io::Result<bool> {
    if !matches!(source.fill_buf()?, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]) {
        return Ok(false);
    }
    let mut head = [0; 8];
    source.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    io::copy(&mut source.take(length.into()), &mut io::sink())?;
    Ok(true)
}
