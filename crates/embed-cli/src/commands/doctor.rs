//! `embed doctor`: what this program can do on this machine, for people and for bug reports. Each device has
//! to pool a few rows, so that what it says is not only that a device is there.

use std::env::consts::{ARCH, OS};
use std::fmt::Write as _;
use std::num::NonZero;
use std::thread;

use anyhow::Result;
use embed_files::output::Destination;
use embed_model2vec::StaticModel;
use embed_model2vec::device::check::{self, Case};
use embed_model2vec::device::{self, Device, DeviceError};
use embed_model2vec::hub::Settings;

use crate::exit_code::Outcome;

pub(crate) fn run() -> Result<Outcome> {
    let mut out = Destination::stdout()?;
    out.write(report().as_bytes())?;
    out.commit()?;
    Ok(Outcome::Done)
}

/// One `name: value` line for each fact.
fn report() -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name}: {value}");
    };
    line("embed", &format!("{} for {OS} {ARCH}", env!("CARGO_PKG_VERSION")));
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    line("processors", &cores.to_string());
    line("kernels", &StaticModel::kernels().collect::<Vec<_>>().join(", "));
    let devices = device::describe();
    for (device, name) in &devices {
        line(&format!("device {device}"), &format!("{name}, {}", verdict(check::try_out(*device))));
    }
    for (device, feature, is_built) in [
        (Device::Cuda(0), "cuda", cfg!(feature = "cuda")),
        (Device::Metal, "metal", cfg!(feature = "metal") || cfg!(target_os = "macos")),
    ] {
        let found = devices.iter().any(|(other, _)| same_kind(*other, device));
        match (is_built, found) {
            (false, _) if feature == "metal" => {
                line(feature, "not built in: for Apple's systems only");
            }
            (false, _) => {
                line(feature, "not built in: cargo build --release -p embed-cli --features cuda");
            }
            (true, false) => line(feature, "built in, not tried: no such device or driver found"),
            (true, true) => line(feature, "built in"),
        }
    }
    let settings = Settings::from_env();
    line("model cache", &settings.cache.display().to_string());
    line(
        "network",
        if settings.offline { "never, by the environment" } else { "for missing models" },
    );
    text
}

/// What became of a few rows that a device pooled.
fn verdict(tried: Result<Case, DeviceError>) -> String {
    match tried {
        Ok(case) if case.passed() => "works".to_owned(),
        Ok(Case { normalized, raw, .. }) => {
            format!("gives wrong rows: off by {raw:.1e}, and by {normalized:.1e} when normalized")
        }
        Err(error) => format!("fails: {:#}", anyhow::Error::new(error)),
    }
}

fn same_kind(one: Device, other: Device) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_does_not_work_says_why() {
        let device = Device::Auto;
        let verdict = verdict(check::try_out(device));
        assert!(verdict.starts_with("fails: "), "{verdict}");
    }

    #[test]
    fn the_processor_is_always_there() {
        let report = report();
        assert!(report.contains("\ndevice cpu: the processor, works\n"), "{report}");
        assert!(!report.contains("wrong") && !report.contains("fails"), "{report}");
        assert!(report.contains("\ncuda: ") && report.contains("\nmetal: "), "{report}");
    }
}
