//! A device against the processor, on generated texts.

use anyhow::{Context as _, Result, bail, ensure};
use embed_core::Embedder as _;
use embed_model2vec::StaticModel;
use embed_model2vec::device::{Device, available};

use super::forwards::{rounded, variants};
use super::report::{Report, Rule};

/// Moves a model to a device, which must not be the processor.
pub(super) fn moved(model: StaticModel, device: Device) -> Result<StaticModel> {
    let model = model.on(device).with_context(|| format!("moving the model to {device}"))?;
    ensure!(model.device_counts().is_some(), "{device}: this machine has no GPU for this program");
    Ok(model)
}

/// The same device as Candle knows it.
pub(super) fn candle(device: Device) -> Result<candle_core::Device> {
    Ok(match device {
        Device::Cpu => candle_core::Device::Cpu,
        Device::Cuda(number) => candle_core::Device::new_cuda(number)?,
        // Candle would panic where there is none.
        Device::Metal if available().contains(&Device::Metal) => candle_core::Device::new_metal(0)?,
        other => bail!("{other}: expected a device that is here, by its name"),
    })
}

/// Compares the rows of the same model here and there.
pub(super) fn compare(
    processor: &StaticModel,
    moved: &StaticModel,
    device: Device,
    texts: &[String],
    report: &mut Report,
) -> Result<()> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (name, options) in variants() {
        let expected = processor.embed_with(&texts, &options)?;
        let rows = moved.embed_with(&texts, &options)?;
        let name = format!("{device}, {name}");
        let rule = Rule::Normalized;
        report.add(rounded(name, rule, processor, &options, &texts, &rows, &expected)?);
    }
    Ok(())
}
