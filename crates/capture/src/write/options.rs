//! Options of blocks: a code, a length, a value padded to 32 bits.

pub const END_OF_OPTIONS: u16 = 0;
pub const COMMENT: u16 = 1;

pub const SHB_HARDWARE: u16 = 2;
pub const SHB_OS: u16 = 3;
pub const SHB_USERAPPL: u16 = 4;

pub const IF_NAME: u16 = 2;
pub const IF_DESCRIPTION: u16 = 3;
pub const IF_MAC: u16 = 6;
pub const IF_TSRESOL: u16 = 9;
pub const IF_FILTER: u16 = 11;
pub const IF_OS: u16 = 12;

pub const EPB_FLAGS: u16 = 2;
pub const EPB_DROPCOUNT: u16 = 4;

pub const ISB_STARTTIME: u16 = 2;
pub const ISB_ENDTIME: u16 = 3;
pub const ISB_IFRECV: u16 = 4;
pub const ISB_IFDROP: u16 = 5;
pub const ISB_FILTERACCEPT: u16 = 6;
pub const ISB_USRDELIV: u16 = 8;

/// Value of `if_tsresol`: 10^-9 s.
pub const NANOSECONDS: u8 = 9;
/// First byte of `if_filter`: an expression of libpcap follows.
const FILTER_IS_TEXT: u8 = 0;

/// Appends an option; `value` has at most 65,535 bytes.
pub fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len() + value.len().next_multiple_of(4) - value.len(), 0);
}

/// Appends a count.
pub fn number(out: &mut Vec<u8>, code: u16, value: u64) {
    option(out, code, &value.to_le_bytes());
}

/// Appends a text unless it is empty; one that is too long for an option is cut.
pub fn text(out: &mut Vec<u8>, code: u16, value: &str) {
    if !value.is_empty() {
        option(out, code, cut(value, u16::MAX.into()).as_bytes());
    }
}

/// The value of `if_filter`.
pub fn filter_value(expression: &str) -> Vec<u8> {
    let mut value = vec![FILTER_IS_TEXT];
    value.extend_from_slice(cut(expression, usize::from(u16::MAX) - 1).as_bytes());
    value
}

/// The first bytes of `text`, at most `limit`, whole characters.
fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
