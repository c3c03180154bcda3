//! Numbers and texts of the payload.

/// Appends `value`, seven bits a byte, lowest first.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed difference.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

/// Appends bytes with their length in front.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Small numbers of either sign become small numbers: 0, -1, 1, -2 … are 0, 1, 2, 3 …
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads what the functions above wrote. What is wrong is said in words.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn get(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or("a section ends too early")?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is too large".into())
    }

    pub fn get_signed(&mut self) -> Result<i64, String> {
        self.get().map(unzigzag)
    }

    /// A number that must fit a smaller type.
    pub fn get_as<T: TryFrom<u64>>(&mut self) -> Result<T, String> {
        self.get()?.try_into().map_err(|_| "a number is too large".to_string())
    }

    /// How many entries follow, each of which takes at least one byte: never more than could be.
    pub fn get_count(&mut self) -> Result<usize, String> {
        match self.get()? {
            count if count <= self.0.len() as u64 => Ok(count as usize),
            _ => Err("a section ends too early".into()),
        }
    }

    pub fn get_bytes(&mut self) -> Result<&'a [u8], String> {
        let len = self.get_count()?;
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(bytes)
    }

    pub fn get_text(&mut self) -> Result<String, String> {
        String::from_utf8(self.get_bytes()?.to_vec()).map_err(|_| "a text is not UTF-8".into())
    }

    /// Everything must have been used.
    pub fn finish(&self) -> Result<(), String> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err("a section is longer than what it holds".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_come_back() {
        let mut out = Vec::new();
        for value in [0, 127, 128, u64::MAX] {
            put(&mut out, value);
        }
        for value in [0, -1, i64::MIN, i64::MAX] {
            put_signed(&mut out, value);
        }
        let mut reader = Reader::new(&out);
        for value in [0, 127, 128, u64::MAX] {
            assert_eq!(reader.get(), Ok(value));
        }
        for value in [0, -1, i64::MIN, i64::MAX] {
            assert_eq!(reader.get_signed(), Ok(value));
        }
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn bad_bytes_are_errors() {
        assert!(Reader::new(&[0x80]).get().is_err());
        assert!(Reader::new(&[0xff; 11]).get().is_err());
        assert!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).get().is_err()
        );
        assert!(Reader::new(&[5, 1, 2]).get_bytes().is_err());
        assert!(Reader::new(&[2, 0xc3, 0x28]).get_text().is_err());
    }
}
