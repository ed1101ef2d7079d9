//! The client beside scripted servers.

use std::net::TcpListener;
use std::thread;

use super::*;

const LONG: Duration = Duration::from_secs(10);

/// A server for one connection: reads to the first empty line, writes, and ends as it is told to.
fn serve(writes: Vec<Vec<u8>>, end: fn(TcpStream)) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || -> io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            read.push(byte[0]);
        }
        for bytes in writes {
            stream.write_all(&bytes)?;
        }
        end(stream);
        Ok(())
    });
    Ok(address)
}

#[track_caller]
fn check(writes: &[&[u8]], expected: &[Result<(u16, &[u8]), Failure>]) {
    let writes = writes.iter().map(|bytes| bytes.to_vec()).collect();
    let address = serve(writes, drop).unwrap();
    let mut client = Client::connect(address, LONG).unwrap();
    client.send(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    for expected in expected {
        let answer = client.receive().map(|answer| (answer.status, answer.body));
        assert_eq!(answer, *expected);
    }
}

#[test]
fn answers_of_every_framing_are_read() {
    let chunks = b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    check(&[chunks, b"HTTP/1.1 200 OK\r\n\r\nrest"], &[Ok((201, b"ok")), Ok((200, b"rest"))]);
    let length = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno";
    check(&[length, length], &[Ok((404, b"no")), Ok((404, b"no")), Err(Failure::Unanswered)]);
}

#[test]
fn a_long_body_grows_the_buffer() {
    let body = vec![b'x'; 3 * PIECE + 1];
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    let first = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\ny";
    check(&[first, head.as_bytes(), &body], &[Ok((200, b"y")), Ok((200, &body))]);
}

#[test]
fn an_end_within_an_answer_is_no_end_without_one() {
    check(&[], &[Err(Failure::Unanswered)]);
    check(&[b"HTTP/1.1 200 O"], &[Err(Failure::CutShort)]);
    check(&[b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nno"], &[Err(Failure::CutShort)]);
    let chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n";
    check(&[chunks], &[Err(Failure::CutShort)]);
}

#[test]
fn what_is_no_answer_is_told() {
    check(
        &[b"what?\r\n\r\n"],
        &[Err(Failure::Malformed("does not begin with HTTP/1.0 or HTTP/1.1"))],
    );
}

#[test]
fn nobody_listens() -> io::Result<()> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    assert_eq!(Client::connect(address, LONG).err(), Some(Failure::Refused));
    Ok(())
}

#[test]
fn a_silent_server_is_a_timeout() -> io::Result<()> {
    let address = serve(Vec::new(), |mut stream| {
        let _ = stream.read(&mut [0]);
    })?;
    let mut client = Client::connect(address, Duration::from_millis(50)).unwrap();
    let answer = client.exchange(b"GET / HTTP/1.1\r\n\r\n").map(|answer| answer.status);
    assert_eq!(answer, Err(Failure::TimedOut));
    Ok(())
}

#[test]
fn a_listening_client_stops_for_an_early_answer() -> io::Result<()> {
    let answer = b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n".to_vec();
    let address = serve(vec![answer], |mut stream| {
        // Until the client goes; the body is not read.
        let _ = stream.read(&mut [0]);
    })?;
    let mut client = Client::connect(address, LONG).unwrap();
    client.send(b"POST / HTTP/1.1\r\n\r\n").unwrap();
    while client.has_news() == Ok(false) {
        thread::yield_now();
    }
    assert_eq!(client.send_listening(&vec![0; 64 << 20]), Ok(Sent::Interrupted));
    assert_eq!(client.receive().map(|answer| answer.status), Ok(413));
    Ok(())
}

#[test]
fn continue_is_not_the_answer() {
    let address = serve(
        vec![
            b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx-request-id: 7\r\n\r\n".to_vec(),
        ],
        drop,
    )
    .unwrap();
    let mut client = Client::connect(address, LONG).unwrap();
    let answer = client.exchange(b"POST / HTTP/1.1\r\n\r\n").unwrap();
    assert!(answer.continued);
    assert_eq!((answer.status, answer.field("X-Request-Id")), (200, Some("7")));
}
