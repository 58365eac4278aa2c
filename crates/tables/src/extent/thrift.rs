//! Structures in Thrift's compact protocol, borrowed from the bytes; enough of it for Parquet.
//!
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// Deepest nesting: Parquet's own is 6.
const DEPTH_MAX: u32 = 16;

/// A field of a structure, or an element of a list.
pub enum Value<'a> {
    Int(i64),
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    Structure(Structure<'a>),
    /// Of a kind that nobody asks for.
    Other,
}

impl<'a> Value<'a> {
    pub fn structure(&self) -> Option<&Structure<'a>> {
        if let Self::Structure(found) = self { Some(found) } else { None }
    }

    pub fn bytes(&self) -> Option<&'a [u8]> {
        if let Self::Bytes(found) = self { Some(found) } else { None }
    }
}

/// Fields by their numbers.
#[derive(Default)]
pub struct Structure<'a>(Vec<(i64, Value<'a>)>);

impl<'a> Structure<'a> {
    fn get(&self, field: i64) -> Option<&Value<'a>> {
        // As decoders do: the last one counts.
        self.0.iter().rev().find(|(number, _)| *number == field).map(|(_, value)| value)
    }

    pub fn int(&self, field: i64) -> Option<i64> {
        if let Some(Value::Int(found)) = self.get(field) { Some(*found) } else { None }
    }

    pub fn bytes(&self, field: i64) -> Option<&'a [u8]> {
        self.get(field)?.bytes()
    }

    pub fn structure(&self, field: i64) -> Option<&Structure<'a>> {
        self.get(field)?.structure()
    }

    /// Empty if it is missing.
    pub fn list(&self, field: i64) -> &[Value<'a>] {
        if let Some(Value::List(found)) = self.get(field) { found } else { &[] }
    }
}

/// Reads from the beginning of `bytes`. Errors say what is wrong.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

type Result<T> = std::result::Result<T, &'static str>;

const END: &str = "its description ends too early";

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn structure(&mut self) -> Result<Structure<'a>> {
        self.fields(DEPTH_MAX)
    }

    fn fields(&mut self, depth: u32) -> Result<Structure<'a>> {
        let depth = depth.checked_sub(1).ok_or("its description is nested too deeply")?;
        let (mut found, mut number) = (Structure::default(), 0_i64);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(found);
            }
            number = match head >> 4 {
                0 => self.zigzag()?,
                step => number.checked_add(i64::from(step)).ok_or("a field has no number")?,
            };
            let value = match head & 0x0f {
                // The value of a Boolean is in its type.
                1 | 2 => Value::Other,
                kind => self.value(kind, depth)?,
            };
            found.0.push((number, value));
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Result<Value<'a>> {
        Ok(match kind {
            1..=3 => {
                self.byte()?;
                Value::Other
            }
            4..=6 => Value::Int(self.zigzag()?),
            7 => {
                self.take(8)?;
                Value::Other
            }
            8 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            9 | 10 => Value::List(self.elements(depth)?),
            11 => {
                self.pairs(depth)?;
                Value::Other
            }
            12 => Value::Structure(self.fields(depth)?),
            _ => return Err("a field has an unknown type"),
        })
    }

    fn elements(&mut self, depth: u32) -> Result<Vec<Value<'a>>> {
        let depth = depth.checked_sub(1).ok_or("its description is nested too deeply")?;
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        // No capacity in advance: the count may be a lie. Every element takes a byte.
        (0..count).map(|_| self.value(head & 0x0f, depth)).collect()
    }

    fn pairs(&mut self, depth: u32) -> Result<()> {
        let depth = depth.checked_sub(1).ok_or("its description is nested too deeply")?;
        let count = self.varint()?;
        if count > 0 {
            let kinds = self.byte()?;
            for _ in 0..count {
                self.value(kinds >> 4, depth)?;
                self.value(kinds & 0x0f, depth)?;
            }
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or(END)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let found = usize::try_from(length).ok().and_then(|length| rest.get(..length)).ok_or(END)?;
        self.at += found.len();
        Ok(found)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut found = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            found |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(found);
            }
        }
        Err("a number is too long")
    }

    fn zigzag(&mut self) -> Result<i64> {
        let coded = self.varint()?;
        Ok((coded >> 1).cast_signed() ^ -(coded & 1).cast_signed())
    }
}
