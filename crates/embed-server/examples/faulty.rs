//! A server over a model that is slow, or that panics: what load tests are run against.
//!
//! ```text
//! faulty [--text-micros N] [--panic-on TEXT] [--SETTING VALUE]...
//! ```
//!
//! Every text takes `N` microseconds of a processor, and its row is made of its bytes. A text that equals
//! `TEXT` (`panic!` unless said otherwise) makes the model panic.
#![expect(clippy::print_stderr, reason = "a program for tests, which says where it listens")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use embed_core::{Embedder, EncodeOptions, Input, RowInfo, Tokens};
use embed_server::{Flags, Keys, Place, ServedModel, Server, Setting, Sources, resolve};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// A model of fixed cost.
struct Faulty {
    per_text: Duration,
    panic_on: String,
}

const DIM: usize = 8;

impl Embedder for Faulty {
    fn dim(&self) -> usize {
        DIM
    }

    fn model_id(&self) -> &'static str {
        "faulty"
    }

    fn embed_into(
        &self,
        inputs: &[Input<'_>],
        options: &EncodeOptions,
        out: &mut [f32],
        info: &mut [RowInfo],
    ) -> Result<(), embed_core::Error> {
        let dim = self.output_dim(options)?;
        for ((input, row), info) in inputs.iter().zip(out.chunks_exact_mut(dim)).zip(info) {
            let Input::Text(text) = input else { continue };
            assert!(*text != self.panic_on, "asked to");
            let until = Instant::now() + self.per_text;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            row.fill(text.bytes().map(f32::from).sum());
            *info = RowInfo { tokens: text.len(), kept: text.len(), ..RowInfo::default() };
        }
        Ok(())
    }
}

impl Tokens for Faulty {
    fn token_ids(
        &self,
        text: &str,
        _: &EncodeOptions,
        ids: &mut Vec<u32>,
    ) -> Result<RowInfo, embed_core::Error> {
        ids.extend(text.bytes().map(u32::from));
        Ok(RowInfo { tokens: text.len(), kept: text.len(), ..RowInfo::default() })
    }

    fn count_tokens(&self, text: &str, _: &EncodeOptions) -> Result<RowInfo, embed_core::Error> {
        Ok(RowInfo { tokens: text.len(), kept: text.len(), ..RowInfo::default() })
    }

    fn vocabulary_size(&self) -> usize {
        256
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut flags = Flags::default();
    let (mut micros, mut panic_on) = (0, "panic!".to_owned());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name}: expected a value"))?;
        match name.as_str() {
            "--text-micros" => micros = value.parse()?,
            "--panic-on" => panic_on = value,
            _ => {
                let key = name.trim_start_matches('-').replace('-', "_");
                let setting = Setting::find(&key).ok_or_else(|| format!("{name}: no setting"))?;
                flags.settings.push((setting.key(), value));
            }
        }
    }
    let sources = Sources { flags: &flags, env: &[], file: None, built_in: "faulty" };
    let settings = resolve(&sources)?.settings;
    let model = Faulty { per_text: Duration::from_micros(micros), panic_on };
    let served = ServedModel {
        name: "faulty".to_owned(),
        aliases: Vec::new(),
        model: Arc::new(model),
        options: EncodeOptions::default(),
        max_tokens: None,
        place: Place::Processor,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.threads().get())
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let server = Server::bind(settings, Keys::default(), vec![served]).await?;
        eprintln!("listening on {}", server.address());
        let mut terminate = signal(SignalKind::terminate())?;
        let stop = async {
            terminate.recv().await;
        };
        let ended = server.run(stop).await;
        Ok::<_, Box<dyn Error>>(ended)
    })?;
    eprintln!("{} connections were cut off", ended.abandoned);
    Ok(())
}
