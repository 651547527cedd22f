//! KSUIDs: 20 bytes in base 62. The numbers are the first 16 of them, and the last four are 0.

/// Bits of a number.
pub(super) const BITS: u32 = 128;
/// Characters of a text.
pub(super) const LEN: usize = 27;
const RADIX: u64 = 62;
const CHARACTERS: &[u8; RADIX as usize] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Words of 32 bits, the most significant first.
const WORDS: usize = 5;

/// Appends the text of a number.
pub(super) fn write(number: u128, out: &mut Vec<u8>) {
    let [a, b, c, d] = [96, 64, 32, 0].map(|shift| (number >> shift) as u32);
    let mut words: [u32; WORDS] = [a, b, c, d, 0];
    let start = out.len();
    out.resize(start + LEN, b'0');
    for place in out.iter_mut().skip(start).rev() {
        let digit = words.iter_mut().fold(0, |rest, word| {
            let value = rest << u32::BITS | u64::from(*word);
            *word = (value / RADIX) as u32;
            value % RADIX
        });
        *place = CHARACTERS.get(digit as usize).copied().unwrap_or(b'0');
    }
}

/// The number whose text has these characters; `None` if there is none. Texts of more than 160 bits are refused.
pub(super) fn read(text: &str) -> Option<u128> {
    let mut words = [0u32; WORDS];
    for character in text.bytes() {
        let digit = CHARACTERS.iter().position(|known| *known == character)?;
        let over = words.iter_mut().rev().fold(digit as u64, |carry, word| {
            let value = u64::from(*word) * RADIX + carry;
            *word = value as u32;
            value >> u32::BITS
        });
        if over != 0 {
            return None;
        }
    }
    let [high @ .., low] = words;
    (low == 0).then(|| high.iter().fold(0, |number, word| number << u32::BITS | u128::from(*word)))
}
