//! Many clients at the same time.

use std::thread;
use std::time::Duration;

use crate::serve::bodies::{self, EMBEDDINGS};
use crate::serve::http::{Client, Failure};
use crate::serve::{now, pause};

use super::case::{Case, Seen, Stage};

/// Statuses of a server that may have no room.
const PERHAPS: &[u16] = &[200, 429, 503];

/// The same request from several clients at once.
fn at_once(stage: &Stage, clients: usize, body: &[u8]) -> Vec<Seen> {
    let request = bodies::post(stage.address, EMBEDDINGS, body);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(|| stage.raw(&request))).collect();
        let seen = |client: thread::ScopedJoinHandle<'_, Seen>| {
            client.join().unwrap_or_else(|_| Seen::fault("a client panicked"))
        };
        clients.into_iter().map(seen).collect()
    })
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("8 bodies of 16 MiB at once, of one field that is ignored", PERHAPS, |stage| {
            at_once(stage, 8, &stage.padded(16 << 20))
        }),
        Case::new("16 bodies of 16 MiB at once, of 31 texts", &[200, 400, 429, 503], |stage| {
            let text = format!("\"{}\"", "a ".repeat(250_000));
            at_once(stage, 16, &stage.input(&format!("[{}]", vec![text; 31].join(","))))
        })
        .within(30),
        Case::new("16 bodies of 16 MiB at once, of escapes", &[200, 400, 429, 503], |stage| {
            let text = format!("\"{}\"", "\\u4e2d".repeat(165_000));
            at_once(stage, 16, &stage.input(&format!("[{}]", vec![text; 16].join(","))))
        })
        .within(30),
        Case::new("16 bodies of 16 MiB at once, of ids", &[200, 400, 429, 503], |stage| {
            at_once(stage, 16, &stage.input(&format!("[{}1]", "1,".repeat(8_000_000))))
        })
        .within(30),
        Case::new("64 clients with 2,048 inputs each", PERHAPS, |stage| {
            let texts: Vec<String> = (0..2048).map(|index| format!("\"text {index}\"")).collect();
            at_once(stage, 64, &stage.input(&format!("[{}]", texts.join(","))))
        })
        .within(30),
        Case::new("64 clients that do not read 2,048 rows each", PERHAPS, unread).within(30),
        Case::new("64 clients that leave without reading 2,048 rows each", PERHAPS, |stage| {
            for _ in 0..4 {
                // The clients of a round leave together.
                drop(asked(stage, 64));
            }
            vec![recovered(stage)]
        })
        .within(30),
        // Of those beyond the limit, a few at a time are told so; the others are turned away without a word.
        Case::new("1,100 connections at once", PERHAPS, |stage| crowd(stage, 1100))
            .or_fails(&[Failure::Unanswered, Failure::Reset])
            .within(30),
        Case::new("5,000 connections one after the other", &[200], |stage| {
            let request = bodies::get(stage.address, "/healthz");
            (0..5000).map(|_| stage.raw(&request)).collect()
        })
        .within(30),
        Case::new("5,000 connections that leave at once", &[200], |stage| {
            for _ in 0..5000 {
                if let Err(failure) = stage.connect() {
                    return vec![Seen::failed(failure)];
                }
            }
            vec![recovered(stage)]
        })
        .within(30),
    ]
}

/// For a server that may open fewer files than it may have connections.
pub(super) fn cases_of_few_files() -> Vec<Case> {
    vec![
        Case::new("120 connections where 64 files may be open", PERHAPS, |stage| crowd(stage, 120))
            .within(30),
    ]
}

/// Clients that have sent a request for many rows.
fn asked(stage: &Stage, clients: usize) -> Vec<Result<Client, Failure>> {
    let texts: Vec<String> = (0..2048).map(|index| format!("\"text {index}\"")).collect();
    let body = stage.input(&format!("[{}]", texts.join(",")));
    let request = bodies::post(stage.address, EMBEDDINGS, &body);
    (0..clients)
        .map(|_| {
            let mut client = stage.connect()?;
            client.send_listening(&request)?;
            Ok(client)
        })
        .collect()
}

/// Answers that stay unread for a while, and a server that must have room for others all the same.
fn unread(stage: &Stage) -> Vec<Seen> {
    let clients = asked(stage, 64);
    pause(Duration::from_secs(2));
    let mut seen = vec![stage.serves()];
    for client in clients {
        seen.push(match client {
            Ok(mut client) => Seen::of(client.receive()),
            Err(failure) => Seen::failed(failure),
        });
    }
    seen.push(recovered(stage));
    seen
}

/// An ordinary request, which must be served within some seconds.
fn recovered(stage: &Stage) -> Seen {
    let started = now();
    loop {
        let seen = stage.serves();
        if seen.status() == Some(200) {
            return seen;
        }
        if started.elapsed() > Duration::from_secs(5) {
            return Seen::fault("no ordinary request is served afterwards");
        }
        pause(Duration::from_millis(50));
    }
}

/// More connections than a server takes: some are answered, and the others when those have left.
fn crowd(stage: &Stage, number: usize) -> Vec<Seen> {
    let request = bodies::get(stage.address, "/healthz");
    let mut seen = Vec::new();
    let mut open = Vec::new();
    for _ in 0..number {
        let client = stage.connect().and_then(|mut client| {
            client.send(&request)?;
            client.set_timeout(Duration::from_millis(20))?;
            Ok(client)
        });
        match client {
            Ok(client) => open.push(client),
            Err(Failure::Other(kind)) => {
                let what = format!("{kind}: this task needs {} open files", number + 100);
                return vec![Seen::fault(what)];
            }
            Err(failure) => seen.push(Seen::failed(failure)),
        }
    }
    // Time to accept them all.
    pause(Duration::from_millis(500));
    let (mut answered, mut waiting) = (Vec::new(), Vec::new());
    for mut client in open {
        let one = Seen::of(client.receive());
        if one.result == Err(Failure::TimedOut) {
            waiting.push(client);
        } else {
            seen.push(one);
            answered.push(client);
        }
    }
    drop(answered);
    for mut client in waiting {
        let patient = client.set_timeout(Duration::from_secs(5));
        seen.push(match patient {
            Ok(()) => Seen::of(client.receive()),
            Err(failure) => Seen::failed(failure),
        });
    }
    seen.push(recovered(stage));
    seen
}
