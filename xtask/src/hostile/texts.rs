//! Texts that are long, or made of what tokenizers are slow at.

use super::Length;
use super::case::{Case, Stage};

/// The default limit of characters of a text.
const MOST_CHARACTERS: usize = 1_000_000;

/// A text of one repeated piece as JSON.
fn repeated(piece: &'static str, times: usize) -> impl Fn(&Stage) -> Vec<u8> {
    move |stage| stage.input(&format!("\"{}\"", piece.repeat(times)))
}

/// The status of what a server takes.
const OK: &[u16] = &[200];

pub(super) fn cases(length: Length) -> Vec<Case> {
    // Characters of which each is a token exceed the tokens of a request where no text is cut.
    let many_tokens: &[u16] = if length == Length::Limited { &[200] } else { &[400] };
    let mut cases = Vec::new();
    for (what, piece) in [
        ("\"a\"", "a"),
        ("a combining mark", "\u{301}"),
        ("a base with a combining mark", "e\u{301}"),
        ("a letter with a mark", "\u{e9}"),
        ("a space", " "),
        ("a control character, escaped", "\\u0001"),
        ("an escaped letter", "\\u0061"),
        ("a zero-width joiner", "\u{200d}"),
        ("a line end", "\\n"),
        ("an escaped pair of surrogates", "\\ud83d\\ude00"),
        ("two letters in turn", "ab"),
        ("an unassigned character", "\u{378}"),
    ] {
        let characters = match piece {
            "e\u{301}" | "ab" => 2,
            _ => 1,
        };
        for (place, times, statuses) in [
            ("below", MOST_CHARACTERS / characters - 1, OK),
            ("at", MOST_CHARACTERS / characters, &[200]),
            ("above", MOST_CHARACTERS / characters + 1, &[400]),
        ] {
            let name = format!("{what} x {times}, {place} the limit of characters");
            cases.push(Case::body(name, statuses, repeated(piece, times)));
        }
    }
    for (what, piece, bytes) in [("a CJK character", "\u{4e2d}", 3), ("a full stop", ".", 1)] {
        let times = 1_000_000 / bytes;
        let name = format!("{what} x {times}, a megabyte");
        cases.push(Case::body(name, many_tokens, repeated(piece, times)));
        let at = format!("{what} x {MOST_CHARACTERS}, at the limit of characters");
        cases.push(Case::body(at, many_tokens, repeated(piece, MOST_CHARACTERS)));
        let above = format!("{what} x {}, above it", MOST_CHARACTERS + 1);
        cases.push(Case::body(above, &[400], repeated(piece, MOST_CHARACTERS + 1)));
    }
    cases.push(Case::body("31 texts of 500,000 characters", &[200], |stage| {
        let text = format!("\"{}\"", "a".repeat(500_000));
        stage.input(&format!("[{}]", vec![text; 31].join(",")))
    }));
    cases.push(Case::body("31 texts of 250,000 words", many_tokens, |stage| {
        let text = format!("\"{}\"", "a ".repeat(250_000));
        stage.input(&format!("[{}]", vec![text; 31].join(",")))
    }));
    let name = "2,048 texts of 500,000 characters, which is a gigabyte";
    cases.push(Case::new(name, &[413], |stage| {
        let text = format!("\"{}\",", "a".repeat(500_000));
        let length = 2048 * text.len() + 40 + stage.model.len();
        let head = format!(
            "POST /v1/embeddings HTTP/1.1\r\nhost: {}\r\ncontent-length: {length}\r\n\
             content-type: application/json\r\n\r\n{{\"model\":\"{}\",\"input\":[",
            stage.address, stage.model,
        );
        vec![stage.stream(&[(head.as_bytes(), 1), (text.as_bytes(), 2048)])]
    }));
    cases.push(Case::new("the same in chunks", &[413], |stage| {
        let text = format!("\"{}\",", "a".repeat(500_000));
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        let start = format!("{{\"model\":\"{}\",\"input\":[", stage.model);
        let head = format!(
            "POST /v1/embeddings HTTP/1.1\r\nhost: {}\r\ntransfer-encoding: chunked\r\n\
             content-type: application/json\r\n\r\n{:x}\r\n{start}\r\n",
            stage.address,
            start.len(),
        );
        vec![stage.stream(&[(head.as_bytes(), 1), (chunk.as_bytes(), 2048)])]
    }));
    cases
}
