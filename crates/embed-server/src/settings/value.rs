//! Sizes, durations and addresses, from text and to text.
//!
//! What is printed can be read again, and gives the same value.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::Listen;

const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// A number of bytes: `16MiB`, or `16777216`.
pub(super) fn parse_bytes(text: &str) -> Option<usize> {
    let with_unit =
        UNITS.iter().find_map(|&(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (digits, factor) = with_unit.unwrap_or((text, 1));
    usize::try_from(number(digits)?.checked_mul(factor)?).ok()
}

/// In the largest unit of which it is a multiple.
pub(super) fn show_bytes(bytes: usize) -> String {
    let bytes = bytes as u64;
    let unit = UNITS.iter().find(|&&(_, factor)| bytes > 0 && bytes.is_multiple_of(factor));
    unit.map_or_else(|| bytes.to_string(), |(unit, factor)| format!("{}{unit}", bytes / factor))
}

/// A number without a sign.
pub(super) fn parse_count(text: &str) -> Option<usize> {
    usize::try_from(number(text)?).ok()
}

/// A duration with its unit: `500ms`, `10s`, `5min`, `1h`.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let units = [("ms", 1), ("min", 60_000), ("s", 1000), ("h", 3_600_000)];
    let (digits, factor) =
        units.iter().find_map(|&(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    number(digits)?.checked_mul(factor).map(Duration::from_millis)
}

/// In seconds, or in milliseconds where it is no whole number of them.
pub(super) fn show_duration(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}

/// `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` or `unix:/run/embed.sock`.
pub(super) fn parse_listen(text: &str) -> Option<Listen> {
    if let Some(path) = text.strip_prefix("unix:") {
        return (!path.is_empty()).then(|| Listen::Unix(PathBuf::from(path)));
    }
    if let Some(port) = text.strip_prefix("localhost:") {
        return Some(Listen::Tcp((Ipv4Addr::LOCALHOST, port.parse().ok()?).into()));
    }
    text.parse::<SocketAddr>().ok().map(Listen::Tcp)
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A host, with or without a port, as a `Host` header has it.
pub(super) fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        // The colons of an address within brackets are none before a port.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_name = |host: &str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = inner
        .map_or_else(|| is_name(host), |address| address.parse::<std::net::Ipv6Addr>().is_ok());
    is_host && port.is_none_or(|port| number(port).is_some() && port.parse::<u16>().is_ok())
}

/// An origin, exactly as browsers send it: scheme, host, and the port if it is not the scheme's own.
pub(super) fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    host.is_some_and(|host| is_host(host) && !host.chars().any(|c| c.is_ascii_uppercase()))
}

/// Digits alone: no sign, no blank.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("16777216", 16 << 20, "16MiB"),
            ("16MiB", 16 << 20, "16MiB"),
            ("1025", 1025, "1025"),
            ("3KiB", 3072, "3KiB"),
            ("2GiB", 2 << 30, "2GiB"),
            ("0", 0, "0"),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
            assert_eq!(show_bytes(bytes), shown);
            assert_eq!(parse_bytes(shown), Some(bytes));
        }
        for wrong in ["", "MiB", "-1", "+1", "16 MiB", "16MB", "1.5MiB", "99999999999GiB"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn durations_are_read_and_shown() {
        for (text, milliseconds, shown) in [
            ("10s", 10_000, "10s"),
            ("500ms", 500, "500ms"),
            ("1500ms", 1500, "1500ms"),
            ("2000ms", 2000, "2s"),
            ("5min", 300_000, "300s"),
            ("1h", 3_600_000, "3600s"),
            ("0s", 0, "0s"),
        ] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(parse_duration(text), Some(duration), "{text}");
            assert_eq!(show_duration(duration), shown);
            assert_eq!(parse_duration(shown), Some(duration));
        }
        for wrong in ["", "10", "s", "-1s", "1.5s", "10 s", "99999999999999999h"] {
            assert_eq!(parse_duration(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn places_to_listen_are_read_and_shown() {
        for (text, shown) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost:80", "127.0.0.1:80"),
            ("[::1]:0", "[::1]:0"),
            ("unix:/run/embed.sock", "unix:/run/embed.sock"),
        ] {
            let listen = parse_listen(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(listen.to_string(), shown);
            assert_eq!(parse_listen(shown), Some(listen));
        }
        for wrong in ["", "8080", ":8080", "127.0.0.1", "example.org:80", "unix:", "localhost:x"] {
            assert_eq!(parse_listen(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn hosts_and_origins_are_told_from_what_is_none() {
        for host in ["a", "embed.internal", "a:80", "[::1]", "[::1]:8080", "10.0.0.1:1", "a_b"] {
            assert!(is_host(host), "{host}");
        }
        for wrong in ["", "a b", "http://a", "a/", "a:", "a:x", "a:70000", "::1", "[::1", "*"] {
            assert!(!is_host(wrong), "{wrong:?}");
        }
        for origin in ["https://app.example", "http://localhost:3000", "http://[::1]:3000"] {
            assert!(is_origin(origin), "{origin}");
        }
        for wrong in
            ["*", "null", "app.example", "https://a/", "https://a/b", "HTTPS://a", "https://A"]
        {
            assert!(!is_origin(wrong), "{wrong:?}");
        }
    }
}
