//! `embed model info` and `embed model verify`.

use std::fmt::Write as _;

use anyhow::Result;
use embed_core::{Embedder as _, EncodeOptions, MaxLength, Normalize};
use embed_files::output::Destination;
use embed_model2vec::device::{self, Device};
use embed_model2vec::{Description, Sequential, StaticModel};

use crate::cli::{GlobalArgs, ModelCommand};
use crate::console::{Console, count};
use crate::exit_code::Outcome;
use crate::model;

pub(crate) fn run(
    command: &ModelCommand,
    global: &GlobalArgs,
    console: Console,
) -> Result<Outcome> {
    let (text, outcome) = match command {
        ModelCommand::Info(args) => {
            let model = model::open(args.place.as_deref(), global, console)?;
            (describe(&model), Outcome::Done)
        }
        ModelCommand::Verify(args) => {
            let model = model::open(args.place.as_deref(), global, console)?;
            verify(&model)?
        }
    };
    let mut out = Destination::stdout()?;
    out.write(text.as_bytes())?;
    out.commit()?;
    Ok(outcome)
}

/// One `name: value` line for each fact.
fn describe(model: &StaticModel) -> String {
    let Description {
        origin,
        layout,
        dim,
        rows,
        table_name,
        table_type,
        weights_type,
        mapped,
        tokenizer,
        kernel,
        vocabulary,
        unk_id,
        median_chars,
        max_length,
        normalize,
        ..
    } = model.description();
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let [config_bytes, tokenizer_bytes, weights_bytes] = model.bundle().file_sizes();
    let facts = [
        ("model", origin),
        ("id", model.model_id().to_owned()),
        ("layout", layout.to_string()),
        (
            "files",
            format!(
                "config {config_bytes}, tokenizer {tokenizer_bytes}, weights {weights_bytes} bytes"
            ),
        ),
        ("dimensions", dim.to_string()),
        ("table", format!("{table_type} [{rows}, {dim}], tensor `{table_name}`")),
        ("token weights", or_none(weights_type.map(str::to_owned))),
        ("mapping", if mapped { "yes" } else { "none" }.to_owned()),
        ("tokenizer", tokenizer.to_owned()),
        ("kernel", kernel.to_owned()),
        ("device", model.device_name().unwrap_or("cpu").to_owned()),
        ("devices here", devices()),
        ("vocabulary", vocabulary.to_string()),
        ("unknown token", or_none(unk_id.map(|id| format!("id {id}")))),
        ("median entry", count(median_chars as u64, "character")),
        (
            "max length",
            max_length.map_or_else(|| "none".to_owned(), |limit| format!("{limit} tokens")),
        ),
        ("normalize", normalize.to_string()),
    ];
    facts.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name}: {value}");
        text
    })
}

/// The devices that `--device` can name on this machine.
fn devices() -> String {
    let names = device::describe().into_iter().map(|(device, name)| match device {
        Device::Cpu => device.to_string(),
        _ => format!("{device} ({name})"),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Texts that take different ways through tokenizing and pooling.
const PROBES: [&str; 6] = [
    "",
    "The quick brown fox jumps over the lazy dog.",
    "Ünïcödé, naïve café — 東京 한국어 русский",
    "[UNK] [PAD] \u{0}\u{fffd} 😀",
    "supercalifragilisticexpialidocious 3.14159 foo_bar(baz)",
    "repeat repeat repeat repeat repeat repeat repeat repeat",
];

/// Checks a model that was loaded, which means that its files were found sound.
fn verify(model: &StaticModel) -> Result<(String, Outcome)> {
    let mut sound = true;
    let mut text = String::new();
    let mut line = |ok: bool, message: String| {
        sound &= ok;
        let _ = writeln!(text, "{}: {message}", if ok { "ok" } else { "FAILED" });
    };
    line(
        true,
        format!("{} loads: files, shapes, types and indices fit together", model.bundle().origin()),
    );

    let (known, computed) = (model.model_id(), model.bundle().computed_identity());
    if known == computed {
        line(true, format!("identity {computed}"));
    } else {
        line(false, format!("identity: expected {known}, the bytes give {computed}"));
    }

    let audit = model.audit();
    let (damaged, zero) = (audit.non_finite.len() as u64, audit.zero.len() as u64);
    match audit.non_finite.first() {
        None => line(true, "every token's row is finite".to_owned()),
        Some(first) => line(
            false,
            format!("{} with NaN or infinity, the first is {first}", count(damaged, "token")),
        ),
    }
    line(true, format!("{} with a row of zeros", count(zero, "token")));

    let (agreeing, compared) = compare_with_reference(model)?;
    let manner = match model.device_name() {
        None => "equal the reference in every bit".to_owned(),
        Some(device) => format!("are those of the reference to {DEVICE_TOLERANCE:e} on {device}"),
    };
    line(agreeing == compared, format!("{agreeing} of {compared} probe rows {manner}"));
    Ok((text, if sound { Outcome::Done } else { Outcome::Failed }))
}

/// How far a value of a normalized row of a GPU may be from the reference.
const DEVICE_TOLERANCE: f32 = 3e-6;

/// Rows that the batched forward and the sequential reference agree on, and how many were compared.
///
/// The processor gives the very bits. A GPU rounds in another order when it normalizes; rows as they are
/// would need a tolerance that depends on the table, so that only normalized ones are compared there.
fn compare_with_reference(model: &StaticModel) -> Result<(usize, usize)> {
    let reference = Sequential::new(model)?;
    let (mut equal, mut compared) = (0, 0);
    let on_gpu = model.device_name().is_some();
    let ways = if on_gpu { &[Normalize::Yes][..] } else { &[Normalize::Yes, Normalize::No] };
    for &normalize in ways {
        let options = EncodeOptions::default()
            .with_max_length(MaxLength::Unlimited)
            .with_normalize(normalize);
        let rows = model.embed_with(&PROBES, &options)?;
        for (text, row) in PROBES.iter().zip(rows.rows()) {
            let expected = reference.embed(text, &options)?;
            let agrees = |(a, b): (&f32, &f32)| {
                a.to_bits() == b.to_bits() || on_gpu && (a - b).abs() <= DEVICE_TOLERANCE
            };
            let same = row.iter().zip(&expected).all(agrees);
            equal += usize::from(same);
            compared += 1;
        }
    }
    Ok((equal, compared))
}
