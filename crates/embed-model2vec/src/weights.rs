//! The weights file: safetensors to a table, token weights and a mapping.
//!
//! Everything that depends on how a tensor is stored is decided here, once, at load. The table keeps
//! its stored element type and, where its bytes are suitably aligned, stays in the mapped file; the two
//! small per-token tensors are converted. Where rows do not begin with a line of the processor's cache,
//! [`Weights::move_to_pages`] can copy the table to where they do.
//!
//! After [`Weights::check`] every token id below the vocabulary size leads to a row that exists: the
//! kernels rely on that.

use std::ops::Range;
use std::sync::OnceLock;

use bytemuck::AnyBitPattern;
use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::bundle::{BundleFile, Layout};
use crate::bytes::Bytes;
use crate::error::LoadError;
use crate::pages::Pages;
use crate::prefetch::CACHE_LINE;

/// Name of the tensor that leads from ids to rows.
const MAPPING: &str = "mapping";

/// Name of the tensor with a factor for each id.
const TOKEN_WEIGHTS: &str = "weights";

/// Names that the table goes by. Any of them is accepted in any layout; the layout's own comes first.
const TABLE_NAMES: [&str; 3] = ["embeddings", "embedding.weight", "0"];

/// A table `[rows, dim]` with optional per-token weights and an optional mapping from ids to rows.
#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) elements: Elements,
    pub(crate) rows: usize,
    pub(crate) dim: usize,
    pub(crate) factors: TokenWeights,
    /// Row of each token id; `None` means that an id is its own row.
    pub(crate) mapping: Option<Vec<u32>>,
    /// Name of the table's tensor in the file.
    pub(crate) table_name: String,
}

/// The elements of the table in their stored type, row-major. Half-precision types are kept as bits.
#[derive(Debug)]
pub(crate) enum Elements {
    F64(Stored<f64>),
    F32(Stored<f32>),
    F16(Stored<u16>),
    Bf16(Stored<u16>),
    I8(Stored<i8>),
    U8(Stored<u8>),
}

impl Elements {
    /// The element type's name in safetensors files.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::F64(_) => "F64",
            Self::F32(_) => "F32",
            Self::F16(_) => "F16",
            Self::Bf16(_) => "BF16",
            Self::I8(_) => "I8",
            Self::U8(_) => "U8",
        }
    }

    fn raw(&self) -> Option<&Raw> {
        match self {
            Self::F64(Stored::Raw(raw))
            | Self::F32(Stored::Raw(raw))
            | Self::F16(Stored::Raw(raw))
            | Self::Bf16(Stored::Raw(raw))
            | Self::I8(Stored::Raw(raw))
            | Self::U8(Stored::Raw(raw)) => Some(raw),
            _ => None,
        }
    }

    /// The whole table as it is stored, or as it was copied.
    pub(crate) fn bytes<'a>(&'a self, file: &'a [u8]) -> &'a [u8] {
        match self {
            Self::F64(table) => bytemuck::cast_slice(table.get(file)),
            Self::F32(table) => bytemuck::cast_slice(table.get(file)),
            Self::F16(table) | Self::Bf16(table) => bytemuck::cast_slice(table.get(file)),
            Self::I8(table) => bytemuck::cast_slice(table.get(file)),
            Self::U8(table) => table.get(file),
        }
    }
}

/// The elements of a table: the file's own bytes, or converted where those cannot be read as they are.
#[derive(Debug)]
pub(crate) enum Stored<T> {
    Raw(Raw),
    Converted(Vec<T>),
}

/// The bytes of a table as the file has them: there, and later maybe where they are read faster.
#[derive(Debug)]
pub(crate) struct Raw {
    range: Range<usize>,
    /// The same bytes, at the beginning of a page.
    moved: OnceLock<Pages>,
}

/// Tables above this size are not copied: it would take longer than a tenth of a second, and memory
/// that other processes could share.
const MAX_MOVED_BYTES: usize = 256 << 20;

impl Raw {
    /// Bytes of the file.
    pub(crate) fn new(range: Range<usize>) -> Self {
        Self { range, moved: OnceLock::new() }
    }

    fn bytes<'a>(&'a self, file: &'a [u8]) -> &'a [u8] {
        match self.moved.get() {
            Some(pages) => pages,
            None => &file[self.range.clone()],
        }
    }

    /// Copies the table to where it begins with a cache line, unless it does, or is large, or its file is
    /// in memory as well, which would then hold it twice for good. Readers go on meanwhile. What cannot
    /// be copied stays where it is.
    fn move_to_pages(&self, file: &Bytes) {
        if matches!(file, Bytes::Owned(_)) {
            return;
        }
        let bytes = &file[self.range.clone()];
        let lies_well = bytes.as_ptr().addr().is_multiple_of(CACHE_LINE);
        if lies_well || bytes.len() > MAX_MOVED_BYTES {
            return;
        }
        let Ok(mut pages) = Pages::new(bytes.len()) else { return };
        if file.copy_from(self.range.start, &mut pages).is_ok() && self.moved.set(pages).is_ok() {
            file.release();
        }
    }
}

impl<T: AnyBitPattern> Stored<T> {
    /// The elements; `file` is the file that they were loaded from.
    pub(crate) fn get<'a>(&'a self, file: &'a [u8]) -> &'a [T] {
        match self {
            Self::Raw(raw) => bytemuck::cast_slice(raw.bytes(file)),
            Self::Converted(values) => values,
        }
    }
}

/// One factor for each token id, indexed by the id (not by the row).
///
/// The variant decides in which precision products and sums are formed, as in numpy.
#[derive(Debug)]
pub(crate) enum TokenWeights {
    /// Rows are averaged as they are.
    None,
    /// `f32` products and sums.
    Single(Vec<f32>),
    /// Stored as F16: with a table of at most 16 bits numpy rounds each product to F16.
    Half(Vec<f32>),
    /// `f64` products and sums.
    Double(Vec<f64>),
}

impl TokenWeights {
    /// What the weights are called in descriptions of a model.
    pub(crate) fn type_name(&self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Single(_) => Some("F32"),
            Self::Half(_) => Some("F16"),
            Self::Double(_) => Some("F64"),
        }
    }

    /// How many there are, if there are any.
    fn len(&self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Single(factors) | Self::Half(factors) => Some(factors.len()),
            Self::Double(factors) => Some(factors.len()),
        }
    }
}

impl Weights {
    /// Reads the weights file, and checks what can be checked without the tokenizer.
    pub(crate) fn load(file: &BundleFile, layout: Layout) -> Result<Self, LoadError> {
        let reader = Reader::new(file)?;
        let (table_name, table) = reader.table(layout)?;
        let [rows, dim] = *table.shape() else {
            return Err(reader.shape_error(&table_name, "[rows, dim]", &table));
        };
        if dim == 0 || rows == 0 {
            return Err(reader.shape_error(&table_name, "[rows, dim], neither of them 0", &table));
        }
        let elements = reader.elements(&table_name, &table)?;
        let mapping = reader.mapping(rows)?;
        let factors = reader.token_weights()?;
        Ok(Self { elements, rows, dim, factors, mapping, table_name })
    }

    /// Checks that every id below `vocabulary` has all that it needs; `file` is named in the error.
    pub(crate) fn check(&self, file: &BundleFile, vocabulary: usize) -> Result<(), LoadError> {
        let lengths =
            [(MAPPING, self.mapping.as_ref().map(Vec::len)), (TOKEN_WEIGHTS, self.factors.len())];
        for (name, length) in lengths {
            if let Some(found) = length.filter(|&length| length != vocabulary) {
                return Err(LoadError::TensorLength {
                    path: file.path.clone(),
                    tensor: name.to_owned(),
                    expected: vocabulary,
                    found,
                });
            }
        }
        if self.mapping.is_none() && self.rows < vocabulary {
            return Err(LoadError::TooFewRows {
                path: file.path.clone(),
                tensor: self.table_name.clone(),
                expected: vocabulary,
                found: self.rows,
            });
        }
        Ok(())
    }

    /// Moves the table to where it is read faster, if that is elsewhere: see [`Raw`]. Takes some
    /// milliseconds; `file` is the file that the weights were loaded from.
    pub(crate) fn move_to_pages(&self, file: &Bytes) {
        if let Some(raw) = self.elements.raw() {
            raw.move_to_pages(file);
        }
    }

    /// Whether the table was moved.
    pub(crate) fn has_moved(&self) -> bool {
        self.elements.raw().is_some_and(|raw| raw.moved.get().is_some())
    }

    /// The row of the table that holds token `id`.
    pub(crate) fn row_of(&self, id: u32) -> usize {
        self.mapping.as_ref().map_or(id, |mapping| mapping[id as usize]) as usize
    }
}

/// The parsed header together with the file that it came from, for messages.
struct Reader<'a> {
    file: &'a BundleFile,
    tensors: SafeTensors<'a>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a BundleFile) -> Result<Self, LoadError> {
        let tensors = SafeTensors::deserialize(&file.bytes).map_err(|source| {
            LoadError::Safetensors { path: file.path.clone(), bytes: file.bytes.len(), source }
        })?;
        Ok(Self { file, tensors })
    }

    fn table(&self, layout: Layout) -> Result<(String, TensorView<'a>), LoadError> {
        let own_name = match layout {
            Layout::Native => "embeddings",
            Layout::SentenceTransformers | Layout::SentenceTransformersNested => "embedding.weight",
        };
        for name in [own_name].into_iter().chain(TABLE_NAMES) {
            if let Ok(table) = self.tensors.tensor(name) {
                return Ok((name.to_owned(), table));
            }
        }
        let mut found: Vec<String> = self.tensors.names().into_iter().map(str::to_owned).collect();
        found.sort();
        Err(LoadError::NotStatic { path: self.file.path.clone(), found })
    }

    fn elements(&self, name: &str, table: &TensorView<'_>) -> Result<Elements, LoadError> {
        Ok(match table.dtype() {
            Dtype::F64 => Elements::F64(self.stored(table, f64::from_le_bytes)),
            Dtype::F32 => Elements::F32(self.stored(table, f32::from_le_bytes)),
            Dtype::F16 => Elements::F16(self.stored(table, u16::from_le_bytes)),
            Dtype::BF16 => Elements::Bf16(self.stored(table, u16::from_le_bytes)),
            Dtype::I8 => Elements::I8(self.stored(table, i8::from_le_bytes)),
            Dtype::U8 => Elements::U8(self.stored(table, u8::from_le_bytes)),
            _ => return Err(self.type_error(name, "F64, F32, F16, BF16, I8, U8", table)),
        })
    }

    /// Leaves a table in the file if it can be read there as it is, and copies it otherwise.
    fn stored<T: AnyBitPattern, const N: usize>(
        &self,
        tensor: &TensorView<'_>,
        read: fn([u8; N]) -> T,
    ) -> Stored<T> {
        let bytes = tensor.data();
        let readable_in_place =
            cfg!(target_endian = "little") && bytemuck::try_cast_slice::<u8, T>(bytes).is_ok();
        if !readable_in_place {
            return Stored::Converted(convert(tensor, read));
        }
        // The tensor's bytes are a part of the file's bytes: their distance is the offset.
        let start = bytes.as_ptr().addr() - self.file.bytes.as_ptr().addr();
        Stored::Raw(Raw::new(start..start + bytes.len()))
    }

    fn mapping(&self, rows: usize) -> Result<Option<Vec<u32>>, LoadError> {
        const TYPES: &str = "I8, I16, I32, I64, U8, U16, U32, U64";
        let Ok(tensor) = self.tensors.tensor(MAPPING) else { return Ok(None) };
        self.check_vector(MAPPING, &tensor)?;
        let rows = match tensor.dtype() {
            Dtype::I8 => self.rows_of(&tensor, rows, i8::from_le_bytes),
            Dtype::I16 => self.rows_of(&tensor, rows, i16::from_le_bytes),
            Dtype::I32 => self.rows_of(&tensor, rows, i32::from_le_bytes),
            Dtype::I64 => self.rows_of(&tensor, rows, i64::from_le_bytes),
            Dtype::U8 => self.rows_of(&tensor, rows, u8::from_le_bytes),
            Dtype::U16 => self.rows_of(&tensor, rows, u16::from_le_bytes),
            Dtype::U32 => self.rows_of(&tensor, rows, u32::from_le_bytes),
            Dtype::U64 => self.rows_of(&tensor, rows, u64::from_le_bytes),
            _ => return Err(self.type_error(MAPPING, TYPES, &tensor)),
        };
        rows.map(Some)
    }

    /// The entries of a mapping, each of them below `rows`.
    fn rows_of<T: Copy + TryInto<u32> + Into<i128>, const N: usize>(
        &self,
        tensor: &TensorView<'_>,
        rows: usize,
        read: fn([u8; N]) -> T,
    ) -> Result<Vec<u32>, LoadError> {
        let (entries, _) = tensor.data().as_chunks::<N>();
        let mut found_rows = Vec::with_capacity(entries.len());
        for (index, &entry) in entries.iter().enumerate() {
            let found = read(entry);
            match found.try_into() {
                Ok(row) if (row as usize) < rows => found_rows.push(row),
                _ => {
                    let (path, found) = (self.file.path.clone(), found.into());
                    return Err(LoadError::MappingEntry { path, index, rows, found });
                }
            }
        }
        Ok(found_rows)
    }

    fn token_weights(&self) -> Result<TokenWeights, LoadError> {
        const TYPES: &str = "F64, F32, F16, BF16";
        let Ok(tensor) = self.tensors.tensor(TOKEN_WEIGHTS) else { return Ok(TokenWeights::None) };
        self.check_vector(TOKEN_WEIGHTS, &tensor)?;
        Ok(match tensor.dtype() {
            Dtype::F64 => TokenWeights::Double(convert(&tensor, f64::from_le_bytes)),
            Dtype::F32 => TokenWeights::Single(convert(&tensor, f32::from_le_bytes)),
            Dtype::F16 => {
                TokenWeights::Half(convert(&tensor, |bytes| f16::from_le_bytes(bytes).to_f32()))
            }
            Dtype::BF16 => {
                TokenWeights::Single(convert(&tensor, |bytes| bf16::from_le_bytes(bytes).to_f32()))
            }
            _ => return Err(self.type_error(TOKEN_WEIGHTS, TYPES, &tensor)),
        })
    }

    /// A tensor with an entry for each token id; how many there are is checked later.
    fn check_vector(&self, name: &str, tensor: &TensorView<'_>) -> Result<(), LoadError> {
        match *tensor.shape() {
            [_] => Ok(()),
            _ => Err(self.shape_error(name, "[tokens]", tensor)),
        }
    }

    fn shape_error(
        &self,
        name: &str,
        expected: &'static str,
        tensor: &TensorView<'_>,
    ) -> LoadError {
        LoadError::TensorShape {
            path: self.file.path.clone(),
            tensor: name.to_owned(),
            expected,
            found: tensor.shape().to_vec(),
        }
    }

    fn type_error(&self, name: &str, expected: &'static str, tensor: &TensorView<'_>) -> LoadError {
        LoadError::TensorType {
            path: self.file.path.clone(),
            tensor: name.to_owned(),
            expected,
            found: format!("{:?}", tensor.dtype()),
        }
    }
}

/// Reads little-endian elements one by one, whatever their alignment.
fn convert<T, const N: usize>(tensor: &TensorView<'_>, read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (elements, rest) = tensor.data().as_chunks::<N>();
    debug_assert!(rest.is_empty(), "the parser checked the size against shape and type");
    elements.iter().map(|&bytes| read(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A file with one F32 table whose data starts at `8 + header_length`.
    fn file_with_header_length(header_length: usize) -> BundleFile {
        let mut header =
            r#"{"embeddings":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}"#.to_owned();
        while header.len() < header_length {
            header.push(' ');
        }
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(1.5f32.to_le_bytes());
        bytes.extend((-2.0f32).to_le_bytes());
        BundleFile { path: PathBuf::from("m"), bytes: Bytes::Owned(bytes) }
    }

    fn load(file: &BundleFile, layout: Layout, vocabulary: usize) -> Result<Weights, LoadError> {
        let weights = Weights::load(file, layout)?;
        weights.check(file, vocabulary)?;
        Ok(weights)
    }

    #[test]
    fn a_table_reads_the_same_wherever_it_lies() -> Result<(), LoadError> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("m");
        let (mut converted, mut moved) = (0, 0);
        for header_length in 72..72 + CACHE_LINE {
            let owned = file_with_header_length(header_length);
            std::fs::write(&path, &*owned.bytes).expect("a writable folder");
            let mapped =
                BundleFile { path: path.clone(), bytes: Bytes::map(&path).expect("a file") };
            for file in [owned, mapped] {
                let weights = load(&file, Layout::Native, 2)?;
                let Elements::F32(stored) = &weights.elements else { panic!("the table is F32") };
                assert_eq!(stored.get(&file.bytes), [1.5, -2.0]);
                weights.move_to_pages(&file.bytes);
                weights.move_to_pages(&file.bytes);
                let elements = stored.get(&file.bytes);
                assert_eq!(elements, [1.5, -2.0]);
                let is_mapped = matches!(file.bytes, Bytes::Mapped(..));
                match stored {
                    Stored::Converted(_) => converted += 1,
                    Stored::Raw(_) if is_mapped => {
                        assert!(elements.as_ptr().addr().is_multiple_of(CACHE_LINE));
                        moved += 1;
                    }
                    Stored::Raw(raw) => assert!(raw.moved.get().is_none()),
                }
            }
        }
        assert_eq!((converted, moved), (2 * 48, 16), "three of four addresses are odd for F32");
        Ok(())
    }

    #[cfg(feature = "default-model")]
    #[test]
    fn the_table_of_the_default_model_lies_well() -> Result<(), LoadError> {
        let bytes = Bytes::Static(embed_default_model::WEIGHTS);
        let file = BundleFile { path: PathBuf::from("default"), bytes };
        let weights = load(&file, Layout::Native, 29_525)?;
        weights.move_to_pages(&file.bytes);
        let Elements::I8(Stored::Raw(raw)) = &weights.elements else { panic!("I8, in place") };
        assert!(raw.moved.get().is_none(), "there is nothing to be gained");
        Ok(())
    }

    #[test]
    fn more_rows_than_ids_are_fine() -> Result<(), LoadError> {
        let weights = load(&file_with_header_length(72), Layout::SentenceTransformers, 1)?;
        assert_eq!((weights.rows, weights.dim, weights.table_name.as_str()), (2, 1, "embeddings"));
        Ok(())
    }
}
