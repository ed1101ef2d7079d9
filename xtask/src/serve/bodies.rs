//! Requests as bytes, made before anything is measured.

use std::net::SocketAddr;

use serde_json::json;

use crate::random::Random;

/// The route that all servers have in common.
pub(crate) const EMBEDDINGS: &str = "/v1/embeddings";

/// A request without a body.
pub(crate) fn get(address: SocketAddr, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes()
}

/// A request with a body of JSON, whose length it tells.
pub(crate) fn post(address: SocketAddr, path: &str, body: &[u8]) -> Vec<u8> {
    post_with(address, path, "", body)
}

/// The same with further lines in the head, each with its line end.
pub(crate) fn post_with(address: SocketAddr, path: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n{fields}\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// A request with a body in chunks of `chunk` bytes.
pub(crate) fn post_chunked(address: SocketAddr, path: &str, body: &[u8], chunk: usize) -> Vec<u8> {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for part in body.chunks(chunk) {
        request.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        request.extend_from_slice(part);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Float,
    Base64,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Base64 => "base64",
        }
    }
}

/// The body of a request for rows of `texts`; a single text is no list.
pub(crate) fn embeddings(model: &str, texts: &[String], format: Format) -> Vec<u8> {
    let input = match texts {
        [text] => json!(text),
        texts => json!(texts),
    };
    json!({ "model": model, "input": input, "encoding_format": format.name() })
        .to_string()
        .into_bytes()
}

/// Words of every day, as queries have them.
const WORDS: &[&str] = &[
    "how", "do", "I", "change", "the", "oil", "in", "my", "car", "what", "is", "best", "way", "to",
    "learn", "music", "at", "home", "find", "cheap", "flights", "from", "Paris", "weather",
    "tomorrow", "near", "river", "recipe", "for", "bread", "without", "yeast", "history", "of",
    "printing", "press", "error", "while", "reading", "a", "file", "network", "timeout", "after",
    "update", "children", "books", "about", "space", "garden", "plants", "that", "need", "little",
    "water", "when", "was", "bridge", "built", "and", "who", "designed", "it", "tax", "rules",
];

/// Short texts of 5 to 20 words, each different from the others, and the same for the same seed.
pub(crate) fn short_texts(number: usize, seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    (0..number)
        .map(|index| {
            let mut words = vec![index.to_string()];
            words.extend((0..random.within(4..20)).map(|_| random.pick(WORDS).to_owned()));
            words.join(" ")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_end_with_an_empty_one() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let request = post_chunked(address, "/", b"hello", 4);
        let text = String::from_utf8(request).unwrap();
        assert!(text.ends_with("\r\n\r\n4\r\nhell\r\n1\r\no\r\n0\r\n\r\n"), "{text}");
    }

    #[test]
    fn texts_differ_and_come_again() {
        let texts = short_texts(100, 7);
        assert_eq!(texts, short_texts(100, 7));
        let words = |text: &String| text.split(' ').count();
        assert!(texts.iter().all(|text| (5..=20).contains(&words(text))));
        let different: std::collections::BTreeSet<_> = texts.iter().collect();
        assert_eq!(different.len(), 100);
    }

    #[test]
    fn one_text_is_no_list() {
        let body = embeddings("m", &["a".to_owned()], Format::Base64);
        let text = String::from_utf8(body).unwrap();
        assert_eq!(text, r#"{"encoding_format":"base64","input":"a","model":"m"}"#);
    }
}
