//! Every kind of value in every field of every route, and nesting.

use embed_server::Settings;

use super::{Client, ROUTES, Route, check, post, servers};
use crate::server::{settings, start};

/// What a field may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Input,
    Texts,
    OneInput,
    Text,
    Encoding,
    Dimensions,
    AnyNumber,
    Flag,
}

fn kind(route: &Route, name: &str) -> Kind {
    match (route.path, name) {
        (_, "model") => Kind::Model,
        ("/tokenize", "inputs") | (_, "inputs.sentences") => Kind::Texts,
        ("/tokenize", "dimensions") => Kind::AnyNumber,
        (_, "input" | "inputs") => Kind::Input,
        (_, "prompt") => Kind::OneInput,
        (_, "user" | "inputs.source_sentence") => Kind::Text,
        (_, "encoding_format") => Kind::Encoding,
        (_, "dimensions") => Kind::Dimensions,
        (_, "truncate" | "normalize") => Kind::Flag,
        _ => panic!("{name}: of no kind"),
    }
}

/// Values that no field takes, wherever they stand.
const REFUSED: &[&str] = &[
    "-1",
    "-0.5",
    "1.5",
    "1e-3",
    "1e999",
    "-1e999",
    "-9223372036854775809",
    "18446744073709551616",
    "[]",
    "{}",
    r#"{"a":1}"#,
    r#"{"":{"":[]}}"#,
    "[null]",
    "[true]",
    "[{}]",
    "[1.5]",
    "[-1]",
    "[1e999]",
    "[4294967296]",
    "[18446744073709551616]",
    r#"["a",1]"#,
    r#"[1,"a"]"#,
    r#"["a",null]"#,
    r#"["a",["b"]]"#,
    r#"[["a"]]"#,
    r#"[[1],"a"]"#,
    "[[1],2]",
    "[1,[2]]",
    "[[[1]]]",
    "[[1],[null]]",
    "[[1,[2]]]",
    "[[{}]]",
];

/// Values that are no JSON.
const MALFORMED: &[&str] = &[
    "",
    "nul",
    "NULL",
    "True",
    "NaN",
    "Infinity",
    "-Infinity",
    "undefined",
    "+1",
    "01",
    "1.",
    ".5",
    "0x10",
    "1e",
    "--1",
    "'a'",
    "\"a",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\t\"",
    "\"\n\"",
    "\"\0\"",
    "[1,]",
    "[,1]",
    "{,}",
    "{\"a\"}",
    "{\"a\":}",
    "{a:1}",
    "{\"a\":1,}",
    "/**/1",
    "1 2",
];

#[test]
fn values_that_no_field_takes_are_refused_by_name() {
    for server in &servers() {
        let mut client = Client::of(server);
        for route in &ROUTES {
            for (place, (name, _)) in route.fields.iter().enumerate() {
                for value in REFUSED {
                    let (status, body) = post(&mut client, route.path, route.with(place, value));
                    assert_eq!(status, 400, "{} {name}: {value}: {body}", route.path);
                    // A number that no reader of JSON has room for is no value of any field.
                    if !value.contains("1e999") {
                        let param = body["error"]["param"].as_str();
                        assert_eq!(param, Some(*name), "{} {value}: {body}", route.path);
                    }
                }
                for value in MALFORMED {
                    check(&mut client, route.path, route.with(place, value), 400);
                }
            }
        }
    }
}

/// What of these a field takes: the value, and the kinds that take it, always or with status 404.
const TAKEN: &[(&str, &[Kind])] = &[
    ("true", &[Kind::Flag]),
    ("false", &[Kind::Flag]),
    ("0", &[Kind::AnyNumber]),
    ("1", &[Kind::Dimensions, Kind::AnyNumber]),
    ("4", &[Kind::Dimensions, Kind::AnyNumber]),
    ("4.0", &[Kind::Dimensions, Kind::AnyNumber]),
    ("40e-1", &[Kind::Dimensions, Kind::AnyNumber]),
    ("1e3", &[Kind::AnyNumber]),
    ("5", &[Kind::AnyNumber]),
    ("2147483648", &[Kind::AnyNumber]),
    ("4294967297", &[Kind::AnyNumber]),
    ("9007199254740993", &[Kind::AnyNumber]),
    ("18446744073709551615", &[Kind::AnyNumber]),
    (r#""8""#, TEXTUAL),
    (r#""true""#, TEXTUAL),
    (r#""m""#, TEXTUAL),
    (r#""FLOAT""#, TEXTUAL),
    (r#""\u0000""#, TEXTUAL),
    (r#""\uffff\ufdd0""#, TEXTUAL),
    (r#""\ud83e\udd80""#, TEXTUAL),
    (r#"" ""#, TEXTUAL),
    (r#""float""#, ENCODED),
    (r#""base64""#, ENCODED),
    (r#"["a"]"#, &[Kind::Input, Kind::Texts, Kind::OneInput]),
    (r#"["a","8",""," "]"#, &[]),
    (r#"["a","8"," "]"#, &[Kind::Input, Kind::Texts]),
];

const TEXTUAL: &[Kind] = &[Kind::Model, Kind::Input, Kind::Texts, Kind::OneInput, Kind::Text];

const ENCODED: &[Kind] =
    &[Kind::Model, Kind::Input, Kind::Texts, Kind::OneInput, Kind::Text, Kind::Encoding];

#[test]
fn values_are_taken_by_the_fields_of_their_kind_alone() {
    for server in &servers() {
        let mut client = Client::of(server);
        for route in &ROUTES {
            for (place, (name, _)) in route.fields.iter().enumerate() {
                let kind = kind(route, name);
                for (value, kinds) in TAKEN {
                    // The one route that lists tokens has some for an empty text: none.
                    let lists_nothing = route.path == "/tokenize" && value.contains(r#""""#);
                    let expected = match kind {
                        Kind::Model if !kinds.contains(&kind) => 400,
                        Kind::Model if *value != r#""m""# => 404,
                        Kind::Texts if lists_nothing => 200,
                        _ if kinds.contains(&kind) => 200,
                        _ => 400,
                    };
                    check(&mut client, route.path, route.with(place, value), expected);
                }
            }
        }
    }
}

#[test]
fn null_is_a_field_that_is_not_there() {
    let server = start(settings());
    let mut client = Client::of(&server);
    for route in &ROUTES {
        for place in 0..route.fields.len() {
            let expected = if place < route.required { 400 } else { 200 };
            check(&mut client, route.path, route.with(place, "null"), expected);
        }
    }
}

#[test]
fn an_empty_text_is_refused_where_it_would_be_embedded() {
    let server = start(settings());
    let mut client = Client::of(&server);
    for route in &ROUTES {
        for (place, (name, _)) in route.fields.iter().enumerate() {
            let expected = match kind(route, name) {
                Kind::Text if *name == "user" => 200,
                Kind::Model => 404,
                Kind::Texts if route.path == "/tokenize" => 200,
                _ => 400,
            };
            check(&mut client, route.path, route.with(place, r#""""#), expected);
        }
    }
}

/// Lists of ids: the value, and the status with `cl100k`, `native` and `reject`.
const IDS: &[(&str, [u16; 3])] = &[
    ("[0]", [200, 200, 400]),
    ("[[0]]", [200, 200, 400]),
    ("[1.0]", [200, 200, 400]),
    ("[[1e0,2]]", [200, 200, 400]),
    ("[255]", [200, 200, 400]),
    ("[256]", [200, 400, 400]),
    ("[100255]", [200, 400, 400]),
    ("[100256]", [400; 3]),
    ("[100257]", [200, 400, 400]),
    ("[100277]", [400; 3]),
    ("[2147483648]", [400; 3]),
    ("[4294967295]", [400; 3]),
    ("[[]]", [400; 3]),
    ("[[1],[]]", [400; 3]),
];

#[test]
fn token_ids_are_what_the_server_takes_them_for() {
    for (number, server) in servers().iter().enumerate() {
        let mut client = Client::of(server);
        for route in &ROUTES {
            for (place, (name, _)) in route.fields.iter().enumerate() {
                let takes_ids = matches!(kind(route, name), Kind::Input | Kind::OneInput);
                for (value, expected) in IDS {
                    let expected = if takes_ids { expected[number] } else { 400 };
                    check(&mut client, route.path, route.with(place, value), expected);
                }
            }
        }
    }
}

/// A value of so many brackets within brackets.
fn nested(depth: usize, open: &str, close: &str) -> String {
    open.repeat(depth) + "0" + &close.repeat(depth)
}

const BRACKETS: [(&str, &str); 3] = [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")];

#[track_caller]
fn check_depth(client: &mut Client<'_>, route: &Route, limit: usize) {
    // The body itself is the first level, and an object in it that the route reads the second.
    let room = limit - if route.outer.is_some() { 2 } else { 1 };
    for (open, close) in BRACKETS {
        let of_each = open.matches(['[', '{']).count();
        for depth in [1, room / of_each, room / of_each + 1, 64, 127, 128, 129, 1000, 100_000] {
            let value = nested(depth, open, close);
            let fields = [route.fields, &[("more", value.as_str())]].concat();
            let expected = if depth * of_each <= room { 200 } else { 400 };
            check(client, route.path, route.body(&fields), expected);
            // The same without its end.
            let opened = open.repeat(depth);
            let fields = [route.fields, &[("more", opened.as_str())]].concat();
            check(client, route.path, route.body(&fields), 400);
        }
    }
}

#[test]
fn nesting_ends_at_the_limit() {
    // A field of `inputs` stands two levels deep on one route, and has a level of its own here.
    for limit in [3, 32, 127] {
        let server = start(Settings { json_depth: limit, ..settings() });
        let mut client = Client::of(&server);
        for route in &ROUTES {
            check_depth(&mut client, route, limit);
        }
    }
}

#[test]
fn the_smallest_limits_leave_room_for_the_fields_that_a_route_reads() {
    for limit in [1, 2] {
        let server = start(Settings { json_depth: limit, ..settings() });
        let mut client = Client::of(&server);
        for route in &ROUTES {
            check(&mut client, route.path, route.sound(), 200);
            for (value, expected) in [("0", 200), ("[[0]]", 400), (r#"{"a":{}}"#, 400)] {
                let fields = [route.fields, &[("more", value)]].concat();
                check(&mut client, route.path, route.body(&fields), expected);
            }
        }
    }
}

#[test]
fn nesting_in_a_field_that_a_route_reads_is_refused() {
    let server = start(settings());
    let mut client = Client::of(&server);
    for route in &ROUTES {
        for place in 0..route.fields.len() {
            for (open, close) in BRACKETS {
                for depth in [3, 31, 32, 128, 100_000] {
                    let value = nested(depth, open, close);
                    check(&mut client, route.path, route.with(place, &value), 400);
                    check(&mut client, route.path, route.with(place, &open.repeat(depth)), 400);
                }
            }
        }
    }
}

#[test]
fn lists_and_texts_end_at_their_limits() {
    let settings = Settings { max_inputs: 3, max_text_chars: 5, body_bytes: 400, ..settings() };
    let server = start(settings);
    let mut client = Client::of(&server);
    for route in &ROUTES {
        let place = route.required - 1;
        let (name, _) = route.fields[place];
        let takes_one = name == "prompt";
        for (value, expected) in [
            (r#"["a","b","c"]"#, if takes_one { 400 } else { 200 }),
            (r#"["a","b","c","d"]"#, 400),
            (r#""ééééé""#, 200),
            (r#""éééééé""#, 400),
            (r#"["aaaaa"]"#, 200),
            (r#"["aaaaaa"]"#, 400),
        ] {
            check(&mut client, route.path, route.with(place, value), expected);
        }
        let body = route.sound();
        let blanks = " ".repeat(400 - body.len());
        check(&mut client, route.path, format!("{body}{blanks}"), 200);
        check(&mut client, route.path, format!("{body}{blanks} "), 413);
    }
}
