//! What is no HTTP, HTTP of an unkind form, and requests that no route takes.

use std::fmt::Write as _;

use crate::random::Random;
use crate::serve::bodies::{self, EMBEDDINGS};
use crate::serve::http::Failure;

use super::case::{Case, Seen, Stage};

/// Ways to be told that this was no request.
const TURNED_AWAY: &[Failure] = &[Failure::Unanswered, Failure::Reset];

/// Bytes that are no request: an error without a body, or the end of the connection.
fn garbage(name: &str, bytes: impl Fn(&Stage) -> Vec<u8> + 'static) -> Case {
    Case::new(name, &[400, 414, 431, 505], move |stage| vec![unfinished(stage, &bytes(stage))])
        .or_fails(TURNED_AWAY)
        .bare()
}

/// Bytes, and the end of the client's side.
fn unfinished(stage: &Stage, bytes: &[u8]) -> Seen {
    let play = || {
        let mut client = stage.connect()?;
        // The server may have turned away before all is sent.
        match client.send_listening(bytes).and_then(|_| client.finish_sending()) {
            Ok(()) | Err(Failure::Reset | Failure::Other(_)) => {}
            Err(failure) => return Err(failure),
        }
        Ok(Seen::of(client.receive()))
    };
    play().unwrap_or_else(Seen::failed)
}

/// A good body under a head with other lines.
fn head(name: &str, statuses: &'static [u16], line: &'static str, fields: &'static str) -> Case {
    Case::new(name, statuses, move |stage| {
        let body = stage.input("\"a\"");
        let request =
            format!("{line}\r\n{fields}\r\n").replace("{HOST}", &stage.address.to_string());
        let request = request.replace("{LENGTH}", &body.len().to_string());
        vec![stage.raw(&[request.as_bytes(), &body].concat())]
    })
}

const POST: &str = "POST /v1/embeddings HTTP/1.1";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        garbage("4,096 random bytes", |_| {
            let mut random = Random::new(1);
            (0..512).flat_map(|_| random.next().to_le_bytes()).collect()
        }),
        garbage("16 MiB of random bytes", |_| {
            let mut random = Random::new(2);
            (0..2 << 20).flat_map(|_| random.next().to_le_bytes()).collect()
        }),
        garbage("1,000,000 NUL bytes", |_| vec![0; 1_000_000]),
        garbage("1,000,000 letters without a line end", |_| vec![b'A'; 1_000_000]),
        garbage("1,000,000 line ends", |_| b"\r\n".repeat(500_000)),
        garbage("the greeting of TLS", |_| {
            b"\x16\x03\x01\x00\xc4\x01\x00\x00\xc0\x03\x03 random \x00\x1c\x13\x01".to_vec()
        }),
        garbage("the greeting of HTTP/2", |_| {
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec()
        }),
        garbage("a version that is not there", |_| b"GET /healthz HTTP/9.9\r\n\r\n".to_vec()),
        garbage("half a head", |stage| {
            let mut request = bodies::get(stage.address, "/healthz");
            request.truncate(request.len() - 2);
            request
        }),
        garbage("a header of 1,000,000 bytes", |stage| {
            let request =
                String::from_utf8_lossy(&bodies::get(stage.address, "/healthz")).into_owned();
            let field = format!("\r\nx-long: {}\r\n\r\n", "h".repeat(1_000_000));
            request.replace("\r\n\r\n", &field).into_bytes()
        }),
        garbage("100,000 headers", |stage| {
            let request =
                String::from_utf8_lossy(&bodies::get(stage.address, "/healthz")).into_owned();
            let mut fields = String::new();
            for index in 0..100_000 {
                let _ = write!(fields, "x-{index}: 1\r\n");
            }
            request.replace("\r\n\r\n", &format!("\r\n{fields}\r\n")).into_bytes()
        }),
        garbage("a path of 1,000,000 bytes", |stage| {
            bodies::get(stage.address, &format!("/{}", "p".repeat(1_000_000)))
        }),
        garbage("a header name with a blank", |stage| {
            format!("GET /healthz HTTP/1.1\r\nhost: {}\r\na b: 1\r\n\r\n", stage.address)
                .into_bytes()
        }),
        garbage("a header with a NUL byte", |stage| {
            format!("GET /healthz HTTP/1.1\r\nhost: {}\r\na: \0\r\n\r\n", stage.address)
                .into_bytes()
        }),
        garbage("two different lengths", |stage| {
            format!(
                "{POST}\r\nhost: {}\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n123456",
                stage.address
            )
            .into_bytes()
        }),
        garbage("a negative length", |stage| {
            format!("{POST}\r\nhost: {}\r\ncontent-length: -1\r\n\r\n", stage.address).into_bytes()
        }),
        garbage("a length of 2^65", |stage| {
            format!(
                "{POST}\r\nhost: {}\r\ncontent-length: 36893488147419103232\r\n\r\n",
                stage.address
            )
            .into_bytes()
        }),
        garbage("an unknown transfer encoding", |stage| {
            format!("{POST}\r\nhost: {}\r\ntransfer-encoding: gzip\r\n\r\n", stage.address)
                .into_bytes()
        }),
        garbage("a chunk whose size is no number", |stage| {
            chunked(stage, "xyz\r\n{}\r\n0\r\n\r\n")
        }),
        garbage("a chunk whose size is 2^68", |stage| chunked(stage, "100000000000000000\r\n{}")),
        garbage("a chunk longer than it says", |stage| chunked(stage, "2\r\n{}xx\r\n0\r\n\r\n")),
        garbage("a chunk extension of 1,000,000 bytes", |stage| {
            chunked(stage, &format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "e".repeat(1_000_000)))
        }),
        garbage("trailers of 1,000,000 bytes", |stage| {
            chunked(stage, &format!("2\r\n{{}}\r\n0\r\nx: {}\r\n\r\n", "t".repeat(1_000_000)))
        }),
        garbage("chunks that end early", |stage| chunked(stage, "ff\r\n{}")),
        garbage("a body that ends early", |stage| {
            format!("{POST}\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{", stage.address)
                .into_bytes()
        }),
    ];
    cases.push(
        Case::new("a length and chunks", &[200, 400], |stage| {
            let request = format!(
                "{POST}\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\
                 transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n",
                stage.address,
            );
            vec![stage.raw(request.as_bytes())]
        })
        .or_fails(TURNED_AWAY)
        .bare(),
    );
    let json = "host: {HOST}\r\ncontent-type: application/json\r\ncontent-length: {LENGTH}\r\n";
    cases.extend([
        head("HTTP/1.0", &[200], "POST /v1/embeddings HTTP/1.0", json),
        head("no content type", &[200, 415], POST, "host: {HOST}\r\ncontent-length: {LENGTH}\r\n"),
        head(
            "another content type",
            &[415],
            POST,
            "host: {HOST}\r\ncontent-type: text/plain\r\ncontent-length: {LENGTH}\r\n",
        ),
        head(
            "a compressed body",
            &[415],
            POST,
            "host: {HOST}\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {LENGTH}\r\n",
        ),
        head(
            "another host",
            &[403, 421],
            POST,
            "host: example.org\r\ncontent-type: application/json\r\ncontent-length: {LENGTH}\r\n",
        ),
        head(
            "a host of this machine in another spelling",
            &[200],
            POST,
            "host: LOCALHOST:1\r\ncontent-type: application/json\r\ncontent-length: {LENGTH}\r\n",
        ),
        head("GET where POST is meant", &[405], "GET /v1/embeddings HTTP/1.1", "host: {HOST}\r\ncontent-length: {LENGTH}\r\n"),
        head("DELETE", &[405], "DELETE /v1/embeddings HTTP/1.1", "host: {HOST}\r\ncontent-length: {LENGTH}\r\n"),
        head("a method of its own", &[405], "BREW /v1/embeddings HTTP/1.1", "host: {HOST}\r\ncontent-length: {LENGTH}\r\n"),
        head("CONNECT", &[400, 403, 404, 405], "CONNECT {HOST} HTTP/1.1", "host: {HOST}\r\n"),
        head("TRACE", &[404, 405], "TRACE / HTTP/1.1", "host: {HOST}\r\ncontent-length: {LENGTH}\r\n"),
        head("OPTIONS *", &[200, 204, 400, 404, 405], "OPTIONS * HTTP/1.1", "host: {HOST}\r\ncontent-length: {LENGTH}\r\n"),
        head("a route that is not there", &[404], "POST /v1/nothing HTTP/1.1", json),
        head("a path that climbs", &[404], "GET /../../etc/passwd HTTP/1.1", "host: {HOST}\r\ncontent-length: {LENGTH}\r\n"),
        head("a path that is not UTF-8", &[404, 400], "GET /%ff%00 HTTP/1.1", "host: {HOST}\r\ncontent-length: {LENGTH}\r\n"),
        head("a model that is not UTF-8", &[404, 400], "GET /v1/models/%ff HTTP/1.1", "host: {HOST}\r\ncontent-length: {LENGTH}\r\n"),
        head("an upgrade that nobody offers", &[200], POST, "host: {HOST}\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-type: application/json\r\ncontent-length: {LENGTH}\r\n"),
        head("a deadline that is no number", &[400], POST, "host: {HOST}\r\nx-embed-deadline-ms: soon\r\ncontent-type: application/json\r\ncontent-length: {LENGTH}\r\n"),
        head("a deadline of 2^64", &[200, 400], POST, "host: {HOST}\r\nx-embed-deadline-ms: 18446744073709551616\r\ncontent-type: application/json\r\ncontent-length: {LENGTH}\r\n"),
        head("a priority that is not there", &[200, 400], POST, "host: {HOST}\r\nx-embed-priority: urgent\r\ncontent-type: application/json\r\ncontent-length: {LENGTH}\r\n"),
        head("a request id of another kind", &[200], POST, "host: {HOST}\r\nx-request-id: \u{e9} \"<script>\r\ncontent-type: application/json\r\ncontent-length: {LENGTH}\r\n"),
    ]);
    cases.push(
        Case::new("HEAD", &[200, 405], |stage| {
            let request = format!(
                "HEAD /healthz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
                stage.address
            );
            // The answer tells the length of a body that does not come.
            let seen = stage.raw(request.as_bytes());
            vec![if seen.result == Err(Failure::CutShort) {
                Seen { result: Ok(200), ..seen }
            } else {
                seen
            }]
        })
        .bare(),
    );
    cases.push(
        Case::new("a client that closes its side after the request", &[200], |stage| {
            vec![unfinished(stage, &bodies::post(stage.address, EMBEDDINGS, &stage.input("\"a\"")))]
        })
        .or_fails(&[Failure::Unanswered]),
    );
    cases.push(Case::new("100 requests at once on one connection", &[200], |stage| {
        pipelined(stage, &stage.input("\"a\""), 100)
    }));
    cases.push(Case::new(
        "good and bad requests at once on one connection",
        &[200, 400],
        |stage| {
            let play = || {
                let mut client = stage.connect()?;
                let good = bodies::post(stage.address, EMBEDDINGS, &stage.input("\"a\""));
                let bad = bodies::post(stage.address, EMBEDDINGS, &stage.input("[]"));
                client.send(&[&good[..], &bad, &good, &bad, &good].concat())?;
                let seen: Vec<Seen> = (0..5).map(|_| Seen::of(client.receive())).collect();
                let statuses: Vec<_> = seen.iter().filter_map(Seen::status).collect();
                if statuses != [200, 400, 200, 400, 200] {
                    return Ok(vec![Seen::fault(format!("answers out of order: {statuses:?}"))]);
                }
                Ok(seen)
            };
            play().unwrap_or_else(|failure| vec![Seen::failed(failure)])
        },
    ));
    cases.push(Case::new(
        "512 inputs, eight times at once on one connection",
        &[200, 429],
        |stage| {
            let texts: Vec<String> = (0..512).map(|index| format!("\"{index}\"")).collect();
            pipelined(stage, &stage.input(&format!("[{}]", texts.join(","))), 8)
        },
    ));
    cases
}

/// The same request several times in one piece.
fn pipelined(stage: &Stage, body: &[u8], times: usize) -> Vec<Seen> {
    let request = bodies::post(stage.address, EMBEDDINGS, body).repeat(times);
    let mut client = match stage.connect() {
        Ok(client) => client,
        Err(failure) => return vec![Seen::failed(failure)],
    };
    if let Err(failure) = client.send(&request) {
        return vec![Seen::failed(failure)];
    }
    (0..times).map(|_| Seen::of(client.receive())).collect()
}

/// A request whose body is already in chunks.
fn chunked(stage: &Stage, body: &str) -> Vec<u8> {
    format!(
        "{POST}\r\nhost: {}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{body}",
        stage.address,
    )
    .into_bytes()
}
