//! Initialization vectors for CBC, which have to be unpredictable (RFC 3602, 3): sequence numbers encrypted with
//! a separate key. So none repeats, and a packet needs no source of randomness.

use aes::Aes128;
use aes::cipher::array::Array;
use aes::cipher::consts::U16;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

/// Number made at a time: one alone would have to wait for every round of the cipher.
const AHEAD: usize = 8;

/// The initialization vectors of an association.
pub struct Ivs {
    aes: Aes128,
    spi: u32,
    /// Those of the numbers from `first` on.
    ready: [Array<u8, U16>; AHEAD],
    first: u64,
}

impl Ivs {
    pub fn new(spi: u32, key: &[u8; 16]) -> Self {
        let mut ivs = Self { aes: Aes128::new(key.into()), spi, ready: Default::default(), first: 0 };
        ivs.make(0);
        ivs
    }

    /// The vector of a sequence number.
    pub fn of(&mut self, sequence: u64) -> &[u8] {
        let mut at = sequence.wrapping_sub(self.first);
        if at >= AHEAD as u64 {
            self.make(sequence);
            at = 0;
        }
        &self.ready[at as usize]
    }

    fn make(&mut self, first: u64) {
        self.first = first;
        for (number, block) in (0..).zip(&mut self.ready) {
            block[..4].copy_from_slice(&self.spi.to_be_bytes());
            block[4..8].fill(0);
            // Beyond the last number there is none to request.
            block[8..].copy_from_slice(&first.wrapping_add(number).to_be_bytes());
        }
        self.aes.encrypt_blocks(&mut self.ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_own_whatever_came_before() {
        let alone = |sequence: u64| Ivs::new(7, &[9; 16]).of(sequence).to_vec();
        let mut ivs = Ivs::new(7, &[9; 16]);
        for sequence in [1, 2, 8, 9, 1 << 40, 3, u64::MAX - 1, u64::MAX, 4] {
            assert_eq!(ivs.of(sequence), alone(sequence), "{sequence}");
        }
        let expected = {
            let mut block = [0; 16];
            block[3] = 7;
            block[15] = 5;
            let mut block = block.into();
            Aes128::new(&[9; 16].into()).encrypt_block(&mut block);
            block
        };
        assert_eq!(ivs.of(5), &expected[..]);
    }
}
