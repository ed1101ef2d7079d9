//! Text of rows of length 1: `cargo bench -p embed-decimal`.

use divan::Bencher;
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

const DIM: usize = 256;
const ROWS: usize = 500;

/// Rows whose values lie as those of embeddings do, from a generator with a fixed start.
fn rows() -> Vec<[f32; DIM]> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut unit = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 16_777_216.0 - 0.5
    };
    let mut row = || {
        let row: [f32; DIM] = std::array::from_fn(|_| (0..6).map(|_| unit()).sum());
        let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        row.map(|value| value / norm)
    };
    (0..ROWS).map(|_| row()).collect()
}

fn bench(bencher: Bencher<'_, '_>, write: impl Fn(&[f32], &mut Vec<u8>) + Sync) {
    let rows = rows();
    let mut text = Vec::new();
    bencher.counter(ItemsCount::new(DIM * ROWS)).bench_local(|| {
        for row in &rows {
            text.clear();
            write(row, &mut text);
            divan::black_box(&text);
        }
    });
}

#[divan::bench]
fn arrays(bencher: Bencher<'_, '_>) {
    bench(bencher, embed_decimal::write_array);
}

#[divan::bench]
fn zmij_one_by_one(bencher: Bencher<'_, '_>) {
    bench(bencher, |row, text| {
        let mut buffer = zmij::Buffer::new();
        for &value in row {
            text.extend_from_slice(buffer.format_finite(value).as_bytes());
            text.push(b',');
        }
    });
}
