//! Search for IDs that came twice, for millions of them a second: neighbours are kept as one range.

/// The form of the IDs in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Decimal numbers, one a line.
    #[default]
    Decimal,
    /// Big-endian numbers of so many bytes.
    Packed(usize),
}

/// Numbers as they came.
#[derive(Debug, Default)]
pub struct Seen {
    /// First and last of numbers that came one after the other.
    ranges: Vec<(u128, u128)>,
    count: u64,
}

impl Seen {
    /// Notes a number.
    #[inline]
    pub fn note(&mut self, id: u128) {
        self.count += 1;
        match self.ranges.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => self.ranges.push((id, id)),
        }
    }

    /// The number of IDs that came.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Counts those of them that had come before.
    pub fn duplicates(mut self) -> u64 {
        self.ranges.sort_unstable();
        let mut duplicates = 0u128;
        let mut end: Option<u128> = None;
        for (first, last) in self.ranges {
            if let Some(end) = end.filter(|end| *end >= first) {
                duplicates += end.min(last) - first + 1;
            }
            end = end.max(Some(last));
        }
        u64::try_from(duplicates).unwrap_or(u64::MAX)
    }
}

/// Reads the IDs of one connection's answers, however they are cut into pieces.
#[derive(Debug, Default)]
pub struct Reader {
    value: u128,
    digits: usize,
}

impl Reader {
    /// Takes in a piece of a body.
    ///
    /// # Errors
    /// If it is not a list of IDs.
    pub fn read(&mut self, form: Form, piece: &[u8], seen: &mut Seen) -> Result<(), String> {
        match form {
            Form::Decimal => self.decimal(piece, seen),
            Form::Packed(len) => {
                for byte in piece {
                    self.value = (self.value << 8) | u128::from(*byte);
                    self.digits += 1;
                    if self.digits == len {
                        seen.note(std::mem::take(&mut self.value));
                        self.digits = 0;
                    }
                }
                Ok(())
            }
        }
    }

    fn decimal(&mut self, piece: &[u8], seen: &mut Seen) -> Result<(), String> {
        for byte in piece {
            match byte {
                b'0'..=b'9' => {
                    self.value = self.value.wrapping_mul(10).wrapping_add(u128::from(byte - b'0'));
                    self.digits += 1;
                }
                b'\n' if self.digits > 0 => {
                    seen.note(std::mem::take(&mut self.value));
                    self.digits = 0;
                }
                other => return Err(format!("byte {other} where a decimal ID should be")),
            }
        }
        Ok(())
    }

    /// The end of a body.
    ///
    /// # Errors
    /// If an ID was cut off.
    pub fn end(&mut self) -> Result<(), String> {
        if self.digits == 0 { Ok(()) } else { Err(format!("an ID was cut off after {} digits", self.digits)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_that_had_come_before_counts() {
        let duplicates = |ids: &[u128]| {
            let mut seen = Seen::default();
            ids.iter().for_each(|id| seen.note(*id));
            assert_eq!(seen.count(), ids.len() as u64);
            seen.duplicates()
        };
        assert_eq!(duplicates(&[]), 0);
        assert_eq!(duplicates(&[1, 2, 3, 10, 4, 5]), 0);
        assert_eq!(duplicates(&[1, 2, 3, 3]), 1);
        assert_eq!(duplicates(&[1, 2, 3, 4, 2, 3]), 2);
        assert_eq!(duplicates(&[5, 5, 5]), 2);
        assert_eq!(duplicates(&[1, 2, 3, 4, 5, 2, 4]), 2, "a range within another");
    }

    #[test]
    fn ids_are_read_whole_however_they_are_cut() {
        let (text, packed) = (b"12\n13\n7\n", [0, 12, 0, 13, 0, 7]);
        for cut in 0..text.len() {
            let (mut reader, mut seen) = (Reader::default(), Seen::default());
            reader.read(Form::Decimal, &text[..cut], &mut seen).unwrap();
            reader.read(Form::Decimal, &text[cut..], &mut seen).unwrap();
            reader.end().unwrap();
            assert_eq!(seen.ranges, [(12, 13), (7, 7)]);
        }
        let (mut reader, mut seen) = (Reader::default(), Seen::default());
        reader.read(Form::Packed(2), &packed[..3], &mut seen).unwrap();
        assert!(reader.end().is_err());
        reader.read(Form::Packed(2), &packed[3..], &mut seen).unwrap();
        assert_eq!(seen.ranges, [(12, 13), (7, 7)]);
        assert!(Reader::default().read(Form::Decimal, b"<html>", &mut seen).is_err());
        assert!(Reader::default().read(Form::Decimal, b"\n", &mut seen).is_err(), "an empty line is not an ID");
    }
}
