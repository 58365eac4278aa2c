//! libpcap, loaded only when a filter is used: everything else works without it.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

use libloading::Library;

use super::{FilterError, Instruction};
use crate::LinkType;

const NAMES: [&str; 2] = ["libpcap.so.1", "libpcap.so.0.8"];
const OPTIMISE: c_int = 1;
/// PCAP_NETMASK_UNKNOWN; only "ip broadcast" asks for it.
const NETMASK: c_uint = u32::MAX;
/// Returned by the program for a packet that matches; must not be 0.
const SNAP_BYTES: c_int = 262_144;

/// pcap_compile() had global state until libpcap 1.8.
static LOCK: Mutex<()> = Mutex::new(());

/// `struct bpf_program`.
#[repr(C)]
struct RawProgram {
    len: c_uint,
    instructions: *mut Instruction,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut RawProgram, *const c_char, c_int, c_uint) -> c_int;
type GetErr = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type FreeCode = unsafe extern "C" fn(*mut RawProgram);
type Close = unsafe extern "C" fn(*mut c_void);

/// Translates `expression`.
pub fn compile(expression: &str, link: LinkType) -> Result<Vec<Instruction>, FilterError> {
    let refuse = |reason: String| FilterError::Expression { expression: expression.to_owned(), reason };
    let text = CString::new(expression).map_err(|_| refuse("it has a character of code 0".to_owned()))?;
    let absent = |e: libloading::Error| FilterError::NoLibrary { reason: e.to_string() };
    let _one_at_a_time = LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let library = load().map_err(absent)?;
    // SAFETY: the types are those of pcap/pcap.h, the same since libpcap 0.8; the symbols are used while
    // `library` is loaded.
    let (open_dead, compile, geterr, freecode, close) = unsafe {
        (
            library.get::<OpenDead>("pcap_open_dead").map_err(absent)?,
            library.get::<Compile>("pcap_compile").map_err(absent)?,
            library.get::<GetErr>("pcap_geterr").map_err(absent)?,
            library.get::<FreeCode>("pcap_freecode").map_err(absent)?,
            library.get::<Close>("pcap_close").map_err(absent)?,
        )
    };
    // SAFETY: plain numbers.
    let handle = unsafe { open_dead(data_link(link), SNAP_BYTES) };
    if handle.is_null() {
        return Err(refuse("libpcap is out of memory".to_owned()));
    }
    let mut raw = RawProgram { len: 0, instructions: std::ptr::null_mut() };
    // SAFETY: `handle` is open, `raw` is filled by the call, `text` ends with 0 and outlives it.
    let status = unsafe { compile(handle, &raw mut raw, text.as_ptr(), OPTIMISE, NETMASK) };
    let compiled = if status == 0 && !raw.instructions.is_null() {
        // SAFETY: libpcap made `len` instructions there, of the layout of `struct bpf_insn`.
        let instructions = unsafe { std::slice::from_raw_parts(raw.instructions, raw.len as usize) }.to_vec();
        // SAFETY: what pcap_compile filled, freed once.
        unsafe { freecode(&raw mut raw) };
        Ok(instructions)
    } else {
        // SAFETY: the message ends with 0 and lives as long as the handle.
        let reason = unsafe { CStr::from_ptr(geterr(handle)) };
        Err(refuse(reason.to_string_lossy().into_owned()))
    };
    // SAFETY: closed once, not used afterwards.
    unsafe { close(handle) };
    compiled
}

fn load() -> Result<Library, libloading::Error> {
    let [first, second] = NAMES;
    // SAFETY: libpcap's initialisers do nothing but set up its own state.
    unsafe { Library::new(first) }.or_else(|_| {
        // SAFETY: as above.
        unsafe { Library::new(second) }
    })
}

/// libpcap's number of a link type on Linux; files have others for a few (pcap-linktype(7)).
fn data_link(link: LinkType) -> c_int {
    match link.0 {
        100 => 11, // ATM, RFC 1483
        101 => 12, // IP alone
        102 => 15, // SLIP, BSD/OS
        103 => 16, // PPP, BSD/OS
        106 => 19, // ATM, classical IP
        same => same.into(),
    }
}
