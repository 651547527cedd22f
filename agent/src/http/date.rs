//! The `Date` header, which every answer of a server with a clock has (RFC 9110, 6.6.1); written once a second and thread.

use common::clock::Clock;
use std::cell::Cell;
use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

const LEN: usize = 29;

thread_local! {
    /// The second, and how it is written.
    static LAST: Cell<(u64, [u8; LEN])> = const { Cell::new((u64::MAX, [b' '; LEN])) };
}

/// Appends the date as HTTP writes it.
pub(super) fn write(clock: Clock, out: &mut Vec<u8>) {
    let second = clock.coarse_second();
    let (last, mut text) = LAST.get();
    if last != second {
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(second));
        // It always is that long.
        let _ = write!(text.as_mut_slice(), "{date}");
        LAST.set((second, text));
    }
    out.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_date_of_now() {
        let mut out = Vec::new();
        write(Clock::system(), &mut out);
        let date = httpdate::parse_http_date(std::str::from_utf8(&out).unwrap()).unwrap();
        let off = Clock::system().coarse_second().abs_diff(date.duration_since(UNIX_EPOCH).unwrap().as_secs());
        assert!(out.len() == LEN && off <= 1, "{}", String::from_utf8_lossy(&out));
    }
}
