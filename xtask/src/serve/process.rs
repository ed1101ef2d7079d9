//! A server as a process: started, watched from outside, and ended.
//!
//! What is known of it is what any operator sees: its log, its exit code, and what `/proc` says.

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::{now, pause};

/// Lines of a log that are kept.
const LOG_LINES: usize = 2000;

/// How long a server may take until it listens.
const START: Duration = Duration::from_mins(1);

/// A server that runs. It is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    log: Log,
}

type Log = Arc<Mutex<VecDeque<String>>>;

/// Processor time and switches of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    /// How often threads stopped because they had nothing to do.
    pub(crate) voluntary_switches: u64,
    /// Of all threads.
    pub(crate) processor: Duration,
}

impl Server {
    /// Starts a program and waits until it says on standard error where it listens.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        // Settings are those of the arguments alone.
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("EMBED_") {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let name = command.get_program().display().to_string();
        let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
        let errors = child.stderr.take().context("standard error is piped")?;
        let log = Log::default();
        let mut server = Self { child, address: ([127, 0, 0, 1], 0).into(), log: log.clone() };
        thread::spawn(move || keep(errors, &log));
        let started = now();
        loop {
            if let Some(address) = server.log_lines().iter().find_map(|line| address_in(line)) {
                server.address = address;
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                // What it said last is read by another thread.
                pause(Duration::from_millis(100));
                bail!("{name} ended with {status}:\n{}", server.log_lines().join("\n"));
            }
            if started.elapsed() > START {
                bail!("{name} does not say where it listens:\n{}", server.log_lines().join("\n"));
            }
            pause(Duration::from_millis(5));
        }
    }

    /// What it wrote last.
    pub(crate) fn log_lines(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, as an operator's tools do.
    pub(crate) fn terminate(&self) -> Result<()> {
        let status = Command::new("kill").args(["-TERM", &self.id().to_string()]).status()?;
        ensure!(status.success(), "kill: {status}");
        Ok(())
    }

    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Bytes in memory now.
    pub(crate) fn resident(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// Bytes in memory at most, since the start or the last `forget_peak`.
    pub(crate) fn peak(&self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    /// Lets the peak begin anew.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.id()), "5").context("resetting the peak")
    }

    fn memory(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let kibibytes = number_after(&status, name).context("a process without memory")?;
        Ok(kibibytes * 1024)
    }

    /// What all its threads did so far.
    pub(crate) fn activity(&self) -> Result<Activity> {
        let mut activity = Activity { voluntary_switches: 0, processor: Duration::ZERO };
        for task in fs::read_dir(format!("/proc/{}/task", self.id()))? {
            let task = task?.path();
            // A thread may end meanwhile.
            let Ok(status) = fs::read_to_string(task.join("status")) else { continue };
            activity.voluntary_switches +=
                number_after(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            // Nanoseconds on a processor come first; ticks of a hundredth of a second would be too coarse.
            let spent = fs::read_to_string(task.join("schedstat"))?;
            let spent = spent.split(' ').next().and_then(|spent| spent.parse().ok());
            activity.processor += Duration::from_nanos(spent.context("no time of a thread")?);
        }
        Ok(activity)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `wait` this finds nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a log as it comes, so that the server never waits for its reader.
fn keep(errors: ChildStderr, log: &Log) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line is read in parts where it is long.
        let read = errors.by_ref().take(64 << 10).read_until(b'\n', &mut line);
        if !read.is_ok_and(|bytes| bytes > 0) {
            return;
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == LOG_LINES {
            log.pop_front();
        }
        log.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
}

/// The address in `... http://127.0.0.1:8080 ...`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("http://")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
    rest[..end.unwrap_or(rest.len())].parse().ok().filter(|address: &SocketAddr| address.port() > 0)
}

/// The number that stands behind a name at the beginning of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A program that runs only on some cores, as `taskset` names them, or on all.
pub(crate) fn on_cores(cores: Option<&str>, program: &std::path::Path) -> Command {
    match cores {
        None => Command::new(program),
        Some(cores) => {
            let mut command = Command::new("taskset");
            command.args(["-c", cores]).arg(program);
            command
        }
    }
}

/// Moves this process to some cores, with all threads it has and will have.
pub(crate) fn move_to_cores(cores: &str) -> Result<()> {
    let id = std::process::id().to_string();
    let status = Command::new("taskset")
        .args(["-a", "-c", "-p", cores, &id])
        .stdout(Stdio::null())
        .status()
        .context("starting taskset")?;
    ensure!(status.success(), "taskset: {status}");
    Ok(())
}

/// Lets this thread run only when no other one of its core wants to: what it measures nothing of must not
/// delay what is measured.
pub(crate) fn give_way() -> Result<()> {
    let this = fs::read_link("/proc/thread-self").context("naming this thread")?;
    let thread = this.file_name().context("a thread without a number")?;
    let status = Command::new("chrt")
        .args(["--idle", "--pid", "0"])
        .arg(thread)
        .status()
        .context("starting chrt")?;
    ensure!(status.success(), "chrt: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_logs() {
        let address = |line| address_in(line).map(|address| address.to_string());
        let ours = "listening on http://127.0.0.1:4711";
        assert_eq!(address(ours).as_deref(), Some("127.0.0.1:4711"));
        let theirs = "INFO:     Uvicorn running on http://127.0.0.1:34973 (Press CTRL+C to quit)";
        assert_eq!(address(theirs).as_deref(), Some("127.0.0.1:34973"));
        assert_eq!(address("listening on http://127.0.0.1:0"), None);
        assert_eq!(address("no address"), None);
    }

    #[test]
    fn numbers_are_those_of_the_name_alone() {
        let text =
            "VmHWM:\t   10 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(number_after(text, "VmHWM:"), Some(10));
        assert_eq!(number_after(text, "voluntary_ctxt_switches:"), Some(7));
        assert_eq!(number_after(text, "VmRSS:"), None);
    }
}
