//! Settings that contradict each other.

use super::{Listen, Origin, Problem, Setting, Settings};

impl Settings {
    /// Whether other machines could ask without a key, if there is none, though nobody said that they may.
    pub fn needs_key(&self) -> bool {
        match &self.listen {
            Listen::Tcp(address) => !address.ip().to_canonical().is_loopback() && !self.insecure,
            // The file system says who may ask.
            Listen::Unix(_) => false,
        }
    }
}

/// What `settings` ask for and cannot have; `origin` says where a setting comes from.
pub(super) fn contradictions(
    settings: &Settings,
    has_keys: bool,
    origin: impl Fn(&str) -> Origin,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let told = |key: &str| {
        let text = Setting::find(key).map(|setting| setting.text(settings)).unwrap_or_default();
        format!("{key} = {text} ({})", origin(key))
    };
    let mut unless = |holds: bool, one: &str, other: &str, rule: &'static str| {
        if !holds {
            problems.push(Problem::Contradiction { one: told(one), other: told(other), rule });
        }
    };
    unless(
        settings.body_bytes <= settings.body_bytes_in_flight,
        "body_bytes",
        "body_bytes_in_flight",
        "a body of the largest size could never be read",
    );
    unless(
        settings.queue_reserve < settings.queue_texts,
        "queue_reserve",
        "queue_texts",
        "nothing would be left of the queue for other requests",
    );
    if !has_keys && settings.needs_key() {
        let listen = settings.listen.to_string();
        problems.push(Problem::Open { listen, origin: origin("listen") });
    }
    if !has_keys && settings.metrics_key {
        problems.push(Problem::NoKey { origin: origin("metrics_key") });
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_machines_need_a_key() {
        let needs_key = |listen: &str, insecure| {
            let listen = super::super::value::parse_listen(listen).expect("a place to listen");
            Settings { listen, insecure, ..Settings::default() }.needs_key()
        };
        for near in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/a"] {
            assert!(!needs_key(near, false), "{near}");
        }
        for far in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            assert!(needs_key(far, false) && !needs_key(far, true), "{far}");
        }
    }
}
