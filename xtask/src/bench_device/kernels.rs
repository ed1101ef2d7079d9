//! Kernels alone: tables of the sizes of published models, random bags, inputs already on the device.

use std::fmt::Write as _;

use anyhow::Result;
use embed_model2vec::device::cuda::measure::{Gpu, TableSpec};

use super::torch::Torch;
use super::{Args, median};

/// Rows and columns of the tables: of an English model, of a multilingual one, and of a wide one.
pub(super) const TABLES: [(usize, usize); 3] = [(29_525, 256), (500_353, 256), (63_091, 512)];

/// Bags of a launch.
pub(super) const BAGS: usize = 65_536;

/// Tokens of a bag.
pub(super) const TOKENS: usize = 32;

/// Bytes that are copied to learn what the memory can do.
const COPIED: usize = 1 << 30;

/// Tables below it stay in the second-level cache of the device that the targets are meant for.
const CACHED: usize = 48 << 20;

/// One line of the table.
struct Line {
    rows: usize,
    dim: usize,
    kind: &'static str,
    kernel: String,
    /// Seconds.
    plain: f64,
    normalized: f64,
}

impl Line {
    fn element_bytes(&self) -> usize {
        element_bytes(self.kind)
    }

    /// Bytes that a launch has to read and write: each token's row, its id, offsets, and the results.
    fn bytes(&self) -> usize {
        let rows = BAGS * TOKENS * self.dim * self.element_bytes();
        rows + BAGS * TOKENS * 4 + (BAGS + 1) * 4 + BAGS * self.dim * 4
    }

    /// How many times as fast as PyTorch it should be. PyTorch has no bytes: they are compared with its f16.
    fn target(&self) -> f64 {
        match self.kind {
            "f32" if self.rows * self.dim * 4 <= CACHED => 1.8,
            "f32" => 1.4,
            _ => 3.0,
        }
    }

    fn write(&self, copies: f64, torch: Option<&Torch>, text: &mut String) {
        let Self { rows, dim, kind, kernel, plain, normalized } = self;
        let (plain_ms, normalized_ms) = (plain * 1e3, normalized * 1e3);
        let speed = self.bytes() as f64 / plain;
        let _ = write!(
            text,
            "| {rows} x {dim} {kind} | `{kernel}` | {plain_ms:.3} | {normalized_ms:.3} | {:.0} | {:.0} % |",
            speed / 1e9,
            speed / copies * 100.0,
        );
        let theirs = if *kind == "i8" { "f16" } else { kind };
        if let Some(entry) = torch.and_then(|torch| torch.entry(*rows, *dim, theirs)) {
            let (ratio, target) = (entry.bag / plain_ms, self.target());
            let verdict = if ratio >= target { "met" } else { "**missed**" };
            let _ = write!(
                text,
                " {:.3} | {:.3} | {ratio:.2}x | ≥ {target}x | {verdict} |",
                entry.bag, entry.gather
            );
        }
        *text += "\n";
    }
}

fn element_bytes(kind: &str) -> usize {
    match kind {
        "f32" => 4,
        "f16" => 2,
        _ => 1,
    }
}

/// Measures every table in every type.
pub(super) fn measure(gpu: &Gpu, args: &Args, torch: Option<&Torch>) -> Result<String> {
    let copies = 2.0 * COPIED as f64 / median(gpu.copies(COPIED, args.times)?);
    let mut text = format!(
        "\n## Kernels\n\n\
         {BAGS} bags of {TOKENS} random ids, ids and offsets on the device. Bytes are those of all rows that are looked up, \
         of ids, offsets and results; a table that fits into the cache can exceed the speed of memory. Copies from the device \
         to itself reach {:.0} GB/s, read and written, in the same run.",
        copies / 1e9
    );
    if let Some(torch) = torch {
        let _ = write!(text, " Beside it {}; i8 is compared with its f16.", torch.describe());
    }
    if !args.define.is_empty() {
        let _ = write!(text, " Kernels compiled with {}.", args.define.join(", "));
    }
    text += "\n\n| table | kernel | ms | ms, normalized | GB/s | of copies |";
    text += if torch.is_some() {
        " embedding_bag ms | gather and mean ms | ratio | target | |"
    } else {
        ""
    };
    text += "\n| --- | --- | --- | --- | --- | --- |";
    text += if torch.is_some() { " --- | --- | --- | --- | --- |\n" } else { "\n" };
    for (rows, dim) in TABLES {
        for kind in ["f32", "f16", "i8"] {
            let spec = TableSpec { kind, rows, dim, factors: kind == "i8" };
            let table = gpu.table(spec, &args.define)?;
            let bags = table.bags(BAGS, TOKENS)?;
            let shapes = table.shapes();
            let wanted = if args.every_shape { shapes.len() } else { 1 };
            for kernel in shapes.into_iter().take(wanted) {
                let plain = median(table.launches(&bags, &kernel, false, args.times)?);
                let normalized = median(table.launches(&bags, &kernel, true, args.times)?);
                let line = Line { rows, dim, kind, kernel, plain, normalized };
                let start = text.len();
                line.write(copies, torch, &mut text);
                eprint!("{}", &text[start..]);
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_what_moves() {
        let line = Line {
            rows: 29_525,
            dim: 256,
            kind: "i8",
            kernel: "k".to_owned(),
            plain: 1e-4,
            normalized: 2e-4,
        };
        assert_eq!(line.bytes(), 65_536 * (32 * 256 + 32 * 4 + 4 + 256 * 4) + 4);
        let mut text = String::new();
        line.write(4e12, None, &mut text);
        assert_eq!(text, "| 29525 x 256 i8 | `k` | 0.100 | 0.200 | 6126 | 153 % |\n");
    }
}
