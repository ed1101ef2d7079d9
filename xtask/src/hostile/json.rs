//! Bodies that are no JSON, JSON of an unkind form, and JSON of the wrong kind.

use std::fmt::Write as _;

use crate::serve::bodies::EMBEDDINGS;

use super::case::{CANARY, Case};

/// Lists within lists, in a field that no route knows.
fn nested(name: &str, lists: usize, statuses: &'static [u16]) -> Case {
    Case::body(name, statuses, move |stage| {
        let field = format!(r#","x":{}{}"#, "[".repeat(lists), "]".repeat(lists));
        stage.with_fields("\"a\"", &field)
    })
}

fn raw(name: &str, statuses: &'static [u16], body: &'static [u8]) -> Case {
    Case::body(name, statuses, move |_| body.to_vec())
}

/// A body whose `input` is this JSON.
fn input(name: &str, statuses: &'static [u16], input: &'static str) -> Case {
    Case::body(name, statuses, move |stage| stage.input(input))
}

/// A good input with another field.
fn field(name: &str, statuses: &'static [u16], field: &'static str) -> Case {
    Case::body(name, statuses, move |stage| stage.with_fields("\"a\"", &format!(",{field}")))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        // The object is the first level.
        nested("31 levels of JSON", 30, &[200]),
        nested("32 levels of JSON", 31, &[200]),
        nested("33 levels of JSON", 32, &[400]),
        nested("100,001 levels of JSON", 100_000, &[400]),
        Case::body("8,000,000 open brackets", &[400], |_| vec![b'['; 8_000_000]),
        Case::body("1,000,000 open objects", &[400], |_| br#"{"a":"#.repeat(1_000_000)),
        Case::body("33 levels within the input", &[400], |stage| {
            stage.input(&format!("{}{}", "[".repeat(33), "]".repeat(33)))
        }),
        raw("an empty body", &[400], b""),
        raw("blanks", &[400], b" \n\t "),
        raw("null", &[400], b"null"),
        raw("a list", &[400], b"[]"),
        raw("an empty object", &[400], b"{}"),
        raw("a byte order mark", &[400], b"\xef\xbb\xbf{}"),
        raw("UTF-16", &[400], b"{\0}\0"),
        raw("bytes that are not UTF-8 in a key", &[400], b"{\"\xff\":1}"),
        Case::body("bytes that are not UTF-8 in a text", &[400], |stage| {
            let mut body = stage.input("\"ab\"");
            let at = body.len() - 3;
            body[at] = 0xff;
            body
        }),
        Case::body("a NUL byte in a text", &[400], |stage| stage.input("\"a\0b\"")),
        Case::body("something after the body", &[400], |stage| {
            [stage.input("\"a\""), b"{}".to_vec()].concat()
        }),
        Case::body("a body that is cut off", &[400], |stage| {
            let mut body = stage.input("\"a\"");
            body.truncate(body.len() - 1);
            body
        }),
        Case::body("the field input twice", &[200, 400], |stage| {
            stage.with_fields("\"a\"", r#","input":"b""#)
        }),
        input("a lone high surrogate", &[400], r#""a\ud800b""#),
        input("a lone low surrogate", &[400], r#""a\udc00b""#),
        input("two high surrogates", &[400], r#""\ud800\ud800""#),
        input("surrogates in the wrong order", &[400], r#""\udc00\ud800""#),
        input("a high surrogate at the end", &[400], r#""\ud800""#),
        input("a surrogate before another escape", &[400], r#""\ud800\n""#),
        input("a surrogate in the second of two texts", &[400], r#"["a","\udfff"]"#),
        input("half an escape", &[400], r#""\u00""#),
        input("an unknown escape", &[400], r#""\x""#),
        field("a lone surrogate in a field that is ignored", &[200, 400], r#""x":"\ud800""#),
        field("a lone surrogate in a key", &[200, 400], r#""\ud800":1"#),
        input("no text", &[400], "null"),
        input("an empty list", &[400], "[]"),
        input("an empty text", &[400], r#""""#),
        input("an empty text among others", &[400], r#"["a",""]"#),
        input("a list with null", &[400], r#"["a",null]"#),
        input("a list with a list in it", &[400], r#"["a",["b"]]"#),
        input("a number", &[400], "1"),
        input("true", &[400], "true"),
        input("an object", &[400], "{}"),
        input("texts and ids", &[400], r#"["a",1]"#),
        input("ids and texts", &[400], r#"[1,"a"]"#),
        input("a list of empty lists", &[400], "[[],[]]"),
        input("a negative id", &[400], "[-1]"),
        input("an id with a fraction", &[400], "[1.5]"),
        input("an id of 2^31", &[400], "[2147483648]"),
        input("an id of 2^32", &[400], "[4294967296]"),
        input("an id of 2^64", &[400], "[18446744073709551616]"),
        input("an id of 1e400", &[400], "[1e400]"),
        field("dimensions of zero", &[400], r#""dimensions":0"#),
        field("dimensions of one", &[200], r#""dimensions":1"#),
        field("negative dimensions", &[400], r#""dimensions":-1"#),
        field("dimensions of 2^64", &[400], r#""dimensions":18446744073709551616"#),
        field("dimensions of 1e400", &[400], r#""dimensions":1e400"#),
        field("dimensions as text", &[400], r#""dimensions":"1""#),
        field("an unknown format", &[400], r#""encoding_format":"int4""#),
        field("a format that is a number", &[400], r#""encoding_format":1"#),
        field(
            "null wherever it may be",
            &[200],
            r#""encoding_format":null,"dimensions":null,"user":null"#,
        ),
        field("infinity in a field that is ignored", &[400], r#""x":Infinity"#),
        field("1e400 in a field that is ignored", &[200, 400], r#""x":1e400"#),
    ];
    cases.push(Case::body("a number of a million digits", &[200, 400], |stage| {
        stage.with_fields("\"a\"", &format!(r#","x":{}"#, "9".repeat(1_000_000)))
    }));
    cases.push(Case::body("dimensions of a million digits", &[400], |stage| {
        stage.with_fields("\"a\"", &format!(r#","dimensions":{}"#, "9".repeat(1_000_000)))
    }));
    for megabytes in [1, 8, 15] {
        cases.push(Case::body(format!("a key of {megabytes} MB"), &[200], move |stage| {
            let key = "k".repeat(megabytes * 1_000_000);
            stage.with_fields("\"a\"", &format!(r#","{key}":1"#))
        }));
    }
    cases.push(Case::body("2^20 unknown fields", &[200], |stage| {
        let mut fields = String::new();
        for index in 0..1 << 20 {
            let _ = write!(fields, r#","k{index:x}":0"#);
        }
        stage.with_fields("\"a\"", &fields)
    }));
    cases.push(Case::body("2^20 times the field model", &[200, 400], |stage| {
        let field = format!(r#","model":"{}""#, stage.model);
        stage.with_fields("\"a\"", &field.repeat((15 << 20) / field.len()))
    }));
    cases.push(Case::body("an unknown model with a name of a megabyte", &[404, 400], |_| {
        format!(r#"{{"model":"{}","input":"a"}}"#, "m".repeat(1_000_000)).into_bytes()
    }));
    cases.push(Case::body("a model that is a list", &[400], |_| {
        br#"{"model":[],"input":"a"}"#.to_vec()
    }));
    cases.push(Case::body("no model", &[400], |_| br#"{"input":"a"}"#.to_vec()));
    cases.push(Case::new("a text in a request with a fault", &[400], |stage| {
        let text = format!("\"{CANARY} {CANARY}\"");
        [
            stage.input(&format!("[{text},5]")),
            stage.input(&format!("[{text},\"\"]")),
            stage.input(&format!("{{{text}:1}}")),
            stage.with_fields(&text, r#","dimensions":0"#),
            stage.with_fields(&text, r#","encoding_format":1"#),
            stage.with_fields(&text, ",}"),
            stage.with_fields("\"a\"", &format!(r#","dimensions":{text}"#)),
            stage.input(&text[..text.len() - 1]),
        ]
        .iter()
        .map(|body| stage.post(EMBEDDINGS, body))
        .collect()
    }));
    cases.extend(other_routes());
    cases
}

/// The adapters answer in formats of their own, and err in that of the API.
fn other_routes() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in ["/api/embed", "/api/embeddings", "/embed", "/tokenize", "/similarity"] {
        let case = |what: &str, statuses, body: Vec<u8>| {
            Case::new(format!("{path}: {what}"), statuses, move |stage| {
                vec![stage.post(path, &body)]
            })
        };
        let deep = format!(r#"{{"x":{}"#, "[".repeat(100_000));
        cases.extend([
            case("an empty body", &[400], Vec::new()),
            case("a body that is cut off", &[400], b"{\"input".to_vec()),
            case(
                "the wrong kind",
                &[400],
                br#"{"model":1,"inputs":1,"input":1,"prompt":1}"#.to_vec(),
            ),
            case("deep JSON", &[400], deep.into_bytes()),
            case("16 MiB and a byte", &[413], vec![b' '; (16 << 20) + 1]),
        ]);
    }
    cases
}
