//! The model that the arguments ask for.

use std::time::Instant;

use anyhow::{Result, bail};
use embed_core::Embedder as _;
use embed_model2vec::device::Device;
use embed_model2vec::hub::{self, HfHub, Settings};
use embed_model2vec::{Bundle, ModelOptions, StaticModel};

use crate::cli::GlobalArgs;
use crate::console::Console;

/// Opens `model`, or the model of the arguments, or the built-in one, with the default limits.
pub(crate) fn open(
    model: Option<&str>,
    args: &GlobalArgs,
    console: Console,
) -> Result<StaticModel> {
    open_with(model, ModelOptions::default(), args, console)
}

/// [`open`] with limits.
pub(crate) fn open_with(
    model: Option<&str>,
    options: ModelOptions,
    args: &GlobalArgs,
    console: Console,
) -> Result<StaticModel> {
    let place = model.map_or_else(|| args.one_model(), |model| Ok(Some(model)))?;
    open_at(place, options, args, console)
}

/// Opens the model at `place`, or the built-in one, whatever the arguments say of models.
#[expect(clippy::disallowed_methods, reason = "the time is told to the user and decides nothing")]
pub(crate) fn open_at(
    place: Option<&str>,
    options: ModelOptions,
    args: &GlobalArgs,
    console: Console,
) -> Result<StaticModel> {
    let started = Instant::now();
    let bundle = match place {
        None if args.subfolder.is_some() => {
            bail!("--subfolder is a folder within a model: say which with --model")
        }
        None => Bundle::default_embedded(),
        Some(model) => {
            let mut settings = Settings::from_env();
            settings.offline |= args.offline;
            let download = HfHub::new(&settings, console.shows_progress());
            hub::open(model, args.subfolder.as_deref(), &settings, &download)?
        }
    };
    let model = StaticModel::from_bundle(bundle, options)?.on(args.device)?;
    if args.device == Device::Auto {
        let choice = model.device_name().unwrap_or("cpu");
        console.note(&format!("device: {choice}"));
    }
    let (origin, dim) = (model.bundle().origin(), model.dim());
    console
        .detail(&format!("model {origin}: {dim} dimensions, ready in {:.1?}", started.elapsed()));
    Ok(model)
}
