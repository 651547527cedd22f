//! The end of a request's head, and whether it is one that needs nothing of HTTP but an answer.
//!
//! The parser is the one that hyper uses too, so that both see the same bytes as the same request. Whatever is not plain
//! here goes to hyper, which knows all of HTTP; nothing is answered, let alone refused, in this file.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::HEADERS_MAX;
use axum::http::Uri;
use std::mem::MaybeUninit;

/// The beginning of a connection's input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head<'a> {
    /// Part of a head, as far as can be told.
    Partial,
    /// A request without a body that keeps its connection open.
    Plain(Plain<'a>),
    /// Anything else.
    Other,
}

/// A request without a body, by GET or POST.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plain<'a> {
    /// Its target.
    pub(super) uri: Uri,
    /// Its one `Host` header.
    pub(super) host: &'a [u8],
    /// Its one `Accept` header, if there is one.
    pub(super) accept: Option<&'a str>,
    /// Its one `Authorization` header, if there is one.
    pub(super) authorization: Option<&'a [u8]>,
    /// Bytes that it takes.
    pub(super) len: usize,
}

/// Reads the head at the beginning of `input`.
pub(super) fn read(input: &[u8]) -> Head<'_> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(input, &mut headers) {
        Ok(httparse::Status::Partial) => Head::Partial,
        Ok(httparse::Status::Complete(len)) => plain(&request, len).map_or(Head::Other, Head::Plain),
        Err(_) => Head::Other,
    }
}

fn plain<'a>(request: &httparse::Request<'_, 'a>, len: usize) -> Option<Plain<'a>> {
    if request.version != Some(1) || !matches!(request.method, Some("GET" | "POST")) {
        return None;
    }
    let target = request.path.filter(|path| path.starts_with('/'))?;
    let (mut accept, mut host, mut authorization) = (None, None, None);
    for header in request.headers.iter() {
        let named = |name: &str| header.name.eq_ignore_ascii_case(name);
        // Told apart by their length first: most headers are none of these.
        match header.name.len() {
            // None, or two, is wrong; hyper's way says so.
            4 if named("host") => host = if host.is_none() { Some(header.value) } else { return None },
            6 if named("accept") => {
                let value = std::str::from_utf8(header.value).ok()?;
                // Two would have to be read as one.
                accept = if accept.is_none() { Some(value) } else { return None };
            }
            6 if named("expect") => return None,
            7 if named("upgrade") => return None,
            10 if named("connection") && !header.value.eq_ignore_ascii_case(b"keep-alive") => return None,
            13 if named("authorization") => {
                authorization = if authorization.is_none() { Some(header.value) } else { return None };
            }
            14 if named("content-length") && header.value != b"0" => return None,
            17 if named("transfer-encoding") => return None,
            _ => {}
        }
    }
    Some(Plain { uri: target.parse().ok()?, host: host?, accept, authorization, len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(headers: &str) -> String {
        format!("GET /uniq64?n=5 HTTP/1.1\r\nHost: a\r\n{headers}\r\n")
    }

    fn is_plain(text: &str) -> bool {
        matches!(read(text.as_bytes()), Head::Plain(Plain { len, .. }) if len == text.len())
    }

    #[test]
    fn what_most_clients_send_is_plain() {
        for headers in [
            "",
            "User-Agent: curl/8\r\nAccept: */*\r\n",
            "accept: application/json\r\nconnection: Keep-Alive\r\naccept-encoding: gzip\r\n",
            "Content-Length: 0\r\n",
            "Authorization: Bearer uniq_0\r\n",
        ] {
            assert!(is_plain(&request(headers)), "{headers}");
        }
        assert!(is_plain("POST /string/default?biz=a%20b HTTP/1.1\r\nhost: b\r\n\r\n"));
        let text = request("Accept: application/json\r\n");
        let Head::Plain(plain) = read(text.as_bytes()) else { panic!() };
        assert_eq!((plain.uri.path(), plain.host, plain.accept), ("/uniq64", &b"a"[..], Some("application/json")));
    }

    #[test]
    fn what_needs_more_of_http_is_not() {
        for headers in [
            "Content-Length: 1\r\n",
            "Content-Length: 0\r\nContent-Length: 5\r\n",
            "Content-Length: 00\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Expect: 100-continue\r\n",
            "Host: b\r\n",
            "Upgrade: websocket\r\n",
            "Connection: close\r\n",
            "Connection: keep-alive, upgrade\r\n",
            "Accept: text/plain\r\nAccept: application/json\r\n",
            "Authorization: Bearer a\r\nAuthorization: Bearer a\r\n",
            "Accept: \u{e9}\r\nAccept: a\r\n",
        ] {
            assert_eq!(read(request(headers).as_bytes()), Head::Other, "{headers}");
        }
        for start in [
            "GET /uniq64 HTTP/1.0",
            "HEAD /uniq64 HTTP/1.1",
            "PUT /uniq64 HTTP/1.1",
            "GET http://a/uniq64 HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "PRI * HTTP/2.0",
            "GET  /uniq64 HTTP/1.1",
        ] {
            assert_eq!(read(format!("{start}\r\n\r\n").as_bytes()), Head::Other, "{start}");
        }
        assert_eq!(read(b"GET /uniq64 HTTP/1.1\r\n\r\n"), Head::Other);
        let many = request(&"a: b\r\n".repeat(HEADERS_MAX));
        assert_eq!(read(many.as_bytes()), Head::Other);
    }

    #[test]
    fn a_head_is_partial_until_its_last_byte() {
        let text = request("Accept: */*\r\n");
        for end in 0..text.len() {
            assert_eq!(read(&text.as_bytes()[..end]), Head::Partial, "{end}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic_or_take_more_than_there_is(bytes: Vec<u8>, text in "(GET|POST) /[ -~]{0,20} HTTP/1.1\r\n([A-Za-z-]{1,8}: [ -~]{0,9}\r\n){0,4}\r\n") {
            for input in [bytes.as_slice(), text.as_bytes()] {
                if let Head::Plain(plain) = read(input) {
                    prop_assert!(plain.len <= input.len() && input[..plain.len].ends_with(b"\n"));
                }
            }
        }
    }
}
