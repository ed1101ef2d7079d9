//! `embed doctor`: what this program can do on this machine, for people and for bug reports.

use std::env::consts::{ARCH, OS};
use std::fmt::Write as _;
use std::num::NonZero;
use std::thread;

use anyhow::Result;
use embed_files::output::Destination;
use embed_model2vec::StaticModel;
use embed_model2vec::device::{self, Device};
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
        line(&format!("device {device}"), name);
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
            (true, false) => line(feature, "built in, and no such device or driver found"),
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

fn same_kind(one: Device, other: Device) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_always_there() {
        let report = report();
        assert!(report.contains("\ndevice cpu: the processor\n"), "{report}");
        assert!(report.contains("\ncuda: ") && report.contains("\nmetal: "), "{report}");
    }
}
