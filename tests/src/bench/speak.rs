//! Requests, and the ends of answers: HTTP/1.1 with a length, and Redis's RESP.

use super::check::{Form, Reader, Seen};

/// Heads that are longer are not answers.
const HEAD_LEN_MAX: usize = 64 << 10;

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, answers with `Content-Length`.
    Http,
    /// Redis's protocol, answers of one line.
    Resp,
}

/// An HTTP request as most clients write it.
pub fn http_request(host: &str, path: &str, accept: Option<&str>) -> Vec<u8> {
    let accept = accept.map_or(String::new(), |accept| format!("Accept: {accept}\r\n"));
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{accept}\r\n").into_bytes()
}

/// The same with a body.
pub fn http_post(host: &str, path: &str, accept: Option<&str>, body: &[u8]) -> Vec<u8> {
    let accept = accept.map_or(String::new(), |accept| format!("Accept: {accept}\r\n"));
    let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{accept}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A command as Redis's clients write it.
pub fn resp_request(command: &str) -> Vec<u8> {
    let words: Vec<_> = command.split_whitespace().collect();
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    request.into_bytes()
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The answer that was asked for.
    Good,
    /// A refusal with that status, 0 for one that has none.
    Refused(u16),
}

/// Reads the answers of one connection, however they are cut into pieces.
#[derive(Debug)]
pub struct Replies {
    protocol: Protocol,
    check: Option<Form>,
    reader: Reader,
    /// The beginning of a head, or of a line, that is not whole yet.
    held: Vec<u8>,
    /// The last good head: most answers begin with the same bytes.
    usual: Vec<u8>,
    usual_len: usize,
    body: Option<(usize, Reply)>,
}

impl Replies {
    /// For a connection on which nothing came yet. With `check`, the IDs in good answers are noted.
    pub fn new(protocol: Protocol, check: Option<Form>) -> Self {
        Self {
            protocol,
            check,
            reader: Reader::default(),
            held: Vec::new(),
            usual: Vec::new(),
            usual_len: 0,
            body: None,
        }
    }

    /// Takes in what came and calls `done` at the end of each answer.
    ///
    /// # Errors
    /// If it is not an answer.
    pub fn feed(&mut self, mut data: &[u8], seen: &mut Seen, mut done: impl FnMut(Reply)) -> Result<(), String> {
        while !data.is_empty() {
            data = match self.protocol {
                Protocol::Http => self.http(data, seen, &mut done)?,
                Protocol::Resp => self.resp(data, seen, &mut done)?,
            };
        }
        Ok(())
    }

    fn http<'a>(&mut self, data: &'a [u8], seen: &mut Seen, done: &mut impl FnMut(Reply)) -> Result<&'a [u8], String> {
        let Some((left, reply)) = self.body else { return self.head(data, done) };
        let (piece, rest) = data.split_at(left.min(data.len()));
        if let (Some(form), Reply::Good) = (self.check, reply) {
            self.reader.read(form, piece, seen)?;
        }
        let left = left - piece.len();
        self.body = (left > 0).then_some((left, reply));
        if left == 0 {
            self.reader.end()?;
            done(reply);
        }
        Ok(rest)
    }

    fn head<'a>(&mut self, data: &'a [u8], done: &mut impl FnMut(Reply)) -> Result<&'a [u8], String> {
        if self.held.is_empty()
            && !self.usual.is_empty()
            && let Some(rest) = data.strip_prefix(self.usual.as_slice())
        {
            self.body = Some((self.usual_len, Reply::Good));
            return Ok(rest);
        }
        let before = self.held.len();
        self.held.extend_from_slice(data);
        let from = before.saturating_sub(3);
        let Some(end) = self.held.get(from..).and_then(|new| new.windows(4).position(|four| four == b"\r\n\r\n"))
        else {
            if self.held.len() > HEAD_LEN_MAX {
                return Err("an answer whose head does not end".to_owned());
            }
            return Ok(&[]);
        };
        let end = from + end + 4;
        let rest = data.get(end - before..).unwrap_or_default();
        self.held.truncate(end);
        let head = std::mem::take(&mut self.held);
        let (status, len) = read_head(&head)?;
        let reply = if status == 200 { Reply::Good } else { Reply::Refused(status) };
        if reply == Reply::Good {
            (self.usual, self.usual_len) = (head, len);
        }
        if len == 0 {
            done(reply);
        } else {
            self.body = Some((len, reply));
        }
        Ok(rest)
    }

    fn resp<'a>(&mut self, data: &'a [u8], seen: &mut Seen, done: &mut impl FnMut(Reply)) -> Result<&'a [u8], String> {
        let Some(end) = data.iter().position(|byte| *byte == b'\n') else {
            self.held.extend_from_slice(data);
            return if self.held.len() > HEAD_LEN_MAX { Err("a line without an end".to_owned()) } else { Ok(&[]) };
        };
        let (line, rest) = data.split_at(end + 1);
        let joined;
        let line = if self.held.is_empty() {
            line
        } else {
            joined = [&std::mem::take(&mut self.held), line].concat();
            &joined
        };
        match line {
            [b':', number @ .., b'\r', b'\n'] => {
                if let Some(form) = self.check {
                    self.reader.read(form, number, seen)?;
                    self.reader.read(form, b"\n", seen)?;
                }
                done(Reply::Good);
            }
            [b'+', ..] => done(Reply::Good),
            [b'-', ..] => done(Reply::Refused(0)),
            other => return Err(format!("no answer of one line: {}", String::from_utf8_lossy(other))),
        }
        Ok(rest)
    }
}

fn read_head(head: &[u8]) -> Result<(u16, usize), String> {
    let text = std::str::from_utf8(head).map_err(|_| "a head that is not text".to_owned())?;
    let bad = || format!("no head of an answer with a length: {text:?}");
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|status| status.parse().ok());
    let length = text.lines().filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok()).flatten()
    });
    status.zip(length).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(protocol: Protocol, bytes: &[u8], cut: usize) -> (Vec<Reply>, u64) {
        let (mut replies, mut seen, mut got) =
            (Replies::new(protocol, Some(Form::Decimal)), Seen::default(), Vec::new());
        for piece in bytes.chunks(cut) {
            replies.feed(piece, &mut seen, |reply| got.push(reply)).unwrap();
        }
        (got, seen.count())
    }

    #[test]
    fn answers_are_told_apart_however_they_are_cut() {
        let good = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n12\n13\n";
        let refused = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}";
        let empty = "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n";
        let bytes = [good, good, refused, good, empty, good].concat();
        for cut in 1..bytes.len() {
            let (got, ids) = read(Protocol::Http, bytes.as_bytes(), cut);
            let refused = |status| Reply::Refused(status);
            assert_eq!(got, [Reply::Good, Reply::Good, refused(503), Reply::Good, refused(204), Reply::Good], "{cut}");
            assert_eq!(ids, 8);
        }
        for cut in 1..20 {
            let (got, ids) = read(Protocol::Resp, b":1\r\n:22\r\n-ERR no\r\n+OK\r\n", cut);
            assert_eq!((got, ids), (vec![Reply::Good, Reply::Good, Reply::Refused(0), Reply::Good], 2), "{cut}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let feed = |protocol, bytes: &[u8]| Replies::new(protocol, None).feed(bytes, &mut Seen::default(), |_| {});
        assert!(feed(Protocol::Http, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        assert!(feed(Protocol::Http, b"SSH-2.0-x\r\n\r\n").is_err());
        assert!(feed(Protocol::Http, &[b'x'; HEAD_LEN_MAX + 1]).is_err());
        assert!(feed(Protocol::Resp, b"$5\r\n").is_err());
    }

    #[test]
    fn requests_are_as_clients_write_them() {
        assert_eq!(resp_request("INCR order"), b"*2\r\n$4\r\nINCR\r\n$5\r\norder\r\n");
        assert!(http_request("h", "/uniq64", Some("text/plain")).ends_with(b"Accept: text/plain\r\n\r\n"));
    }
}
