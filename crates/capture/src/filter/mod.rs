//! Filter expressions of libpcap (pcap-filter(7)).
//!
//! libpcap translates the expression, once. For every packet an interpreter in this crate runs: no
//! foreign code sees a packet, and any program can be tried on any bytes.

mod libpcap;
mod program;

#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::LinkType;
pub use program::Instruction;
use program::Program;

/// Why there is no filter.
#[derive(Debug, Error)]
pub enum FilterError {
    /// libpcap is not installed.
    #[error("filters need libpcap, which cannot be loaded ({reason}); install libpcap0.8")]
    NoLibrary {
        /// What the dynamic linker says.
        reason: String,
    },
    /// libpcap refuses the expression.
    #[error("the filter \"{expression}\" cannot be understood: {reason}; see pcap-filter(7)")]
    Expression {
        /// The expression.
        expression: String,
        /// What libpcap says.
        reason: String,
    },
    /// An invalid program: an instruction that does not exist, or a way out of the program.
    #[error("instruction {index} of a filter program {what}")]
    Program {
        /// Its place, from 0.
        index: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Decides which packets to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    program: Program,
}

impl Filter {
    /// Translates `expression` for packets that begin with `link`. The empty expression takes every packet.
    ///
    /// Names of hosts and of services are looked up at once, here.
    ///
    /// # Errors
    /// [`FilterError::NoLibrary`], and [`FilterError::Expression`] with libpcap's own words.
    pub fn compile(expression: &str, link: LinkType) -> Result<Self, FilterError> {
        Self::from_instructions(&libpcap::compile(expression, link)?)
    }

    /// A filter of instructions as of `tcpdump -ddd`.
    ///
    /// # Errors
    /// [`FilterError::Program`] if they are not a program that ends for every packet.
    pub fn from_instructions(instructions: &[Instruction]) -> Result<Self, FilterError> {
        Ok(Self { program: Program::new(instructions)? })
    }

    /// Whether a packet is selected. `original_len` is its length on the link, `data` the captured part; a
    /// packet is not selected if the filter needs more of it.
    #[must_use]
    pub fn matches(&self, data: &[u8], original_len: u32) -> bool {
        self.program.run(data, original_len) != 0
    }
}
