//! The machine of classic BPF: an accumulator, an index, 16 words of memory, jumps forward only.
//!
//! Opcodes are those of `linux/bpf_common.h`; checks those of `bpf_check_classic` in the kernel's
//! net/core/filter.c, without its extensions (loads at negative offsets), which no capture file can answer.

use super::FilterError;

/// One instruction, as libpcap and the kernel have it (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// Instructions to skip if a condition holds.
    pub jump_true: u8,
    /// And if it does not.
    pub jump_false: u8,
    /// Its operand.
    pub k: u32,
}

const MEMORY_WORDS: usize = 16;

/// A decoded instruction, its numbers within their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Bytes of the packet at a fixed place or after the index, into the accumulator.
    Load {
        width: Width,
        at: u32,
        indexed: bool,
    },
    LoadLength,
    LoadNumber(u32),
    LoadMemory(u8),
    /// The same, into the index.
    IndexNumber(u32),
    IndexLength,
    IndexMemory(u8),
    /// Four times the low half of a byte: the length of an IPv4 header.
    IndexHeaderLength(u32),
    Store(u8),
    StoreIndex(u8),
    Compute {
        function: Function,
        operand: Operand,
    },
    Negate,
    Jump(u32),
    Branch {
        condition: Condition,
        operand: Operand,
        yes: u8,
        no: u8,
    },
    Return(Option<u32>),
    ToIndex,
    FromIndex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Word,
    Half,
    Byte,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Or,
    And,
    ExclusiveOr,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Equal,
    Greater,
    GreaterOrEqual,
    AnyBit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Number(u32),
    Index,
}

/// A program that ends for every packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    ops: Vec<Op>,
}

impl Program {
    pub fn new(instructions: &[Instruction]) -> Result<Self, FilterError> {
        let refuse = |index, what| FilterError::Program { index, what };
        let mut ops = Vec::with_capacity(instructions.len());
        for (index, instruction) in instructions.iter().enumerate() {
            let op = Op::of(*instruction).map_err(|what| refuse(index, what))?;
            let behind = instructions.len() - index - 1;
            let farthest = match op {
                Op::Jump(by) => by as usize,
                Op::Branch { yes, no, .. } => yes.max(no).into(),
                _ => 0,
            };
            if matches!(op, Op::Jump(_) | Op::Branch { .. }) && farthest >= behind {
                return Err(refuse(index, "jumps beyond the end"));
            }
            ops.push(op);
        }
        match ops.last() {
            Some(Op::Return(_)) => Ok(Self { ops }),
            Some(_) => Err(refuse(ops.len() - 1, "is the last and does not return")),
            None => Err(refuse(0, "is missing: the program is empty")),
        }
    }

    /// What the program returns; also 0 if it loads beyond the data or divides by zero.
    pub fn run(&self, data: &[u8], original_len: u32) -> u32 {
        let (mut a, mut x, mut memory) = (0_u32, 0_u32, [0_u32; MEMORY_WORDS]);
        let mut at = 0;
        // `at` only grows, so this ends.
        while let Some(op) = self.ops.get(at) {
            at += 1;
            match *op {
                Op::Load { width, at, indexed } => {
                    let at = u64::from(at) + if indexed { x.into() } else { 0 };
                    match load(data, at, width) {
                        Some(value) => a = value,
                        None => return 0,
                    }
                }
                Op::LoadLength => a = original_len,
                Op::LoadNumber(k) => a = k,
                Op::LoadMemory(word) => a = memory[usize::from(word)],
                Op::IndexNumber(k) => x = k,
                Op::IndexLength => x = original_len,
                Op::IndexMemory(word) => x = memory[usize::from(word)],
                Op::IndexHeaderLength(at) => match load(data, at.into(), Width::Byte) {
                    Some(value) => x = (value & 0x0f) * 4,
                    None => return 0,
                },
                Op::Store(word) => memory[usize::from(word)] = a,
                Op::StoreIndex(word) => memory[usize::from(word)] = x,
                Op::Compute { function, operand } => match function.apply(a, operand.value(x)) {
                    Some(value) => a = value,
                    None => return 0,
                },
                Op::Negate => a = a.wrapping_neg(),
                Op::Jump(by) => at += by as usize,
                Op::Branch { condition, operand, yes, no } => {
                    at += usize::from(if condition.holds(a, operand.value(x)) { yes } else { no });
                }
                Op::Return(value) => return value.unwrap_or(a),
                Op::ToIndex => x = a,
                Op::FromIndex => a = x,
            }
        }
        0
    }
}

impl Op {
    fn of(instruction: Instruction) -> Result<Self, &'static str> {
        let Instruction { code, jump_true: yes, jump_false: no, k } = instruction;
        let operand = if code & 0x08 == 0 { Operand::Number(k) } else { Operand::Index };
        let word =
            || if k < MEMORY_WORDS as u32 { Ok(k as u8) } else { Err("uses memory that is not there") };
        Ok(match code {
            0x20 | 0x28 | 0x30 => Self::Load { width: Width::of(code), at: k, indexed: false },
            0x40 | 0x48 | 0x50 => Self::Load { width: Width::of(code), at: k, indexed: true },
            0x80 => Self::LoadLength,
            0x00 => Self::LoadNumber(k),
            0x60 => Self::LoadMemory(word()?),
            0x01 => Self::IndexNumber(k),
            0x81 => Self::IndexLength,
            0x61 => Self::IndexMemory(word()?),
            0xb1 => Self::IndexHeaderLength(k),
            0x02 => Self::Store(word()?),
            0x03 => Self::StoreIndex(word()?),
            0x84 => Self::Negate,
            0x05 => Self::Jump(k),
            0x06 => Self::Return(Some(k)),
            0x16 => Self::Return(None),
            0x07 => Self::ToIndex,
            0x87 => Self::FromIndex,
            _ if code & 0xff07 == 0x04 => {
                let function = Function::of(code).ok_or("does not exist")?;
                match (function, operand) {
                    (Function::Divide | Function::Remainder, Operand::Number(0)) => {
                        return Err("divides by zero");
                    }
                    (Function::ShiftLeft | Function::ShiftRight, Operand::Number(32..)) => {
                        return Err("shifts by more than a word");
                    }
                    _ => Self::Compute { function, operand },
                }
            }
            _ if code & 0xff07 == 0x05 => {
                let condition = Condition::of(code).ok_or("does not exist")?;
                Self::Branch { condition, operand, yes, no }
            }
            _ => return Err("does not exist"),
        })
    }
}

impl Width {
    const fn of(code: u16) -> Self {
        match code & 0x18 {
            0x00 => Self::Word,
            0x08 => Self::Half,
            _ => Self::Byte,
        }
    }
}

impl Function {
    const fn of(code: u16) -> Option<Self> {
        Some(match code & 0xf0 {
            0x00 => Self::Add,
            0x10 => Self::Subtract,
            0x20 => Self::Multiply,
            0x30 => Self::Divide,
            0x40 => Self::Or,
            0x50 => Self::And,
            0x60 => Self::ShiftLeft,
            0x70 => Self::ShiftRight,
            0x90 => Self::Remainder,
            0xa0 => Self::ExclusiveOr,
            _ => return None,
        })
    }

    /// `None` if there is no result.
    const fn apply(self, a: u32, b: u32) -> Option<u32> {
        Some(match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::Multiply => a.wrapping_mul(b),
            Self::Divide => return a.checked_div(b),
            Self::Remainder => return a.checked_rem(b),
            Self::Or => a | b,
            Self::And => a & b,
            Self::ExclusiveOr => a ^ b,
            // As in libpcap's own interpreter: nothing is left of a word.
            Self::ShiftLeft => {
                if b < 32 {
                    a << b
                } else {
                    0
                }
            }
            Self::ShiftRight => {
                if b < 32 {
                    a >> b
                } else {
                    0
                }
            }
        })
    }
}

impl Condition {
    const fn of(code: u16) -> Option<Self> {
        Some(match code & 0xf0 {
            0x10 => Self::Equal,
            0x20 => Self::Greater,
            0x30 => Self::GreaterOrEqual,
            0x40 => Self::AnyBit,
            _ => return None,
        })
    }

    const fn holds(self, a: u32, b: u32) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Greater => a > b,
            Self::GreaterOrEqual => a >= b,
            Self::AnyBit => a & b != 0,
        }
    }
}

impl Operand {
    const fn value(self, x: u32) -> u32 {
        match self {
            Self::Number(k) => k,
            Self::Index => x,
        }
    }
}

fn load(data: &[u8], at: u64, width: Width) -> Option<u32> {
    let from = data.get(usize::try_from(at).ok()?..)?;
    Some(match width {
        Width::Word => u32::from_be_bytes(*from.first_chunk()?),
        Width::Half => u16::from_be_bytes(*from.first_chunk()?).into(),
        Width::Byte => u32::from(*from.first()?),
    })
}
