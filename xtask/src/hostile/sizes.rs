//! Sizes of requests: of bodies, lists, and all tokens together.

use std::time::Duration;

use crate::serve::bodies::{self, EMBEDDINGS, post, post_chunked};
use crate::serve::{now, pause};

use super::Length;
use super::case::{Case, Seen, Stage};

/// The default limits.
const BODY_BYTES: usize = 16 << 20;
const INPUTS: usize = 2048;
const TOKENS: usize = 300_000;
/// Tokens of a text that count by default.
const TEXT_TOKENS: usize = 512;

/// A text of so many tokens: "a" is one.
fn tokens(number: usize) -> String {
    format!("\"{}\"", "a ".repeat(number))
}

/// Texts of so many tokens in all, as many as count of each.
fn split_tokens(stage: &Stage, number: usize) -> Vec<u8> {
    let mut texts = vec![tokens(TEXT_TOKENS); number / TEXT_TOKENS];
    texts.push(tokens(number % TEXT_TOKENS));
    stage.input(&format!("[{}]", texts.join(",")))
}

fn inputs(number: usize, statuses: &'static [u16]) -> Case {
    Case::new(format!("{number} inputs"), statuses, move |stage| {
        let texts: Vec<String> = (0..number).map(|index| format!("\"text {index}\"")).collect();
        let mut seen = stage.post(EMBEDDINGS, &stage.input(&format!("[{}]", texts.join(","))));
        if seen.status() == Some(200) && seen.rows != Some(number) {
            seen = Seen::fault(format!("{:?} rows for {number} texts", seen.rows));
        }
        vec![seen]
    })
}

/// The status of what a server takes.
const OK: &[u16] = &[200];

pub(super) fn cases(length: Length) -> Vec<Case> {
    let mut cases = vec![
        inputs(INPUTS - 1, &[200]),
        inputs(INPUTS, &[200]),
        inputs(INPUTS + 1, &[400]),
        inputs(1_000_000, &[400]),
    ];
    cases.push(Case::body("8,000,000 ids in one list", &[200, 400], |stage| {
        stage.input(&format!("[{}1]", "1,".repeat(8_000_000)))
    }));
    cases.push(Case::body("2,048 lists of ids", &[200, 400], |stage| {
        let list = format!("[{}100]", "100,".repeat(1000));
        stage.input(&format!("[{}]", vec![list; INPUTS].join(",")))
    }));
    cases.push(Case::body("ids that stand for many bytes", &[200, 400], |stage| {
        // A run of 81 blanks in cl100k.
        stage.input(&format!("[{}58040]", "58040,".repeat(2_000_000)))
    }));
    for (place, number, statuses) in [
        ("below the limit of tokens", TOKENS - 1, OK),
        ("at it", TOKENS, &[200]),
        ("above it", TOKENS + 1, &[400]),
    ] {
        cases.push(Case::body(
            format!("{number} tokens in texts of 512, {place}"),
            statuses,
            move |stage| split_tokens(stage, number),
        ));
        let one = if length == Length::Limited { &[200] } else { statuses };
        cases.push(Case::body(
            format!("{number} tokens in one text, {place}"),
            one,
            move |stage| stage.input(&tokens(number)),
        ));
    }
    for (place, bytes, statuses) in [
        ("below the limit", BODY_BYTES - 1, OK),
        ("at it", BODY_BYTES, &[200]),
        ("above it", BODY_BYTES + 1, &[413]),
    ] {
        cases.push(Case::body(
            format!("a body of {bytes} bytes, {place}"),
            statuses,
            move |stage| stage.padded(bytes),
        ));
        let name =
            format!("{bytes} bytes from a client that does not listen while it sends, {place}");
        cases.push(Case::new(name, statuses, move |stage| {
            vec![stage.deaf(&post(stage.address, EMBEDDINGS, &stage.padded(bytes)))]
        }));
        let name = format!("{bytes} bytes in chunks of 64 KiB, {place}");
        cases.push(Case::new(name, statuses, move |stage| {
            vec![stage.raw(&post_chunked(
                stage.address,
                EMBEDDINGS,
                &stage.padded(bytes),
                64 << 10,
            ))]
        }));
    }
    cases.push(Case::new("100,000 bytes in chunks of one byte", &[200], |stage| {
        vec![stage.raw(&post_chunked(stage.address, EMBEDDINGS, &stage.padded(100_000), 1))]
    }));
    cases.push(
        Case::new("16 MiB in chunks of one byte", &[200, 408, 413], |stage| {
            vec![stage.raw(&post_chunked(stage.address, EMBEDDINGS, &stage.padded(BODY_BYTES), 1))]
        })
        .within(30),
    );
    for length in ["1099511627776", "18446744073709551615"] {
        cases.push(
            Case::new(format!("a body of {length} bytes, announced"), &[400, 413, 431], move |stage| {
                let request = format!(
                    "POST {EMBEDDINGS} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\n\r\n",
                    stage.address,
                );
                vec![stage.raw(request.as_bytes())]
            })
            .bare(),
        );
    }
    for statement in ["100-continue", "200-ok"] {
        let statuses: &[u16] = if statement == "100-continue" { &[200] } else { &[200, 400, 417] };
        cases.push(Case::new(format!("Expect: {statement}"), statuses, move |stage| {
            vec![expecting(stage, statement, &stage.input("\"a\""))]
        }));
    }
    cases.push(Case::new("Expect: 100-continue with a body above the limit", &[413], |stage| {
        let fields = "expect: 100-continue\r\n";
        let request =
            bodies::post_with(stage.address, EMBEDDINGS, fields, &stage.padded(BODY_BYTES + 1));
        let head = request.len() - (BODY_BYTES + 1);
        let seen = stage.connect().map(|mut client| {
            let answer = client.send(&request[..head]).and_then(|()| client.receive());
            let continued = answer.is_ok_and(|answer| answer.continued);
            if continued {
                Seen::fault("the server asks for a body that it refuses")
            } else {
                Seen::of(answer)
            }
        });
        vec![seen.unwrap_or_else(Seen::failed)]
    }));
    cases
}

/// A request whose body is sent only when the server asks for it.
fn expecting(stage: &Stage, expectation: &str, body: &[u8]) -> Seen {
    let fields = format!("expect: {expectation}\r\n");
    let request = bodies::post_with(stage.address, EMBEDDINGS, &fields, body);
    let (head, body) = request.split_at(request.len() - body.len());
    let play = || {
        let mut client = stage.connect()?;
        client.send(head)?;
        // A client may send after a while without having been asked; this one waits for a word.
        let started = now();
        while expectation == "100-continue" && !client.has_news()? {
            if started.elapsed() > Duration::from_secs(2) {
                return Ok(Seen::fault("the server does not ask for the body"));
            }
            pause(Duration::from_millis(1));
        }
        client.send(body)?;
        Ok(Seen::of(client.receive()))
    };
    play().unwrap_or_else(Seen::failed)
}
