//! Bodies of every kind: whatever is sent, the answer comes, it is not the server's fault, and a refusal
//! has the four fields of an error.

mod generated;
mod values;

use embed_server::{Settings, TokenIds};
use serde_json::{Value, json};

use crate::client::{Answer, Connection};
use crate::model::row;
use crate::server::{Running, settings, start};

/// A route, and the fields of a body that it answers with 200.
struct Route {
    path: &'static str,
    /// Names, and values as JSON. A name with a dot is that of a field of an object within the body.
    fields: &'static [(&'static str, &'static str)],
    /// How many of them must be there.
    required: usize,
    /// A field that stands for others, in errors about them.
    outer: Option<&'static str>,
}

const ROUTES: [Route; 7] = [
    Route { path: "/v1/embeddings", fields: OPENAI, required: 2, outer: None },
    Route { path: "/embeddings", fields: OPENAI, required: 2, outer: None },
    Route {
        path: "/api/embed",
        fields: &[
            ("model", r#""m""#),
            ("input", r#"["a","b"]"#),
            ("truncate", "true"),
            ("dimensions", "2"),
        ],
        required: 2,
        outer: None,
    },
    Route {
        path: "/api/embeddings",
        fields: &[
            ("model", r#""m:latest""#),
            ("prompt", r#""a""#),
            ("truncate", "true"),
            ("dimensions", "2"),
        ],
        required: 2,
        outer: None,
    },
    Route { path: "/embed", fields: TEI, required: 1, outer: None },
    Route { path: "/tokenize", fields: TEI, required: 1, outer: None },
    Route {
        path: "/similarity",
        fields: &[("inputs.source_sentence", r#""a""#), ("inputs.sentences", r#"["b","c"]"#)],
        required: 2,
        outer: Some("inputs"),
    },
];

const OPENAI: &[(&str, &str)] = &[
    ("model", r#""m""#),
    ("input", r#"["a","b"]"#),
    ("encoding_format", r#""base64""#),
    ("dimensions", "2"),
    ("user", r#""u""#),
    ("truncate", "false"),
];

const TEI: &[(&str, &str)] = &[
    ("inputs", r#"["a","b"]"#),
    ("truncate", "false"),
    ("normalize", "false"),
    ("dimensions", "2"),
];

impl Route {
    /// The body of these fields, in their order.
    fn body(&self, fields: &[(&str, &str)]) -> String {
        let fields: Vec<String> = fields
            .iter()
            .map(|(name, value)| {
                let name = self
                    .outer
                    .and_then(|outer| name.strip_prefix(outer)?.strip_prefix('.'))
                    .unwrap_or(name);
                format!(r#""{name}":{value}"#)
            })
            .collect();
        let object = format!("{{{}}}", fields.join(","));
        match self.outer {
            Some(outer) => format!(r#"{{"{outer}":{object}}}"#),
            None => object,
        }
    }

    /// The body that is answered with 200.
    fn sound(&self) -> String {
        self.body(self.fields)
    }

    /// The same, with another value in the place of one.
    fn with(&self, place: usize, value: &str) -> String {
        let mut fields = self.fields.to_vec();
        fields[place].1 = value;
        self.body(&fields)
    }
}

/// Servers that differ in what token ids are to them.
fn servers() -> [Running; 3] {
    [TokenIds::Cl100k, TokenIds::Native, TokenIds::Reject]
        .map(|token_ids| start(Settings { token_ids, ..settings() }))
}

/// Posts bodies over a connection that is kept while the server keeps it.
struct Client<'a> {
    server: &'a Running,
    connection: Option<Connection>,
}

impl<'a> Client<'a> {
    fn of(server: &'a Running) -> Self {
        Self { server, connection: None }
    }

    /// Posts bytes that are said to be JSON, and reads the answer, which must be JSON.
    fn post(&mut self, path: &str, body: &[u8]) -> (Answer, Value) {
        let mut connection = self.connection.take().unwrap_or_else(|| self.server.connect());
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1
host: localhost
content-type: application/json
content-length: {length}

"
        );
        connection.write(&[head.as_bytes(), body].concat());
        let answer = connection.answer();
        if answer.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let json = serde_json::from_slice(&answer.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&answer.body)));
        (answer, json)
    }
}

/// Posts a body, checks what holds for every answer, and returns its status and body.
#[track_caller]
fn post(client: &mut Client<'_>, path: &str, body: impl AsRef<[u8]>) -> (u16, Value) {
    let body = body.as_ref();
    let (answer, json) = client.post(path, body);
    let holds = match answer.status {
        200 => is_sound(&json),
        400 | 404 | 413 => is_error(&json),
        _ => false,
    };
    assert!(holds, "{path} {}: {} {json}", shown(body), answer.status);
    (answer.status, json)
}

/// The beginning of a body.
fn shown(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned()
}

/// Posts a body, and checks the status too.
#[track_caller]
fn check(client: &mut Client<'_>, path: &str, body: impl AsRef<[u8]>, expected: u16) {
    let body = body.as_ref();
    let (status, json) = post(client, path, body);
    assert_eq!(status, expected, "{path} {}: {json}", shown(body));
}

/// Whether a body is that of an error: four fields, of their types.
fn is_error(body: &Value) -> bool {
    let keys = |value: &Value| -> Vec<String> {
        let mut keys: Vec<String> =
            value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        keys
    };
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let error = &body["error"];
    keys(body) == ["error"]
        && keys(error) == ["code", "message", "param", "type"]
        && is_text(&error["message"])
        && is_text(&error["type"])
        && [&error["param"], &error["code"]].iter().all(|field| field.is_null() || is_text(field))
}

/// Whether a 200 has a row of numbers wherever there is one: `null` would stand for a value that is none.
fn is_sound(body: &Value) -> bool {
    match body {
        Value::Array(values) => values.iter().all(|value| !value.is_null() && is_sound(value)),
        Value::Object(fields) => fields.values().all(is_sound),
        _ => true,
    }
}

#[test]
fn sound_bodies_are_answered_on_every_route() {
    let server = start(settings());
    let mut client = Client::of(&server);
    for route in &ROUTES {
        check(&mut client, route.path, route.sound(), 200);
    }
    let (_, rows) = post(&mut client, "/embed", br#"{"inputs":"abc"}"#);
    assert_eq!(rows[0][0], json!(row("abc")[0]));
}

#[test]
fn a_field_that_must_be_there_is_named_when_it_is_missing() {
    let server = start(settings());
    let mut client = Client::of(&server);
    for route in &ROUTES {
        for (place, (name, _)) in route.fields.iter().enumerate() {
            let mut fields = route.fields.to_vec();
            fields.remove(place);
            let (status, body) = post(&mut client, route.path, route.body(&fields));
            let is_required = place < route.required;
            assert_eq!(status, if is_required { 400 } else { 200 }, "{body}");
            if is_required {
                assert_eq!(body["error"]["param"], *name);
            }
        }
        for body in ["{}", r#"{"other":1}"#, r#"{"inputs":{}}"#, r#"{"inputs":null}"#] {
            check(&mut client, route.path, body, 400);
        }
    }
}

#[test]
fn only_an_object_is_a_body() {
    let server = start(settings());
    let mut client = Client::of(&server);
    for route in &ROUTES {
        for body in ["", " ", "null", "true", "1", "-1", "1.5", r#""a""#, "[]", r#"["a"]"#, "[{}]"]
        {
            check(&mut client, route.path, body, 400);
        }
    }
}

#[test]
fn of_a_field_that_is_there_twice_the_last_counts_and_both_are_checked() {
    let server = start(settings());
    let mut client = Client::of(&server);
    for route in &ROUTES {
        for (name, value) in route.fields {
            let twice = |first, second| {
                let before = [(*name, first)];
                let mut fields = [&before[..], route.fields].concat();
                let last =
                    fields.iter().rposition(|(field, _)| field == name).expect("it is there");
                fields[last].1 = second;
                route.body(&fields)
            };
            check(&mut client, route.path, twice(value, value), 200);
            check(&mut client, route.path, twice("null", value), 200);
            check(&mut client, route.path, twice("{}", value), 400);
            check(&mut client, route.path, twice(value, "{}"), 400);
        }
    }
    let (_, rows) = post(&mut client, "/embed", br#"{"inputs":["a"],"inputs":"bcd"}"#);
    assert_eq!((rows[0][0].clone(), rows[1].clone()), (json!(row("bcd")[0]), Value::Null));
}

#[test]
fn a_body_that_ends_early_is_refused_wherever_it_ends() {
    let server = start(settings());
    let mut client = Client::of(&server);
    for route in &ROUTES {
        let body = route.sound();
        for end in 0..body.len() {
            check(&mut client, route.path, &body[..end], 400);
        }
    }
}

#[test]
fn nothing_may_stand_around_a_body_but_blanks() {
    let server = start(settings());
    let mut client = Client::of(&server);
    for route in &ROUTES {
        let body = route.sound();
        check(&mut client, route.path, format!(" \t\r\n{body}\n\n "), 200);
        for more in ["x", "{}", ",", "}", "]", "null", "\0", "\u{a0}", "//", "\u{feff}"] {
            check(&mut client, route.path, format!("{body}{more}"), 400);
            check(&mut client, route.path, format!("{more}{body}"), 400);
        }
        check(&mut client, route.path, format!("{body}{body}"), 400);
    }
}

#[test]
fn bytes_that_are_not_text_are_refused_wherever_they_stand() {
    let server = start(settings());
    let mut client = Client::of(&server);
    // Beside fields that routes know stands one that none knows, with names and texts within it.
    let unknown = ("more", r#"{"name":["text",{"other":"text"}]}"#);
    for route in &ROUTES {
        let fields = [route.fields, &[unknown]].concat();
        let body = route.body(&fields);
        check(&mut client, route.path, &body, 200);
        for bytes in [&b"\xff"[..], b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]
        {
            for place in 0..=body.len() {
                let (before, after) = body.as_bytes().split_at(place);
                check(&mut client, route.path, [before, bytes, after].concat(), 400);
            }
        }
    }
}

#[test]
fn half_a_surrogate_pair_is_refused_wherever_it_stands() {
    let server = start(settings());
    let mut client = Client::of(&server);
    let halves = [r"\ud800", r"\udbff", r"\udc00", r"\udfff", r"\ud800\u0041", r"\udc00\ud800"];
    for route in &ROUTES {
        for half in halves {
            let text = format!(r#""a{half}b""#);
            for (place, _) in route.fields.iter().enumerate() {
                check(&mut client, route.path, route.with(place, &text), 400);
                check(&mut client, route.path, route.with(place, &format!("[{text}]")), 400);
            }
            let places = [
                text.clone(),
                format!("[{text}]"),
                format!("{{{text}:1}}"),
                format!("[{{{text}:[]}}]"),
            ];
            for value in places {
                let fields = [route.fields, &[("more", value.as_str())]].concat();
                check(&mut client, route.path, route.body(&fields), 400);
            }
            let body = route.sound();
            check(&mut client, route.path, format!("{{{text}:1,{}", &body[1..]), 400);
        }
        let whole = r#"{"more":"\ud83e\udd80","#.to_owned() + &route.sound()[1..];
        check(&mut client, route.path, whole, 200);
    }
}
