//! Tests of names, of the cache and of downloads from a local HTTP server.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

#[track_caller]
fn check_name(text: &str, repository: &str, revision: &str) {
    let name: ModelName = text.parse().expect("a name");
    assert_eq!((name.repository(), name.revision()), (repository, revision));
}

#[test]
fn names_have_an_organization_and_maybe_a_revision() {
    check_name("minishlab/potion-base-8M", "minishlab/potion-base-8M", "main");
    check_name("a/b@v1.0", "a/b", "v1.0");
    check_name("a/b@refs/pr/3", "a/b", "refs/pr/3");
}

#[test]
fn names_that_could_leave_the_cache_are_refused() {
    for text in [
        "", "a", "/b", "a/", "a/b/c", "../b", "a/..", "./a", "a/b@", "a/b@../x", "a/b@x/", "a b/c",
        "a\\b/c", "a/b@a b",
    ] {
        assert!(matches!(text.parse::<ModelName>(), Err(LoadError::HubName { .. })), "{text:?}");
    }
}

#[test]
fn a_subfolder_cannot_leave_the_repository() {
    let settings = settings(Path::new("nowhere"), "http://127.0.0.1:1", false);
    for subfolder in ["..", "a/../..", "/etc"] {
        let error = open("org/model", Some(subfolder), &settings, &Never).expect_err("outside");
        assert!(matches!(error, LoadError::HubName { .. }), "{error:?}");
    }
}

/// A download that must not happen.
struct Never;

impl Download for Never {
    fn download(&self, name: &ModelName, file: &str) -> Result<PathBuf, DownloadError> {
        panic!("{file} of {name} was asked for")
    }
}

fn settings(cache: &Path, endpoint: &str, offline: bool) -> Settings {
    Settings { cache: cache.to_owned(), endpoint: endpoint.to_owned(), token: None, offline }
}

fn write_snapshot(cache: &Path, commit: &str, files: &[&str]) {
    for file in files {
        let path = cache.join("models--org--model/snapshots").join(commit).join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, file).expect("a file");
    }
}

fn write_ref(cache: &Path, revision: &str, commit: &str) {
    let folder = cache.join("models--org--model/refs");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(revision), commit).expect("a ref");
}

const NATIVE: &[&str] = &["config.json", "model.safetensors", "tokenizer.json"];

#[test]
fn a_relative_cache_recognizes_the_commit_of_an_absolute_file()
-> Result<(), Box<dyn std::error::Error>> {
    let name: ModelName = "org/model".parse()?;
    let file =
        std::path::absolute("c/models--org--model/snapshots")?.join(COMMIT).join("config.json");
    assert_eq!(cache::commit_of(Path::new("c"), &name, &file).as_deref(), Some(COMMIT));
    Ok(())
}

#[test]
fn a_cached_model_is_opened_without_the_network() -> Result<(), Box<dyn std::error::Error>> {
    let cache = tempfile::tempdir()?;
    let cache = cache.path();
    write_snapshot(cache, COMMIT, NATIVE);
    write_ref(cache, "main", COMMIT);
    for offline in [false, true] {
        let settings = settings(cache, "http://127.0.0.1:1", offline);
        assert_eq!(open("org/model", None, &settings, &Never)?.layout(), Layout::Native);
        let pinned = format!("org/model@{COMMIT}");
        assert_eq!(open(&pinned, None, &settings, &Never)?.origin(), pinned, "no ref is needed");
    }
    Ok(())
}

#[test]
fn subfolders_and_nested_layouts_are_found_in_the_cache() -> Result<(), Box<dyn std::error::Error>>
{
    let cache = tempfile::tempdir()?;
    let cache = cache.path();
    write_ref(cache, "main", COMMIT);
    write_snapshot(cache, COMMIT, &["sub/config_sentence_transformers.json"]);
    write_snapshot(cache, COMMIT, &["sub/0_StaticEmbedding/model.safetensors"]);
    write_snapshot(cache, COMMIT, &["sub/0_StaticEmbedding/tokenizer.json"]);
    let settings = settings(cache, "http://127.0.0.1:1", true);
    let bundle = open("org/model", Some("sub"), &settings, &Never)?;
    assert_eq!(bundle.layout(), Layout::SentenceTransformersNested);
    Ok(())
}

#[test]
fn offline_names_every_place_and_never_asks() -> Result<(), Box<dyn std::error::Error>> {
    let cache = tempfile::tempdir()?;
    let settings = settings(cache.path(), "http://127.0.0.1:1", true);
    let error =
        open("org/model", None, &settings, &Never).expect_err("nothing is cached").to_string();
    for part in [
        "no model found for \"org/model\"",
        "org/model: there is no such folder",
        "models--org--model/refs/main: not in the cache",
        "http://127.0.0.1:1: not asked, because the network is off",
    ] {
        assert!(error.contains(part), "{part:?} is missing in {error}");
    }
    Ok(())
}

#[test]
fn what_is_no_name_is_looked_for_as_a_folder_only() {
    let settings = settings(Path::new("nowhere"), "http://127.0.0.1:1", false);
    let error =
        open("no-such-folder", None, &settings, &Never).expect_err("nothing there").to_string();
    assert!(error.contains("no-such-folder: there is no such folder"), "{error}");
    assert!(error.contains("Hugging Face hub: \"no-such-folder\" is not a model name"), "{error}");
}

/// Paths and authorization headers, in order.
type Requests = Vec<(String, Option<String>)>;

/// The few routes of the hub that hf-hub uses, on a free port of this machine.
struct Server {
    endpoint: String,
    requests: Arc<Mutex<Requests>>,
}

impl Server {
    /// Serves `files` of any repository at [`COMMIT`]; `status` is given instead of 200 if it is set.
    fn start(files: &[&str], status: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let files: HashMap<String, String> =
            files.iter().map(|&file| (file.to_owned(), format!("contents of {file}"))).collect();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        // The thread ends with the test process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &files, status, &log);
            }
        });
        Self { endpoint, requests }
    }

    fn requested(&self) -> Requests {
        self.requests.lock().expect("no panic").clone()
    }
}

fn answer(
    mut stream: TcpStream,
    files: &HashMap<String, String>,
    status: Option<&str>,
    log: &Mutex<Requests>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let (mut range_end, mut authorization) = (None, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                range_end = value.rsplit('-').next().and_then(|end| end.parse::<usize>().ok());
            }
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    log.lock().expect("no panic").push((path.clone(), authorization));
    // /ORG/NAME/resolve/REVISION/FILE
    let file = path.splitn(6, '/').nth(5).and_then(|file| files.get(file));
    let (status, body) = match (status, file) {
        (Some(status), _) => (status, ""),
        (None, None) => ("404 Not Found", ""),
        (None, Some(body)) => ("206 Partial Content", body.as_str()),
    };
    let total = body.len();
    let part = &body[..range_end.map_or(total, |end| (end + 1).min(total))];
    write!(
        stream,
        "HTTP/1.1 {status}\r\nconnection: close\r\nx-repo-commit: {COMMIT}\r\netag: \"{}\"\r\n\
         content-range: bytes 0-{}/{total}\r\ncontent-length: {}\r\n\r\n{part}",
        blake3::hash(path.as_bytes()).to_hex(),
        part.len().saturating_sub(1),
        part.len(),
    )
}

#[test]
fn a_missing_model_is_downloaded_once() -> Result<(), Box<dyn std::error::Error>> {
    let cache = tempfile::tempdir()?;
    let server = Server::start(NATIVE, None);
    let mut settings = settings(cache.path(), &server.endpoint, false);
    settings.token = Some("secret".to_owned());
    let bundle = open("org/model", None, &settings, &HfHub::new(&settings, false))?;
    assert_eq!(&*bundle.tokenizer.bytes, b"contents of tokenizer.json");
    assert_eq!(bundle.origin(), "org/model@main");

    let requests = server.requested();
    assert_eq!(requests[0].0, "/org/model/resolve/main/config.json");
    assert!(
        requests.iter().all(|(_, authorization)| authorization.as_deref() == Some("Bearer secret"))
    );
    let later: Vec<_> = requests.iter().filter(|(path, _)| !path.contains("config.json")).collect();
    assert!(
        later.iter().all(|(path, _)| path.contains(COMMIT)),
        "one commit for all files: {later:?}"
    );

    let before = server.requested().len();
    open("org/model", None, &settings, &Never)?;
    assert_eq!(server.requested().len(), before);
    Ok(())
}

#[test]
fn every_layout_and_subfolders_are_downloaded() -> Result<(), Box<dyn std::error::Error>> {
    let nested = Layout::SentenceTransformersNested;
    let files: Vec<String> = nested.required().iter().map(|file| format!("sub/{file}")).collect();
    let mut files: Vec<&str> = files.iter().map(String::as_str).collect();
    files.push("sub/modules.json");
    let server = Server::start(&files, None);
    let cache = tempfile::tempdir()?;
    let settings = settings(cache.path(), &server.endpoint, false);
    let bundle = open("org/model@v2", Some("sub"), &settings, &HfHub::new(&settings, false))?;
    assert_eq!(bundle.layout(), nested);
    assert!(bundle.modules.is_some());
    Ok(())
}

#[test]
fn a_repository_without_a_model_lists_what_it_lacks() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(&["README.md", "config.json"], None);
    let cache = tempfile::tempdir()?;
    let settings = settings(cache.path(), &server.endpoint, false);
    let error =
        open("org/model", None, &settings, &HfHub::new(&settings, false)).expect_err("no model");
    let LoadError::NotFound { attempts, .. } = &error else { panic!("{error:?}") };
    let text = error.to_string();
    assert!(
        text.contains("/tokenizer.json: org/model@main has no such file (model2vec layout)"),
        "{text}"
    );
    assert!(text.contains("config_sentence_transformers.json"), "{text}");
    assert_eq!(attempts.len(), 5, "the folder, the cache, and one file of each layout: {text}");
    Ok(())
}

#[test]
fn a_refusal_of_the_server_is_a_download_error() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(&[], Some("401 Unauthorized"));
    let cache = tempfile::tempdir()?;
    let settings = settings(cache.path(), &server.endpoint, false);
    let error =
        open("org/model", None, &settings, &HfHub::new(&settings, false)).expect_err("refused");
    let LoadError::Download { file, source, .. } = &error else { panic!("{error:?}") };
    assert_eq!(file, "config.json");
    assert!(source.to_string().contains("401"), "{source}");
    Ok(())
}

#[test]
fn names_from_the_server_that_would_leave_the_cache_are_refused()
-> Result<(), Box<dyn std::error::Error>> {
    for header in ["etag: \"../../evil\"", "etag: \"/evil\"", "x-repo-commit: ../../evil"] {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = BufReader::new(stream.try_clone().expect("a clone")).lines();
                while request.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let defaults = [format!("x-repo-commit: {COMMIT}"), "etag: \"good\"".to_owned()];
                let name = header.split(':').next().unwrap_or_default();
                let others = defaults.iter().filter(|line| !line.starts_with(name));
                let headers: Vec<&str> = others.map(String::as_str).collect();
                let headers = headers.join("\r\n");
                let _ = write!(
                    stream,
                    "HTTP/1.1 206 Partial Content\r\nconnection: close\r\n{headers}\r\n{header}\r\n\
                     content-range: bytes 0-0/2\r\ncontent-length: 1\r\n\r\n{{"
                );
            }
        });
        let folder = tempfile::tempdir()?;
        let cache = folder.path().join("a/b/cache");
        let settings = settings(&cache, &endpoint, false);
        let error =
            open("org/model", None, &settings, &HfHub::new(&settings, false)).expect_err("refused");
        let LoadError::Download { source, .. } = &error else { panic!("{error:?}") };
        assert!(source.to_string().starts_with("the server names the "), "{source}");
        assert_eq!(fs::read_dir(folder.path())?.count(), 0, "nothing was written");
    }
    Ok(())
}

#[test]
fn no_connection_is_a_download_error() -> Result<(), Box<dyn std::error::Error>> {
    let cache = tempfile::tempdir()?;
    // Port 1 of this machine: nobody listens.
    let settings = settings(cache.path(), "http://127.0.0.1:1", false);
    let error =
        open("org/model", None, &settings, &HfHub::new(&settings, false)).expect_err("no server");
    assert!(matches!(error, LoadError::Download { .. }), "{error:?}");
    Ok(())
}
