//! A client as anybody would write it, but one that keeps what it received of an answer that broke off: an ID that
//! reached somebody is out in the world, whether or not the rest of the answer followed.

use crate::oracle::Ids;
use anyhow::{Context as _, Result, bail};
use reqwest::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderMap, SET_COOKIE};
use reqwest::redirect::Policy;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The password of the first admin of every cluster that tests start. Nothing in it has to be escaped in a form.
pub const ADMIN_PASSWORD: &str = "open-sesame-for-tests";

/// The longest time that an answer may take before the client gives up.
pub const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A kind that need not be registered: every agent has a generator `default` of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// 64 bits.
    Uniq64,
    /// 96 bits.
    Uniq96,
    /// By a template.
    String,
}

/// All of them.
pub const KINDS: [Kind; 3] = [Kind::Uniq64, Kind::Uniq96, Kind::String];

impl Kind {
    /// The path of its generator `default`, with what it needs of its caller, without a leading slash; more parameters may follow
    /// after `&`.
    pub fn path(self) -> &'static str {
        match self {
            Self::Uniq64 => "uniq64?",
            Self::Uniq96 => "uniq96?",
            Self::String => "string?biz=TEST&custom=00",
        }
    }

    /// The scope in which the IDs of that are unique.
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Uniq64 => "uniq64/default",
            Self::Uniq96 => "uniq96/default",
            Self::String => "string/default",
        }
    }
}

/// A form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// One ID a line.
    Text,
    /// `{"ids":["..."]}`.
    Json,
    /// 8 or 12 bytes each.
    Packed,
}

impl Media {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Text, Self::Json, Self::Packed];

    /// The media type to ask for it with, which the answer says, too.
    pub fn mime(self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::Json => "application/json",
            Self::Packed => "application/octet-stream",
        }
    }
}

/// An answer, whole or broken off.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, as far as it came.
    pub body: Vec<u8>,
    /// True if all of it came.
    pub whole: bool,
}

impl Answer {
    /// A header's value; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// If it is none.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("{}: not JSON: {}", self.status, self.text()))
    }

    /// The stable code of a problem document; empty if this is none.
    pub fn code(&self) -> String {
        let code = || Some(self.json().ok()?.get("code")?.as_str()?.to_owned());
        code().unwrap_or_default()
    }

    /// The IDs that came, in their default text form or packed; of a broken answer those that came whole.
    ///
    /// # Errors
    /// If something else came, or the status is not 200.
    pub fn ids(&self, kind: Kind, media: Media) -> Result<Ids> {
        if self.status != 200 {
            bail!("no IDs but {}: {}", self.status, self.text());
        }
        if media == Media::Packed {
            return packed(kind, &self.body, self.whole);
        }
        let body = std::str::from_utf8(&self.body).context("IDs that are not text")?;
        let texts = match media {
            Media::Json if self.whole => json_texts(&self.json()?)?,
            Media::Json => quoted(body),
            _ => lines(body, self.whole)?,
        };
        texts_as_ids(kind, texts)
    }
}

fn json_texts(value: &serde_json::Value) -> Result<Vec<String>> {
    let ids = value.get("ids").and_then(|ids| ids.as_array()).context("no ids")?;
    let text = |id: &serde_json::Value| Some(id.as_str()?.to_owned());
    ids.iter().map(|id| text(id).with_context(|| format!("{id} is not a string"))).collect()
}

/// The texts that stand whole in the beginning of `{"ids":["a","b"...`.
fn quoted(body: &str) -> Vec<String> {
    let ids = body.split_once('[').map_or("", |(_, ids)| ids);
    let parts: Vec<_> = ids.split('"').collect();
    let whole = if parts.len().is_multiple_of(2) { parts.len() - 1 } else { parts.len() };
    parts.into_iter().take(whole).skip(1).step_by(2).map(str::to_owned).collect()
}

fn lines(body: &str, whole: bool) -> Result<Vec<String>> {
    if whole && !body.ends_with('\n') {
        bail!("the last line does not end: {:?}", body.lines().last());
    }
    let ended = body.rfind('\n').map_or("", |end| body.get(..end).unwrap_or_default());
    Ok(ended.split('\n').filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

fn texts_as_ids(kind: Kind, texts: Vec<String>) -> Result<Ids> {
    Ok(match kind {
        Kind::Uniq64 => Ids::Uniq64(texts.iter().map(|id| uniq64(id)).collect::<Result<_>>()?),
        Kind::Uniq96 => Ids::Uniq96(texts.iter().map(|id| uniq96(id)).collect::<Result<_>>()?),
        Kind::String => Ids::Text(texts),
    })
}

/// A Uniq64 in its decimal form.
///
/// # Errors
/// If it is none.
pub fn uniq64(id: &str) -> Result<u64> {
    let bits = id.parse::<u64>().with_context(|| format!("'{id}' is not a decimal Uniq64"))?;
    if bits.to_string() != id {
        bail!("'{id}' is not written as a plain number");
    }
    Ok(bits)
}

/// A Uniq96 in its decimal form: the upper 64 bits in 20 digits, the serial in 10.
///
/// # Errors
/// If it is none.
pub fn uniq96(id: &str) -> Result<u128> {
    let halves = || {
        let (high, low) = id.split_at_checked(20)?;
        let digits = id.len() == 30 && id.bytes().all(|c| c.is_ascii_digit());
        digits.then_some((high.parse::<u64>().ok()?, low.parse::<u32>().ok()?))
    };
    let (high, low) = halves().with_context(|| format!("'{id}' is not a decimal Uniq96"))?;
    Ok((u128::from(high) << 32) | u128::from(low))
}

fn packed(kind: Kind, body: &[u8], whole: bool) -> Result<Ids> {
    let size = match kind {
        Kind::Uniq64 => 8,
        Kind::Uniq96 => 12,
        Kind::String => bail!("strings have no packed form"),
    };
    if whole && !body.len().is_multiple_of(size) {
        bail!("{} bytes are not a whole number of {size}", body.len());
    }
    let bits = |id: &[u8]| id.iter().fold(0u128, |bits, byte| (bits << 8) | u128::from(*byte));
    let ids = body.chunks_exact(size).map(bits);
    Ok(match kind {
        Kind::Uniq96 => Ids::Uniq96(ids.collect()),
        _ => Ids::Uniq64(ids.map(|bits| u64::try_from(bits).unwrap_or_default()).collect()),
    })
}

/// Logins for one answer of the console. Each master of a new cluster lets in the first admin by its own hash of the password
/// until the pair's record of that user arrives, which ends such a login: whoever came in that second logs in again.
const LOGINS_MAX: usize = 2;

/// Asks by HTTP. Cheap to copy; copies share their connections.
#[derive(Clone)]
pub struct Client(reqwest::Client, Arc<Mutex<BTreeMap<SocketAddr, String>>>);

impl Client {
    /// A client with time limits and no proxy.
    ///
    /// # Errors
    /// If the system's resolver cannot be set up.
    pub fn new() -> Result<Self> {
        let http = reqwest::Client::builder().no_proxy().connect_timeout(Duration::from_secs(5)).timeout(ANSWER_MAX);
        Ok(Self(http.redirect(Policy::none()).build()?, Arc::default()))
    }

    /// `GET` from a master's console, as the first admin: logs in if need be.
    ///
    /// # Errors
    /// If nothing answers, or nobody is let in.
    pub async fn console(&self, console: SocketAddr, path: &str) -> Result<Answer> {
        let ask = async || {
            let cookie = self.cookies().get(&console).cloned().unwrap_or_default();
            self.send(self.0.get(format!("http://{console}{path}")).header(COOKIE, cookie)).await
        };
        for _ in 0..LOGINS_MAX {
            let answer = ask().await?;
            if answer.status != 401 && answer.status != 303 {
                return Ok(answer);
            }
            let cookie = self.log_in(console, "admin", ADMIN_PASSWORD).await?;
            self.cookies().insert(console, cookie);
        }
        ask().await
    }

    /// Logs in at a master's console. The cookie.
    ///
    /// # Errors
    /// If nobody is let in.
    pub async fn log_in(&self, console: SocketAddr, user: &str, password: &str) -> Result<String> {
        let form = format!("user={user}&password={password}");
        let request = self.0.post(format!("http://{console}/login")).body(form);
        let answer = self.send(request.header(CONTENT_TYPE, "application/x-www-form-urlencoded")).await?;
        let cookie = answer.headers.get(SET_COOKIE).and_then(|set| set.to_str().ok()?.split(';').next());
        cookie.map(str::to_owned).with_context(|| format!("{user} was not let in: {} {}", answer.status, answer.text()))
    }

    /// `POST` to a master's console, as the first admin, whatever it changes.
    ///
    /// # Errors
    /// If nothing answers, or nobody is let in.
    pub async fn change(&self, console: SocketAddr, path: &str, body: &serde_json::Value) -> Result<Answer> {
        self.change_by(reqwest::Method::POST, console, path, body).await
    }

    /// As [`change`](Self::change), by another method.
    ///
    /// # Errors
    /// If nothing answers, or nobody is let in.
    pub async fn change_by(
        &self,
        method: reqwest::Method,
        console: SocketAddr,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<Answer> {
        let cookie = self.log_in(console, "admin", ADMIN_PASSWORD).await?;
        let me = self.0.get(format!("http://{console}/api/me")).header(COOKIE, &cookie);
        let me = self.send(me).await?.json()?;
        let csrf = me.get("csrf").and_then(|csrf| csrf.as_str()).context("no token for changes")?;
        let request = self.0.request(method, format!("http://{console}{path}")).header(COOKIE, cookie);
        let request = request.header("x-csrf-token", csrf).header(CONTENT_TYPE, "application/json");
        self.send(request.body(body.to_string())).await
    }

    fn cookies(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, String>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `GET`, accepting anything.
    ///
    /// # Errors
    /// If nothing answers.
    pub async fn get(&self, url: &str) -> Result<Answer> {
        self.send(self.0.get(url)).await
    }

    /// The value of a metric, its labels included in the name, of the program at this address.
    ///
    /// # Errors
    /// If nothing answers, or there is no such metric.
    pub async fn metric(&self, http: SocketAddr, name: &str) -> Result<u64> {
        let page = self.get(&format!("http://{http}/metrics")).await?.text();
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.with_context(|| format!("no {name} in {page}"))
    }

    /// `GET` of a form of answer.
    ///
    /// # Errors
    /// If nothing answers.
    pub async fn get_as(&self, url: &str, media: Media) -> Result<Answer> {
        self.send(self.0.get(url).header(ACCEPT, media.mime())).await
    }

    /// `POST` without a body.
    ///
    /// # Errors
    /// If nothing answers.
    pub async fn post(&self, url: &str) -> Result<Answer> {
        self.send(self.0.post(url)).await
    }

    /// A request by any method, with a body.
    ///
    /// # Errors
    /// If nothing answers.
    pub async fn ask(&self, method: &str, url: &str, body: Vec<u8>) -> Result<Answer> {
        self.send(self.0.request(method.parse()?, url).body(body)).await
    }

    /// `POST` of packed numbers, for packed numbers.
    ///
    /// # Errors
    /// If nothing answers.
    pub async fn post_packed(&self, url: &str, body: Vec<u8>) -> Result<Answer> {
        let mime = Media::Packed.mime();
        self.send(self.0.post(url).header(CONTENT_TYPE, mime).header(ACCEPT, mime).body(body)).await
    }

    /// The answer to a POST of a text, as numbers of eight bytes.
    ///
    /// # Errors
    /// If nothing answers.
    pub async fn post_lines(&self, url: &str, body: Vec<u8>) -> Result<Answer> {
        let (text, packed) = (Media::Text.mime(), Media::Packed.mime());
        self.send(self.0.post(url).header(CONTENT_TYPE, text).header(ACCEPT, packed).body(body)).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer> {
        let mut response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        let whole = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        Ok(Answer { status, headers, body, whole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &[u8], whole: bool) -> Answer {
        Answer { status: 200, headers: HeaderMap::new(), body: body.to_vec(), whole }
    }

    #[test]
    fn what_came_of_a_broken_answer_counts_as_far_as_it_is_whole() {
        let cases: [(&[u8], Media); 3] = [
            (b"1\n2\n3", Media::Text),
            (br#"{"ids":["1","2","3"#, Media::Json),
            (&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0], Media::Packed),
        ];
        for (body, media) in cases {
            assert_eq!(answer(body, false).ids(Kind::Uniq64, media).unwrap(), Ids::Uniq64(vec![1, 2]), "{media:?}");
            assert!(answer(body, true).ids(Kind::Uniq64, media).is_err(), "{media:?}");
        }
        for cut in ["", "{", r#"{"ids":["#, r#"{"ids":[""#] {
            assert!(answer(cut.as_bytes(), false).ids(Kind::String, Media::Json).unwrap().is_empty(), "{cut}");
        }
        let whole = answer(br#"{"ids":["1","2"]}"#, true);
        assert_eq!(whole.ids(Kind::Uniq64, Media::Json).unwrap(), Ids::Uniq64(vec![1, 2]));
    }

    #[test]
    fn numbers_are_read_exactly() {
        assert_eq!(uniq96("000000000000000000010000000002").unwrap(), (1 << 32) | 2);
        for bad in ["", "1", "00000000000000000001000000000x", "0000000000000000000100000000022"] {
            assert!(uniq96(bad).is_err(), "{bad}");
        }
        for bad in ["", "01", "+1", "-1", "1 "] {
            assert!(uniq64(bad).is_err(), "{bad}");
        }
    }
}
