//! Clients that take their time: the server's own times are made short.

use std::time::Duration;

use crate::serve::bodies::{self, EMBEDDINGS};
use crate::serve::http::{Client, Failure};
use crate::serve::{now, pause};

use super::case::{Case, Seen, Stage};

pub(super) const SETTINGS: &[&str] = &[
    "--header-timeout",
    "1s",
    "--body-timeout",
    "1s",
    "--write-timeout",
    "1s",
    "--keep-alive",
    "2s",
];

/// How much later than its time a server may act.
const SLACK: Duration = Duration::from_secs(1);

const ENDS: &[Failure] = &[Failure::Unanswered, Failure::Reset, Failure::CutShort];

/// Many clients that send a byte now and then, while an ordinary one is served.
///
/// Each must be answered, or its connection ended, `time` after its first byte.
fn drip(stage: &Stage, clients: usize, first: &[u8], rest: &[u8], time: Duration) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut open: Vec<Client> = Vec::new();
    for _ in 0..clients {
        match stage.connect().and_then(|mut client| client.send(first).map(|()| client)) {
            Ok(client) => open.push(client),
            Err(failure) => seen.push(Seen::failed(failure)),
        }
    }
    // The time of the last one begins here.
    let started = now();
    for byte in rest.iter().cycle() {
        let mut still = Vec::new();
        for mut client in open {
            match client.has_news() {
                Ok(true) => seen.push(Seen::of(client.receive())),
                Err(failure) => seen.push(Seen::failed(failure)),
                Ok(false) => match client.send(&[*byte]) {
                    Ok(()) => still.push(client),
                    Err(_) => seen.push(Seen::of(client.receive())),
                },
            }
        }
        open = still;
        if open.is_empty() {
            break;
        }
        if started.elapsed() > time + SLACK {
            seen.push(Seen::fault(format!("{} connections are still open", open.len())));
            break;
        }
        seen.push(served(stage));
        pause(Duration::from_millis(50));
    }
    seen
}

/// An ordinary request, which must not notice anything.
fn served(stage: &Stage) -> Seen {
    let started = now();
    let seen = stage.serves();
    let took = started.elapsed();
    if took > Duration::from_millis(500) {
        return Seen::fault(format!("an ordinary request took {} ms", took.as_millis()));
    }
    seen
}

fn second() -> Duration {
    Duration::from_secs(1)
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("200 clients that send a head byte by byte", &[200, 408], |stage| {
            drip(stage, 200, b"GET /healthz HTTP/1.1\r\n", b"x-slow: 1\r\n", second())
        })
        .or_fails(ENDS)
        .bare(),
        Case::new("200 clients that send nothing", &[200, 408], |stage| {
            silent(stage, 200, b"", Duration::from_secs(2))
        })
        .or_fails(ENDS)
        .bare(),
        Case::new("200 clients that send half a head", &[200, 408], |stage| {
            silent(stage, 200, b"GET /healthz HTT", second())
        })
        .or_fails(ENDS)
        .bare(),
        Case::new("200 clients that send a body byte by byte", &[200, 408], |stage| {
            let head = announced(stage, 1000);
            drip(stage, 200, head.as_bytes(), b"{\"x\":1", second())
        }),
        Case::new("200 clients that send a body in slow chunks", &[200, 408], |stage| {
            let head = format!(
                "POST {EMBEDDINGS} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
                 transfer-encoding: chunked\r\n\r\n",
                stage.address,
            );
            drip(stage, 200, head.as_bytes(), b"1\r\n \r\n", second())
        }),
        Case::new("200 clients that announce 16 MiB and send nothing", &[200, 408], |stage| {
            silent(stage, 200, announced(stage, 16 << 20).as_bytes(), second())
        }),
        Case::new("200 clients that never ask again", &[200], |stage| {
            let mut clients = Vec::new();
            let mut seen = Vec::new();
            let request = bodies::get(stage.address, "/healthz");
            for _ in 0..200 {
                match stage.connect() {
                    Ok(mut client) => {
                        seen.push(Seen::of(client.exchange(&request)));
                        clients.push(client);
                    }
                    Err(failure) => seen.push(Seen::failed(failure)),
                }
            }
            seen.extend(until_ended(stage, clients, Duration::from_secs(2)));
            seen
        })
        .or_fails(ENDS),
        // Who stops reading stops sending too: the last body may be one that never comes.
        Case::new("32 clients that never read 4 x 2,048 rows", &[200, 408, 429, 503], |stage| {
            unread(stage, 32, 4)
        })
        .or_fails(ENDS)
        .within(30),
    ]
}

fn announced(stage: &Stage, length: usize) -> String {
    format!(
        "POST {EMBEDDINGS} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n",
        stage.address,
    )
}

/// Clients that send something and then nothing.
fn silent(stage: &Stage, clients: usize, first: &[u8], time: Duration) -> Vec<Seen> {
    let mut open = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..clients {
        match stage.connect().and_then(|mut client| client.send(first).map(|()| client)) {
            Ok(client) => open.push(client),
            Err(failure) => seen.push(Seen::failed(failure)),
        }
    }
    seen.extend(until_ended(stage, open, time));
    seen
}

/// What becomes of connections on which nothing is sent any more.
fn until_ended(stage: &Stage, mut open: Vec<Client>, time: Duration) -> Vec<Seen> {
    let started = now();
    let mut seen = Vec::new();
    loop {
        let mut still = Vec::new();
        for mut client in open {
            match client.has_news() {
                Ok(true) => seen.push(Seen::of(client.receive())),
                Ok(false) => still.push(client),
                Err(failure) => seen.push(Seen::failed(failure)),
            }
        }
        open = still;
        if open.is_empty() {
            return seen;
        }
        if started.elapsed() > time + SLACK {
            seen.push(Seen::fault(format!("{} connections are still open", open.len())));
            return seen;
        }
        seen.push(served(stage));
        pause(Duration::from_millis(50));
    }
}

/// Clients that ask for many rows and do not read them until the server should have given up.
fn unread(stage: &Stage, clients: usize, times: usize) -> Vec<Seen> {
    let texts: Vec<String> = (0..2048).map(|index| format!("\"text {index}\"")).collect();
    let body = stage.input(&format!("[{}]", texts.join(",")));
    let request = bodies::post(stage.address, EMBEDDINGS, &body).repeat(times);
    let mut open = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..clients {
        match stage.connect().and_then(|mut client| client.send_listening(&request).map(|_| client))
        {
            Ok(client) => open.push(client),
            Err(failure) => seen.push(Seen::failed(failure)),
        }
    }
    pause(Duration::from_secs(3));
    // With the readers given up, there is room again.
    seen.push(stage.serves());
    for mut client in open {
        loop {
            let one = Seen::of(client.receive());
            let ended = one.result.is_err();
            seen.push(one);
            if ended || seen.len() > clients * (times + 2) {
                break;
            }
        }
    }
    seen
}
