//! Pooling alone: ids are known beforehand.
//!
//! Bags of 46 ids, the mean of `corpus_50k`, drawn from a Zipf-like distribution over a vocabulary of
//! 29,525, into rows of 256 values, for each element type and each kernel of this machine. One
//! element is one token: at 3.8 bytes of English text a token, 25 ns a token are 150 MB/s of text.

use std::collections::HashMap;
use std::sync::LazyLock;

use divan::Bencher;
use divan::counter::ItemsCount;
use embed_core::{Embedder as _, EncodeOptions, Input, MaxLength, Normalize, RowInfo};
use embed_model2vec::{Bundle, ModelOptions, StaticModel};

const VOCABULARY: usize = 29_525;
const DIM: usize = 256;
const BAG: usize = 46;
const BAGS: usize = 2_000;

/// Bags of one batch. A batch takes some ten microseconds: so short that few of them are interrupted.
/// Successive batches have other ids, so that the table is used as a whole.
const BATCH: usize = 50;

/// Stored types of the table and, behind a plus sign, of the weights.
const MODELS: [&str; 7] = ["F32", "F16", "BF16", "I8", "F32+F32", "F16+F32", "I8+F32"];

fn main() {
    divan::main();
}

fn cases() -> impl Iterator<Item = String> {
    let cases = |kernel| MODELS.iter().map(move |model| format!("{model} {kernel}"));
    StaticModel::kernels().flat_map(cases)
}

#[divan::bench(args = cases())]
fn pool(bencher: Bencher<'_, '_>, case: &str) {
    bench(bencher, case, Normalize::No);
}

#[divan::bench(args = ["F32 AVX2", "I8 base", "I8 AVX2", "I8 AVX-512"])]
fn pool_and_normalize(bencher: Bencher<'_, '_>, case: &str) {
    bench(bencher, case, Normalize::Yes);
}

fn bench(bencher: Bencher<'_, '_>, case: &str, normalize: Normalize) {
    let (stored, kernel) = case.split_once(' ').expect("a model and a kernel");
    let model = model(stored).with_kernel(kernel);
    let inputs: Vec<Input<'_>> = IDS.chunks(BAG).map(Input::Ids).collect();
    let options =
        EncodeOptions::default().with_max_length(MaxLength::Unlimited).with_normalize(normalize);
    let mut rows = vec![0.0; BATCH * DIM];
    let mut info = [RowInfo::default(); BATCH];
    let mut batches = inputs.chunks_exact(BATCH).cycle();
    bencher.counter(ItemsCount::new(BATCH * BAG)).bench_local(|| {
        let batch = batches.next().expect("a cycle has no end");
        model.embed_into(batch, &options, &mut rows, &mut info).expect("rows");
    });
}

/// Ids whose ranks have a density of one over the rank, at places all over the table.
static IDS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut random = Random(1);
    let id = |random: &mut Random| {
        let uniform = f64::from(random.next()) / f64::from(1u32 << 31);
        let rank = ((VOCABULARY as f64).powf(uniform) - 1.0).floor();
        // 7,919 is prime and does not divide the size of the vocabulary: ranks stay distinct.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank is between 0 and the size of the vocabulary"
        )]
        let rank = (rank as u32).min(29_524);
        rank * 7_919 % 29_525
    };
    (0..BAG * BAGS).map(|_| id(&mut random)).collect()
});

/// A model with random tensors and a vocabulary of nothing but numbers.
fn model(stored: &str) -> StaticModel {
    let (table, weights) = stored.split_once('+').unwrap_or((stored, ""));
    // The last one is the unknown token, which no bag has: it would not count.
    let vocabulary: HashMap<String, usize> =
        (0..=VOCABULARY).map(|id| (format!("w{id}"), id)).collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null, "truncation": null, "padding": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": format!("w{VOCABULARY}") },
    });
    let mut random = Random(2);
    let mut tensors = serde_json::Map::new();
    let mut data = Vec::new();
    let mut add = |name: &str, stored: &str, shape: &[usize]| {
        let start = data.len();
        for _ in 0..shape.iter().product() {
            let value = f64::from(random.next()) / f64::from(1u32 << 31) - 0.5;
            #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
            match stored {
                "F32" => data.extend((value as f32).to_le_bytes()),
                "F16" => data.extend(half::f16::from_f64(value).to_le_bytes()),
                "BF16" => data.extend(half::bf16::from_f64(value).to_le_bytes()),
                "I8" => data.extend(((value * 254.0) as i8).to_le_bytes()),
                _ => panic!("no such type: {stored}"),
            }
        }
        let offsets = [start, data.len()];
        let tensor =
            serde_json::json!({ "dtype": stored, "shape": shape, "data_offsets": offsets });
        tensors.insert(name.to_owned(), tensor);
    };
    add("embeddings", table, &[VOCABULARY + 1, DIM]);
    if !weights.is_empty() {
        add("weights", weights, &[VOCABULARY + 1]);
    }
    let mut header = serde_json::Value::Object(tensors).to_string();
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    let bundle =
        Bundle::from_bytes("bench", b"{}".to_vec(), tokenizer.to_string().into_bytes(), file);
    StaticModel::from_bundle(bundle, ModelOptions::default()).expect("a model")
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 33) as u32
    }
}
