//! AES in CBC mode (RFC 3602): decrypted many blocks at once, encrypted many packets at once.

use aes::cipher::array::{Array, ArraySize};
use aes::cipher::consts::U16;
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockModeDecrypt, BlockSizeUser,
    InnerIvInit, KeyInit,
};
use aes::{Aes128, Aes256};

/// Bytes in a block.
pub const BLOCK: usize = 16;

/// Packets encrypted side by side: enough to hide the latency of one round behind the others.
pub const LANES: usize = 8;

type Block = Array<u8, U16>;

/// AES with its key.
pub enum Cbc {
    Aes128(Aes128),
    Aes256(Aes256),
}

/// A packet on its way through the cipher.
#[derive(Default)]
pub struct Lane<'a> {
    /// The initialization vector, then the last encrypted block.
    chain: Block,
    blocks: &'a mut [Block],
}

impl<'a> Lane<'a> {
    /// Of whole blocks.
    pub fn new(iv: &[u8], body: &'a mut [u8]) -> Self {
        let (blocks, rest) = Array::slice_as_chunks_mut(body);
        debug_assert!(rest.is_empty());
        Self { chain: block(iv), blocks }
    }
}

impl Cbc {
    /// From a key of 16 or 32 bytes.
    pub fn new(key: &[u8]) -> Self {
        const LENGTH: &str = "the association was validated";
        if key.len() == 16 {
            Self::Aes128(Aes128::new_from_slice(key).expect(LENGTH))
        } else {
            Self::Aes256(Aes256::new_from_slice(key).expect(LENGTH))
        }
    }

    /// Encrypts one packet in place.
    pub fn encrypt(&self, lane: Lane<'_>) {
        self.encrypt_each(&mut [lane]);
    }

    /// Encrypts packets in place; they may be of different lengths.
    pub fn encrypt_each<const N: usize>(&self, lanes: &mut [Lane<'_>; N]) {
        // Puts those that are done at the end.
        lanes.sort_unstable_by_key(|lane| std::cmp::Reverse(lane.blocks.len()));
        match self {
            Self::Aes128(aes) => aes.encrypt_with_backend(SideBySide(lanes)),
            Self::Aes256(aes) => aes.encrypt_with_backend(SideBySide(lanes)),
        }
    }

    /// Decrypts one packet in place.
    pub fn decrypt(&self, iv: &[u8], body: &mut [u8]) {
        let (blocks, rest) = Array::slice_as_chunks_mut(body);
        debug_assert!(rest.is_empty());
        match self {
            Self::Aes128(aes) => cbc::Decryptor::inner_iv_init(aes, &block(iv)).decrypt_blocks(blocks),
            Self::Aes256(aes) => cbc::Decryptor::inner_iv_init(aes, &block(iv)).decrypt_blocks(blocks),
        }
    }
}

/// Lanes, the longest first. Runs inside the cipher's own code, compiled for the instructions it uses, so
/// that the rounds of different lanes overlap.
struct SideBySide<'a, 'b, const N: usize>(&'a mut [Lane<'b>; N]);

impl<const N: usize> BlockSizeUser for SideBySide<'_, '_, N> {
    type BlockSize = U16;
}

impl<const N: usize> BlockCipherEncClosure for SideBySide<'_, '_, N> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let lanes = self.0;
        let mut done = 0;
        let mut running = N;
        while running > 0 {
            let shortest = lanes[running - 1].blocks.len();
            for at in done..shortest {
                let mut row = [Block::default(); N];
                for (cell, lane) in row[..running].iter_mut().zip(&*lanes) {
                    *cell = xor(&lane.chain, &lane.blocks[at]);
                }
                backend.encrypt_tail_blocks_inplace(&mut row[..running]);
                for (cell, lane) in row[..running].iter().zip(&mut *lanes) {
                    lane.chain = *cell;
                    lane.blocks[at] = *cell;
                }
            }
            done = shortest;
            running -= 1;
        }
    }
}

#[inline(always)]
fn xor<N: ArraySize>(one: &Array<u8, N>, other: &Array<u8, N>) -> Array<u8, N> {
    Array::from_fn(|i| one[i] ^ other[i])
}

fn block(iv: &[u8]) -> Block {
    let mut made = Block::default();
    made.copy_from_slice(iv);
    made
}
