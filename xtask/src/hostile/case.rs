//! A case: what is sent, what may come back, and what no answer may ever be.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::serve::bodies;
use crate::serve::http::{Answer, Client, Failure, Sent};
use crate::serve::programs;

/// Stands in texts that the server must repeat nowhere: not in errors, metrics or logs.
pub(super) const CANARY: &str = "zqcanaryzq";

/// How long a client waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Something hostile, and how a server has to stand it.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) expects: Expects,
    pub(super) limit: Duration,
    pub(super) play: Play,
}

/// What is done in a case.
type Play = Box<dyn Fn(&Stage) -> Vec<Seen>>;

/// What may come back.
#[derive(Clone, Copy, Default)]
pub(super) struct Expects {
    pub(super) statuses: &'static [u16],
    pub(super) failures: &'static [Failure],
    /// Whether an error may have an empty body: what could not be read as HTTP never reached the routes.
    pub(super) bare: bool,
}

impl Case {
    /// A case that must end within ten seconds in an answer of one of the statuses.
    pub(super) fn new(
        name: impl Into<String>,
        statuses: &'static [u16],
        play: impl Fn(&Stage) -> Vec<Seen> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            expects: Expects { statuses, ..Expects::default() },
            limit: Duration::from_secs(10),
            play: Box::new(play),
        }
    }

    /// One request for embeddings.
    pub(super) fn body(
        name: impl Into<String>,
        statuses: &'static [u16],
        body: impl Fn(&Stage) -> Vec<u8> + 'static,
    ) -> Self {
        Self::new(name, statuses, move |stage| vec![stage.post(bodies::EMBEDDINGS, &body(stage))])
    }

    pub(super) fn or_fails(mut self, failures: &'static [Failure]) -> Self {
        self.expects.failures = failures;
        self
    }

    pub(super) fn bare(mut self) -> Self {
        self.expects.bare = true;
        self
    }

    pub(super) fn within(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }
}

/// What came of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) result: Result<u16, Failure>,
    /// Rows of the answer, where it has some.
    pub(super) rows: Option<usize>,
    /// Whether the body is empty.
    pub(super) empty: bool,
    /// What is wrong with it, whatever the case expects.
    pub(super) fault: Option<String>,
}

impl Seen {
    pub(super) fn of(result: Result<Answer<'_>, Failure>) -> Self {
        match result {
            Err(failure) => Self { result: Err(failure), rows: None, empty: true, fault: None },
            Ok(answer) => {
                let (rows, fault) = match judge(answer) {
                    Ok(rows) => (rows, None),
                    Err(fault) => (None, Some(fault)),
                };
                let empty = answer.body.is_empty();
                Self { result: Ok(answer.status), rows, empty, fault }
            }
        }
    }

    pub(super) fn failed(failure: Failure) -> Self {
        Self::of(Err(failure))
    }

    /// A fault of the server that is not in an answer.
    pub(super) fn fault(what: impl Into<String>) -> Self {
        Self { result: Ok(0), rows: None, empty: false, fault: Some(what.into()) }
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.result.ok()
    }
}

/// The number of rows, or what is wrong with an answer of this status.
fn judge(answer: Answer<'_>) -> Result<Option<usize>, String> {
    let text =
        std::str::from_utf8(answer.body).map_err(|_| "a body that is not UTF-8".to_owned())?;
    if text.contains(CANARY) {
        return Err(format!("status {} repeats a text", answer.status));
    }
    match answer.status {
        200 => {
            let Ok(body) = serde_json::from_str::<Value>(text) else { return Ok(None) };
            let Some(data) = body["data"].as_array() else { return Ok(None) };
            for (index, row) in data.iter().enumerate() {
                let values = row["embedding"].as_array();
                let numbers = values.is_some_and(|row| row.iter().all(Value::is_number));
                let base64 = row["embedding"].is_string();
                // A list of models has no embeddings.
                let listed = row["object"] == "model";
                if !(numbers || base64 || listed) || (!listed && row["index"] != index) {
                    return Err(format!("row {index} of a 200 is none"));
                }
            }
            Ok(Some(data.len()))
        }
        500..=599 if answer.status != 503 => Err(format!("status {}", answer.status)),
        400..=599 if !text.is_empty() => {
            let body: Value = serde_json::from_str(text)
                .map_err(|_| format!("status {}: the body is not JSON", answer.status))?;
            is_error_of_the_api(&body)
                .then_some(None)
                .ok_or_else(|| format!("status {}: the body is no error of the API", answer.status))
        }
        _ => Ok(None),
    }
}

/// `{"error": {"message", "type", "param", "code"}}`, all four and nothing else.
fn is_error_of_the_api(body: &Value) -> bool {
    let only = |value: &Value, keys: &[&str]| {
        let object = value.as_object();
        object.is_some_and(|object| {
            object.len() == keys.len() && keys.iter().all(|key| object.contains_key(*key))
        })
    };
    let error = &body["error"];
    let optional = |key: &str| error[key].is_string() || error[key].is_null();
    only(body, &["error"])
        && only(error, &["message", "type", "param", "code"])
        && error["message"].as_str().is_some_and(|message| !message.is_empty())
        && error["type"].is_string()
        && optional("param")
        && optional("code")
}

/// A server to be hostile to.
pub(super) struct Stage {
    pub(super) address: SocketAddr,
    /// The model that it serves.
    pub(super) model: String,
}

impl Stage {
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        Ok(Self { address, model: programs::first_model(address)? })
    }

    pub(super) fn connect(&self) -> Result<Client, Failure> {
        Client::connect(self.address, PATIENCE)
    }

    /// A body whose `input` is this JSON.
    pub(super) fn input(&self, input: &str) -> Vec<u8> {
        self.with_fields(input, "")
    }

    /// The same with further fields, each with a comma before it.
    pub(super) fn with_fields(&self, input: &str, fields: &str) -> Vec<u8> {
        format!(r#"{{"model":"{}","input":{input}{fields}}}"#, self.model).into_bytes()
    }

    /// A body of exactly `bytes` bytes, of which a field that no route knows takes most.
    pub(super) fn padded(&self, bytes: usize) -> Vec<u8> {
        let least = self.with_fields("\"a\"", r#","pad":"""#).len();
        let pad = "x".repeat(bytes - least);
        self.with_fields("\"a\"", &format!(r#","pad":"{pad}""#))
    }

    /// A request on a connection of its own; an early answer stops the sending.
    pub(super) fn post(&self, path: &str, body: &[u8]) -> Seen {
        self.raw(&bodies::post(self.address, path, body))
    }

    /// Bytes on a connection of their own; an early answer stops the sending.
    pub(super) fn raw(&self, request: &[u8]) -> Seen {
        self.stream(&[(request, 1)])
    }

    /// The same, of parts that are each sent several times.
    pub(super) fn stream(&self, parts: &[(&[u8], usize)]) -> Seen {
        let mut client = match self.connect() {
            Ok(client) => client,
            Err(failure) => return Seen::failed(failure),
        };
        'sending: for (part, times) in parts {
            for _ in 0..*times {
                match client.send_listening(part) {
                    Ok(Sent::Whole) => {}
                    Ok(Sent::Interrupted) | Err(Failure::Reset) => break 'sending,
                    Err(failure) => return Seen::failed(failure),
                }
            }
        }
        Seen::of(client.receive())
    }

    /// A request of a client that reads only after it has sent everything, as most do.
    pub(super) fn deaf(&self, request: &[u8]) -> Seen {
        match self.connect() {
            Ok(mut client) => Seen::of(client.exchange(request)),
            Err(failure) => Seen::failed(failure),
        }
    }

    /// Whether an ordinary request is served.
    pub(super) fn serves(&self) -> Seen {
        self.post(bodies::EMBEDDINGS, &self.input("\"a\""))
    }
}

/// Several results in few words: `200 x 3, 429, closed x 2`.
pub(super) fn summary(seen: &[Seen]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for seen in seen {
        let name = match seen.result {
            Ok(0) => continue,
            Ok(status) => status.to_string(),
            Err(failure) => failure.to_string(),
        };
        *counts.entry(name).or_default() += 1;
    }
    let mut text = String::new();
    for (name, count) in counts {
        let _ = match count {
            1 => write!(text, ", {name}"),
            _ => write!(text, ", {name} x {count}"),
        };
    }
    text.get(2..).unwrap_or("nothing").to_owned()
}

/// What is wrong with what was seen; nothing, if all is as expected.
pub(super) fn faults(expects: &Expects, seen: &[Seen]) -> Vec<String> {
    let mut faults = Vec::new();
    for seen in seen {
        if let Some(fault) = &seen.fault {
            faults.push(fault.clone());
            continue;
        }
        match seen.result {
            Ok(status) if !expects.statuses.contains(&status) => {
                faults.push(format!("status {status}"));
            }
            Ok(status) if status >= 400 && seen.empty && !expects.bare => {
                faults.push(format!("status {status} with an empty body"));
            }
            Err(failure) if !expects.failures.contains(&failure) => {
                faults.push(failure.to_string());
            }
            _ => {}
        }
    }
    faults.sort();
    faults.dedup();
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: bool) {
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(is_error_of_the_api(&body), expected);
    }

    #[test]
    fn errors_have_four_keys() {
        check(r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#, true);
        check(r#"{"error":{"message":"m","type":"t","param":"p","code":null}}"#, true);
        check(r#"{"error":{"message":"m","type":"t","param":null}}"#, false);
        check(r#"{"error":{"message":"","type":"t","param":null,"code":null}}"#, false);
        check(r#"{"error":{"message":"m","type":null,"param":null,"code":null}}"#, false);
        check(r#"{"error":"m","error_type":"t"}"#, false);
        check(r#"{"detail":[]}"#, false);
    }

    #[test]
    fn results_are_counted() {
        let status = |status| Seen { result: Ok(status), rows: None, empty: false, fault: None };
        let closed = Seen::failed(Failure::Unanswered);
        let seen = [status(429), status(200), closed.clone(), status(200), closed];
        assert_eq!(summary(&seen), "200 x 2, 429, closed x 2");
        assert_eq!(summary(&[]), "nothing");
        let expects = Expects { statuses: &[200], ..Expects::default() };
        assert_eq!(faults(&expects, &seen), ["closed", "status 429"]);
        let expects =
            Expects { statuses: &[200, 429], failures: &[Failure::Unanswered], bare: false };
        assert_eq!(faults(&expects, &seen), Vec::<String>::new());
    }

    #[test]
    fn an_empty_error_is_only_for_what_was_no_request() {
        let empty = Seen { result: Ok(400), rows: None, empty: true, fault: None };
        let mut expects = Expects { statuses: &[400], ..Expects::default() };
        assert_eq!(
            faults(&expects, std::slice::from_ref(&empty)),
            ["status 400 with an empty body"]
        );
        expects.bare = true;
        assert_eq!(faults(&expects, &[empty]), Vec::<String>::new());
    }
}
