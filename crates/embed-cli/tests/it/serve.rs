//! `embed serve`: the process from its settings to its end. What requests get is the server's own tests.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

use crate::command::{Run, check, embed, run};

/// A server that runs; killed if the test fails.
struct Serving {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// What it says before it listens.
    said: String,
    /// Where it says that it listens.
    address: String,
}

impl Serving {
    fn start(mut command: Command, arguments: &[&str]) -> io::Result<Self> {
        command.arg("serve").args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line)? > 0, "it ended: {said}");
            match line.trim_end().strip_prefix("listening on ") {
                Some(address) => break address.to_owned(),
                None => said.push_str(&line),
            }
        };
        Ok(Self { child, stderr, said, address })
    }

    /// At any free port of loopback.
    fn local(folder: &Path, arguments: &[&str]) -> io::Result<Self> {
        Self::start(embed(folder), &[&["--listen", "127.0.0.1:0"], arguments].concat())
    }

    fn host(&self) -> &str {
        self.address.strip_prefix("http://").expect("an address of the network")
    }

    /// Status and body of an answer.
    fn ask(&self, head: &str, body: &str) -> io::Result<(u16, Value)> {
        let host = self.host();
        ask(TcpStream::connect(host)?, host, head, body)
    }

    fn signal(&self, name: &str) -> io::Result<()> {
        let status =
            Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status()?;
        assert!(status.success());
        Ok(())
    }

    /// Waits for its end; its status, and what else it said.
    fn end(&mut self) -> io::Result<(ExitStatus, String)> {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest)?;
        Ok((self.child.wait()?, rest))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(
    mut stream: impl io::Read + Write,
    host: &str,
    head: &str,
    body: &str,
) -> io::Result<(u16, Value)> {
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}

const ONE: &str = r#"{"model": "default-en-256", "input": "a cat"}"#;

#[test]
fn it_says_where_it_listens_answers_and_ends_with_0() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    for signal in ["TERM", "INT"] {
        let mut server = Serving::local(folder.path(), &[])?;
        assert!(!server.host().ends_with(":0") && server.said.is_empty(), "{}", server.address);
        assert_eq!(server.ask("GET /readyz", "")?.0, 200);
        let (status, answer) = server.ask("POST /v1/embeddings", ONE)?;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["model"], "default-en-256");
        assert_eq!(answer["data"][0]["embedding"].as_array().map(Vec::len), Some(256));
        server.signal(signal)?;
        let (status, said) = server.end()?;
        assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    }
    Ok(())
}

#[test]
fn a_second_signal_ends_it_at_once() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let mut server = Serving::local(folder.path(), &[])?;
        // A body that never ends is waited for.
        let mut unfinished = TcpStream::connect(server.host())?;
        let head = "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n";
        unfinished.write_all(head.as_bytes())?;
        // Its head was read once the body is asked for.
        let mut go_on = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
        unfinished.read_exact(&mut go_on)?;
        server.signal("TERM")?;
        // Until it drains it answers, and while it drains it says so.
        while server.ask("GET /readyz", "")?.0 == 200 {}
        server.signal(signal)?;
        assert_eq!(server.end()?.0.code(), Some(code));
    }
    Ok(())
}

#[test]
fn models_have_names_and_aliases() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let config = "[[models]]\nname = \"one\"\npath = \"built-in\"\naliases = [\"uno\"]\n\n[[models]]\npath = \"built-in\"\n";
    fs::write(folder.path().join("embed.toml"), config)?;
    let arguments = ["--config", "embed.toml", "--alias", "text-embedding-3-small=one"];
    let server = Serving::local(folder.path(), &arguments)?;
    let (_, models) = server.ask("GET /v1/models", "")?;
    let names: Vec<&str> = models["data"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|model| model["id"].as_str())
        .collect();
    assert_eq!(names, ["one", "uno", "text-embedding-3-small", "default-en-256"]);
    let (status, answer) =
        server.ask("POST /v1/embeddings", &ONE.replace("default-en-256", "uno"))?;
    assert_eq!((status, &answer["model"]), (200, &json!("one")));
    assert_eq!(server.ask("POST /v1/embeddings", &ONE.replace("default-en-256", "dos"))?.0, 404);
    Ok(())
}

#[test]
fn options_of_encoding_hold() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Serving::local(folder.path(), &["--max-length", "1"])?;
    let (_, answer) = server.ask("POST /v1/embeddings", ONE)?;
    assert_eq!(answer["usage"]["prompt_tokens"], 1);
    Ok(())
}

#[test]
fn keys_are_asked_for_and_never_shown() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = embed(folder.path());
    command.env("EMBED_API_KEYS", "sk-secret,sk-other");
    let mut server = Serving::start(command, &["--listen", "127.0.0.1:0", "--verbose"])?;
    assert_eq!(server.ask("POST /v1/embeddings", ONE)?.0, 401);
    let host = server.host();
    let head = |key: &str| format!("authorization: Bearer {key}");
    for (key, expected) in [("sk-secret", 200), ("sk-other", 200), ("sk-secre", 401)] {
        let mut stream = TcpStream::connect(host)?;
        let (length, head) = (ONE.len(), head(key));
        write!(
            stream,
            "POST /v1/embeddings HTTP/1.1\r\nhost: {host}\r\n{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{ONE}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{answer}");
        assert!(!answer.contains("sk-"), "{answer}");
    }
    server.signal("TERM")?;
    let said = server.end()?.1;
    assert!(!said.contains("sk-") && !server.said.contains("sk-"), "{said}");

    let mut command = embed(folder.path());
    command.env("EMBED_API_KEYS", "sk-secret").args(["serve", "--print-config"]);
    let output = command.output()?;
    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("sk-"));
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_file_of_keys_that_others_can_read_is_warned_of() -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir()?;
    let keys = folder.path().join("keys");
    fs::write(&keys, "sk-secret\n")?;
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644))?;
    let server = Serving::local(folder.path(), &["--api-key-file", "keys"])?;
    let warning = "warning: keys has mode 0644: every user of this machine can read the keys in it (chmod o-r)\n";
    assert_eq!(server.said, warning);
    assert_eq!(server.ask("POST /v1/embeddings", ONE)?.0, 401);
    fs::write(&keys, "# none\n")?;
    let run = run(folder.path(), &["serve", "--api-key-file", "keys"]);
    check(&run, 2, "", "error: keys: there is no key in it\n");
    Ok(())
}

#[test]
fn the_configuration_is_printed_with_its_origins() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("embed.toml"), "max_inputs = 5\nbatch_texts = 6\n")?;
    let print = |arguments: &[&str]| -> io::Result<Run> {
        let mut command = embed(folder.path());
        command.env("EMBED_SERVE_CONFIG", "embed.toml").env("EMBED_SERVE_BATCH_TEXTS", "7");
        let output = command.args(["serve", "--print-config"]).args(arguments).output()?;
        Ok(Run {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    };
    let printed = print(&["--docs=false", "--model", "small=/models/a b", "--alias", "s=small"])?;
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    for line in [
        "listen = \"127.0.0.1:8080\"  # default",
        "docs = false  # --docs",
        "max_inputs = 5  # embed.toml",
        "batch_texts = 7  # EMBED_SERVE_BATCH_TEXTS",
        "[[models]]  # --model",
        "name = \"small\"",
        "path = \"/models/a b\"",
        "aliases = [\"s\"]",
    ] {
        assert!(printed.stdout.lines().any(|other| other == line), "{line}: {}", printed.stdout);
    }
    let printed = print(&[])?;
    assert!(
        printed
            .stdout
            .contains("\n[[models]]  # default\nname = \"default-en-256\"\npath = \"built-in\"\n")
    );
    Ok(())
}

#[test]
fn all_wrong_settings_are_told() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let wrong = run(folder.path(), &["serve", "--body-bytes", "16MB", "--docs=maybe"]);
    let message = "error: 2 settings are wrong:\n  \
         docs (--docs): expected `true` or `false`, found \"maybe\"\n  \
         body_bytes (--body-bytes): expected a size from 1 to 1GiB, such as `16MiB` or `16777216`, found \"16MB\"\n";
    check(&wrong, 2, "", message);
    let open = run(folder.path(), &["serve", "--listen", "0.0.0.0:0"]);
    let message = "error: listen = 0.0.0.0:0 (--listen) is open to other machines and there is no key: \
         give keys (--api-key-file, EMBED_API_KEYS), or say --insecure\n";
    check(&open, 2, "", message);
    let missing = run(folder.path(), &["serve", "--config", "none.toml"]);
    let message =
        "error: cannot read the settings in none.toml: No such file or directory (os error 2)\n";
    check(&missing, 2, "", message);
    let unknown = run(folder.path(), &["serve", "--body-byte", "1"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("--body-bytes"), "{}", unknown.stderr);
    Ok(())
}

#[test]
fn other_machines_may_ask_if_that_is_said() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Serving::start(embed(folder.path()), &["--listen", "0.0.0.0:0", "--insecure"])?;
    assert!(server.address.starts_with("http://0.0.0.0:"), "{}", server.address);
    Ok(())
}

#[test]
fn a_model_that_is_not_there_names_every_place() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let run = run(folder.path(), &["serve", "--model", "built-in", "--model", "small=org/small"]);
    let cache = folder.path().join(".cache/huggingface/hub/models--org--small/refs/main");
    let message = format!(
        "error: model small (--model): no model found for \"org/small\"; looked for:\n  \
         org/small: there is no such folder\n  \
         {}: not in the cache: No such file or directory (os error 2)\n  \
         https://huggingface.co: not asked, because the network is off (--offline or HF_HUB_OFFLINE)\n",
        cache.display()
    );
    check(&run, 2, "", &message);
    Ok(())
}

#[test]
fn a_port_in_use_is_told() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let run = run(folder.path(), &["serve", "--listen", &address]);
    check(
        &run,
        2,
        "",
        &format!("error: cannot listen at {address}: Address already in use (os error 98)\n"),
    );
    Ok(())
}

#[test]
fn other_commands_take_one_model() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let run = run(folder.path(), &["text", "x", "--model", "a", "--model", "b"]);
    check(&run, 2, "", "error: this command takes one --model, not 2\n");
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_socket_is_for_its_user_alone_and_gone_at_the_end() -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::{UnixListener, UnixStream};

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("embed.sock");
    // What a server left that was killed.
    drop(UnixListener::bind(&path)?);
    let listen = format!("unix:{}", path.display());
    let mut server = Serving::start(embed(folder.path()), &["--listen", &listen])?;
    assert_eq!(server.address, listen);
    assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(UnixStream::connect(&path)?, "embed", "POST /v1/embeddings", ONE)?.0, 200);

    let second = run(folder.path(), &["serve", "--listen", &listen]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(2), ""));
    assert!(
        second.stderr.starts_with(&format!("error: cannot listen at {listen}: ")),
        "{}",
        second.stderr
    );
    assert!(path.exists());

    server.signal("TERM")?;
    assert_eq!(server.end()?.0.code(), Some(0));
    assert!(!path.exists());

    let nowhere = run(folder.path(), &["serve", "--listen", "unix:none/embed.sock"]);
    let message =
        "error: cannot listen at unix:none/embed.sock: No such file or directory (os error 2)\n";
    check(&nowhere, 2, "", message);
    Ok(())
}
