//! An assistant's memory: 200 searches at once, while a job indexes thousands of notes.
//!
//! ```sh
//! cargo run --release -p embed-tests --example memory_search
//! ```
//!
//! Every search embeds its own short query on its caller's thread: beside the indexing job too, because it
//! is interactive, small, and has slots of its own. The program prints the sizes of the batches and the
//! latencies of the searches.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use embed_batcher::{
    BatchConfig, Batcher, EmbeddedRow, EmbedderBackend, Observation, Observer, RequestOptions,
    Route,
};
use embed_core::EncodeOptions;
use embed_model2vec::StaticModel;
use tokio::time::Instant;

const NOTES: usize = 20_000;
const NOTES_A_REQUEST: usize = 2_000;
const SEARCHES: usize = 200;
const ROUNDS: usize = 5;

type Memory = Batcher<EmbedderBackend>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let sizes = Arc::new(Sizes::default());
    // 64 notes keep a core busy for a millisecond: so long may a query wait for a batch, if it has to.
    let defaults = BatchConfig::default();
    let config = BatchConfig { max_rows: 64, inline_slots: defaults.slots, ..defaults };
    let memory = Batcher::builder(EmbedderBackend::new(Arc::new(StaticModel::default_embedded())))
        .config(config)
        .observer(sizes.clone())
        .spawn()?;

    let notes: Arc<[String]> = (0..NOTES).map(note).collect();
    let (index, took) = index_all(&memory, &notes).await?;
    let index = Arc::new(index);
    println!("indexed {NOTES} notes in {took:.2?}");
    sizes.print("indexing");

    let alone = search_all(&memory, &index, &notes).await?;
    println!(
        "{SEARCHES} searches at once, {ROUNDS} rounds, nothing else to do: {}",
        latencies(alone)
    );
    sizes.print("searching");

    let job = tokio::spawn({
        let (memory, notes) = (memory.clone(), Arc::clone(&notes));
        async move {
            index_all(&memory, &notes)
                .await
                .map(|(_, took)| took)
                .map_err(|error| error.to_string())
        }
    });
    let beside = search_all(&memory, &index, &notes).await?;
    let done = job.is_finished();
    println!("the same beside an indexing job of {NOTES} notes: {}", latencies(beside));
    let took = job.await??;
    let order = if done { "before" } else { "after" };
    println!("the job took {took:.2?} and ended {order} the searches");
    sizes.print("both");

    let drained = memory.drain(memory.deadline_in(Duration::from_secs(10))).await;
    println!("abandoned by the drain: {}; {:?}", drained.abandoned, memory.stats());
    Ok(())
}

fn note(number: usize) -> String {
    let topics =
        ["the rent", "the allotment", "a birthday", "the bicycle", "chess", "the tax return"];
    let topic = topics[number % topics.len()];
    format!("Note {number}: remember what Ada said about {topic}, and write it down before Friday.")
}

/// Embeds every note as bulk work, a few thousand a request.
async fn index_all(
    memory: &Memory,
    notes: &[String],
) -> Result<(Vec<EmbeddedRow>, Duration), Box<dyn Error>> {
    let started = Instant::now();
    let mut rows = Vec::with_capacity(notes.len());
    for notes in notes.chunks(NOTES_A_REQUEST) {
        let texts = notes.iter().map(String::as_str);
        let options = EncodeOptions::default();
        rows.extend(memory.embed_many(texts, &options, &RequestOptions::bulk()).await?);
    }
    Ok((rows, started.elapsed()))
}

/// All searches at once, several times; returns how long each query took to embed.
async fn search_all(
    memory: &Memory,
    index: &Arc<Vec<EmbeddedRow>>,
    notes: &Arc<[String]>,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut latencies = Vec::new();
    for round in 0..ROUNDS {
        let searches: Vec<_> = (0..SEARCHES)
            .map(|number| {
                let (memory, index, notes) = (memory.clone(), Arc::clone(index), Arc::clone(notes));
                let wanted = (round * SEARCHES + number) * 17 % NOTES;
                tokio::spawn(async move {
                    let started = Instant::now();
                    let query = memory.embed(notes[wanted].as_str()).await?;
                    let took = started.elapsed();
                    // Searching itself is looking at rows, a few of them here.
                    let near = index[wanted..NOTES.min(wanted + 100)].iter();
                    let best = near.map(|row| score(&query, row)).fold(f32::MIN, f32::max);
                    assert!(best >= score(&query, &index[wanted]), "a note is nearest to itself");
                    Ok::<_, embed_batcher::Error<embed_core::Error>>(took)
                })
            })
            .collect();
        for search in searches {
            latencies.push(search.await??);
        }
    }
    Ok(latencies)
}

fn score(left: &EmbeddedRow, right: &EmbeddedRow) -> f32 {
    left.values.iter().zip(right.values.iter()).map(|(a, b)| a * b).sum()
}

fn latencies(mut durations: Vec<Duration>) -> String {
    durations.sort_unstable();
    let at = |percent: usize| durations[(durations.len() - 1) * percent / 100];
    format!("p50 {:.1?}, p99 {:.1?}, longest {:.1?}", at(50), at(99), at(100))
}

/// How many calls of which size, inline and through the queue.
#[derive(Default)]
struct Sizes(Mutex<BTreeMap<(&'static str, usize), usize>>);

impl Observer for Sizes {
    fn observe(&self, observation: &Observation<'_>) {
        if let Observation::BatchStarted { rows, route, .. } = observation {
            let route = if *route == Route::Inline { "inline" } else { "queued" };
            let mut sizes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Sizes in powers of two, by their upper end.
            *sizes.entry((route, rows.next_power_of_two())).or_default() += 1;
        }
    }
}

impl Sizes {
    fn print(&self, what: &str) {
        let sizes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let sizes: Vec<String> = sizes
            .iter()
            .map(|((route, rows), calls)| format!("{calls} {route} of up to {rows}"))
            .collect();
        println!("  calls while {what}: {}", sizes.join(", "));
    }
}
