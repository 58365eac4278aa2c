//! What payload types stand for.

/// What a stream carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Not known.
    #[default]
    Unknown,
    /// Sound.
    Audio,
    /// Pictures.
    Video,
}

/// The encoding name of RFC 4733.
pub(super) const TELEPHONE_EVENT: &str = "telephone-event";
/// Clock rate of all formats for pictures (RFC 3551 section 5), and of no codec for speech.
pub(super) const PICTURES_HZ: u32 = 90_000;

/// A payload format: the encoding name and clock rate of SDP's `rtpmap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// `PCMU`, `opus`.
    pub name: String,
    /// Of the time stamps.
    pub clock_hz: u32,
    /// Sound or pictures.
    pub kind: Kind,
}

impl Encoding {
    /// Whether its time stamps follow its packets. Those of comfort noise (RFC 3389) and of telephone events
    /// (RFC 4733) do not: an event keeps the time at which it began.
    #[must_use]
    pub fn is_speech(&self) -> bool {
        !["CN", TELEPHONE_EVENT, "tone"].iter().any(|name| self.name.eq_ignore_ascii_case(name))
    }

    /// Whether these are telephone events.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.name.eq_ignore_ascii_case(TELEPHONE_EVENT)
    }
}

/// Payload types with a fixed meaning (RFC 3551 sections 4.5 and 5, tables 4 and 5). 19 was comfort noise
/// before RFC 3551.
const STATIC: [(u8, &str, u32, Kind); 25] = [
    (0, "PCMU", 8_000, Kind::Audio),
    (3, "GSM", 8_000, Kind::Audio),
    (4, "G723", 8_000, Kind::Audio),
    (5, "DVI4", 8_000, Kind::Audio),
    (6, "DVI4", 16_000, Kind::Audio),
    (7, "LPC", 8_000, Kind::Audio),
    (8, "PCMA", 8_000, Kind::Audio),
    (9, "G722", 8_000, Kind::Audio),
    (10, "L16", 44_100, Kind::Audio),
    (11, "L16", 44_100, Kind::Audio),
    (12, "QCELP", 8_000, Kind::Audio),
    (13, "CN", 8_000, Kind::Audio),
    (14, "MPA", 90_000, Kind::Audio),
    (15, "G728", 8_000, Kind::Audio),
    (16, "DVI4", 11_025, Kind::Audio),
    (17, "DVI4", 22_050, Kind::Audio),
    (18, "G729", 8_000, Kind::Audio),
    (19, "CN", 8_000, Kind::Audio),
    (25, "CelB", 90_000, Kind::Video),
    (26, "JPEG", 90_000, Kind::Video),
    (28, "nv", 90_000, Kind::Video),
    (31, "H261", 90_000, Kind::Video),
    (32, "MPV", 90_000, Kind::Video),
    (33, "MP2T", 90_000, Kind::Video),
    (34, "H263", 90_000, Kind::Video),
];

/// The format that RFC 3551 gives a payload type.
#[must_use]
pub fn assigned(payload_type: u8) -> Option<Encoding> {
    let (_, name, clock_hz, kind) = *STATIC.iter().find(|(number, ..)| *number == payload_type)?;
    Some(Encoding { name: name.to_owned(), clock_hz, kind })
}

/// What the user says payload types stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// By payload type; `None`: what a stream carries about which nothing else is known.
    pub encodings: Vec<(Option<u8>, Encoding)>,
}

impl Told {
    /// The meaning of a payload type, or of an unknown one.
    #[must_use]
    pub fn encoding(&self, payload_type: Option<u8>) -> Option<&Encoding> {
        self.encodings.iter().find(|(number, _)| *number == payload_type).map(|(_, encoding)| encoding)
    }
}

/// Clock rates of speech and pictures, for streams whose rate is not known.
pub(super) const CLOCKS_HZ: [u32; 9] =
    [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 90_000];
/// Half the distance of the closest two, 44,100 and 48,000 Hz, is 4 %.
const CLOCK_TOLERANCE: f64 = 0.04;

/// The usual clock rate next to a measured one, if there is one close by.
#[must_use]
pub fn usual_clock(measured_hz: f64) -> Option<u32> {
    let error = |clock: u32| (measured_hz / f64::from(clock) - 1.0).abs();
    let nearest = CLOCKS_HZ.into_iter().min_by(|a, b| error(*a).total_cmp(&error(*b)))?;
    (error(nearest) <= CLOCK_TOLERANCE).then_some(nearest)
}
