//! Every kind of broken model is refused by a typed error that says what is wrong, and none panics.

use std::fs;
use std::path::Path;

use embed_model2vec::{Bundle, LoadError, ModelOptions, StaticModel};
use serde_json::json;

use crate::fixture::{self, Tensor, VOCABULARY, safetensors, tokenizer, with_header};

/// Loading gives an error whose variant matches and whose message is `$message`.
macro_rules! check {
    ($result:expr, $variant:pat, $message:expr) => {
        let error = $result.expect_err("a broken model");
        assert!(matches!(error, $variant), "{error:?}");
        assert_eq!(error.to_string(), $message);
    };
}

fn load(weights: Vec<u8>) -> Result<StaticModel, LoadError> {
    load_all("{}", &tokenizer(), weights)
}

fn load_all(
    config: &str,
    tokenizer: &serde_json::Value,
    weights: Vec<u8>,
) -> Result<StaticModel, LoadError> {
    StaticModel::from_bundle(fixture::bundle(config, tokenizer, weights), ModelOptions::default())
}

#[test]
fn the_fixture_itself_is_sound() -> Result<(), LoadError> {
    fixture::model(&[Tensor::table()]).map(drop)
}

#[test]
fn a_truncated_file_is_refused_wherever_it_ends() {
    let whole = safetensors(&[Tensor::table()]);
    for length in 0..whole.len() {
        let error = load(whole[..length].to_vec()).expect_err("a truncated file");
        assert!(
            matches!(error, LoadError::Safetensors { bytes, .. } if bytes == length),
            "{error:?}"
        );
    }
}

#[test]
fn a_file_with_bytes_behind_the_tensors_is_refused() {
    let mut file = safetensors(&[Tensor::table()]);
    file.push(0);
    assert!(matches!(load(file), Err(LoadError::Safetensors { .. })));
}

#[test]
fn a_header_that_lies_is_refused() {
    let data = vec![0; VOCABULARY * 3 * 4];
    let table = |dtype: &str, shape: serde_json::Value, offsets: serde_json::Value| {
        let header =
            json!({ "embeddings": { "dtype": dtype, "shape": shape, "data_offsets": offsets } });
        load(with_header(&header, &data))
    };
    let end = data.len();
    for (dtype, shape, offsets) in [
        ("F32", json!([VOCABULARY, 4]), json!([0, end])),
        ("F64", json!([VOCABULARY, 3]), json!([0, end])),
        ("F32", json!([VOCABULARY, 3]), json!([0, end * 2])),
        ("F32", json!([VOCABULARY, 3]), json!([end, 0])),
        ("F32", json!([VOCABULARY, 3]), json!([4, end])),
        ("F32", json!([u64::MAX, u64::MAX]), json!([0, end])),
        ("F32", json!([-1, 3]), json!([0, end])),
        ("F33", json!([VOCABULARY, 3]), json!([0, end])),
    ] {
        let result = table(dtype, shape.clone(), offsets.clone());
        assert!(matches!(result, Err(LoadError::Safetensors { .. })), "{dtype} {shape} {offsets}");
    }
    for length in [u64::MAX, 1 << 40, 99_999_999, 1] {
        let mut file = safetensors(&[Tensor::table()]);
        file[..8].copy_from_slice(&length.to_le_bytes());
        assert!(matches!(load(file), Err(LoadError::Safetensors { .. })), "header length {length}");
    }
}

#[test]
fn overlapping_tensors_are_refused() {
    let tensor =
        |offsets: [usize; 2]| json!({ "dtype": "F32", "shape": [8, 3], "data_offsets": offsets });
    let header = json!({ "embeddings": tensor([0, 96]), "other": tensor([48, 144]) });
    assert!(matches!(load(with_header(&header, &[0; 144])), Err(LoadError::Safetensors { .. })));
}

#[test]
fn a_table_with_fewer_rows_than_ids_is_refused() {
    check!(
        fixture::model(&[Tensor::rows(VOCABULARY - 1)]),
        LoadError::TooFewRows { expected: 8, found: 7, .. },
        "fixture/model.safetensors: tensor `embeddings`: expected at least 8 rows (one for each token id), found 7"
    );
}

#[test]
fn a_mapping_of_another_length_is_refused() {
    for entries in [&[0, 1, 0][..], &[0; 9]] {
        check!(
            fixture::model(&[Tensor::rows(2), Tensor::i32("mapping", entries)]),
            LoadError::TensorLength { .. },
            format!(
                "fixture/model.safetensors: tensor `mapping`: expected 8 entries (one for each token id), found {}",
                entries.len()
            )
        );
    }
}

#[test]
fn a_mapping_outside_the_table_is_refused() {
    for wrong in [-1, 2, i32::MAX, i32::MIN] {
        check!(
            fixture::model(&[
                Tensor::rows(2),
                Tensor::i32("mapping", &[0, 1, 0, wrong, 0, 0, 0, 0])
            ]),
            LoadError::MappingEntry { index: 3, rows: 2, .. },
            format!(
                "fixture/model.safetensors: tensor `mapping`: entry 3: expected a row from 0 to 1, found {wrong}"
            )
        );
    }
    let huge = Tensor::raw("mapping", "U64", &[8], u64::MAX.to_le_bytes().repeat(8));
    assert!(matches!(
        fixture::model(&[Tensor::rows(2), huge]),
        Err(LoadError::MappingEntry { index: 0, found, .. }) if found == i128::from(u64::MAX)
    ));
}

#[test]
fn every_integer_type_serves_as_a_mapping() -> Result<(), LoadError> {
    for (dtype, size) in [
        ("I8", 1),
        ("U8", 1),
        ("I16", 2),
        ("U16", 2),
        ("I32", 4),
        ("U32", 4),
        ("I64", 8),
        ("U64", 8),
    ] {
        let entry: Vec<u8> = 1u64.to_le_bytes()[..size].to_vec();
        fixture::model(&[Tensor::rows(2), Tensor::raw("mapping", dtype, &[8], entry.repeat(8))])?;
    }
    Ok(())
}

#[test]
fn a_mapping_of_floats_is_refused() {
    check!(
        fixture::model(&[Tensor::rows(2), Tensor::f32("mapping", &[8], &[0.0; 8])]),
        LoadError::TensorType { .. },
        "fixture/model.safetensors: tensor `mapping`: expected one of I8, I16, I32, I64, U8, U16, U32, U64, found F32"
    );
}

#[test]
fn weights_of_another_length_type_or_rank_are_refused() {
    check!(
        fixture::model(&[Tensor::table(), Tensor::f32("weights", &[7], &[1.0; 7])]),
        LoadError::TensorLength { expected: 8, found: 7, .. },
        "fixture/model.safetensors: tensor `weights`: expected 8 entries (one for each token id), found 7"
    );
    check!(
        fixture::model(&[Tensor::table(), Tensor::i32("weights", &[1; 8])]),
        LoadError::TensorType { .. },
        "fixture/model.safetensors: tensor `weights`: expected one of F64, F32, F16, BF16, found I32"
    );
    check!(
        fixture::model(&[Tensor::table(), Tensor::f32("weights", &[8, 1], &[1.0; 8])]),
        LoadError::TensorShape { .. },
        "fixture/model.safetensors: tensor `weights`: expected shape [tokens], found [8, 1]"
    );
}

#[test]
fn a_table_of_another_rank_type_or_without_values_is_refused() {
    check!(
        fixture::model(&[Tensor::f32("embeddings", &[24], &[0.0; 24])]),
        LoadError::TensorShape { .. },
        "fixture/model.safetensors: tensor `embeddings`: expected shape [rows, dim], found [24]"
    );
    for shape in [[8, 0], [0, 8]] {
        check!(
            fixture::model(&[Tensor::f32("embeddings", &shape, &[])]),
            LoadError::TensorShape { .. },
            format!(
                "fixture/model.safetensors: tensor `embeddings`: expected shape [rows, dim], neither of them 0, found {shape:?}"
            )
        );
    }
    check!(
        fixture::model(&[Tensor::raw("embeddings", "I64", &[8, 1], vec![0; 64])]),
        LoadError::TensorType { .. },
        "fixture/model.safetensors: tensor `embeddings`: expected one of F64, F32, F16, BF16, I8, U8, found I64"
    );
}

#[test]
fn a_transformer_is_no_static_model() {
    let name = "encoder.layer.0.attention.self.key.weight";
    check!(
        fixture::model(&[Tensor::f32(name, &[1, 1], &[0.0])]),
        LoadError::NotStatic { .. },
        format!(
            "fixture/model.safetensors: not a static model: expected one tensor named `embeddings`, \
             `embedding.weight` or `0`; tensors found are `{name}`"
        )
    );
}

#[test]
fn every_name_of_the_table_is_accepted() -> Result<(), LoadError> {
    for name in ["embeddings", "embedding.weight", "0"] {
        let mut table = Tensor::table();
        table.name = name;
        assert_eq!(fixture::model(&[table])?.description().table_name, name);
    }
    Ok(())
}

#[test]
fn a_tokenizer_that_is_none_is_refused() {
    let weights = || safetensors(&[Tensor::table()]);
    for broken in [json!({}), json!([]), json!({ "model": { "type": "Telepathy" } })] {
        let error = load_all("{}", &broken, weights()).expect_err("no tokenizer");
        assert!(matches!(error, LoadError::Tokenizer { .. }), "{error:?}");
        assert_eq!(error.to_string(), "fixture/tokenizer.json: not a usable tokenizer");
    }
    let not_json = Bundle::from_bytes("fixture", b"{}".to_vec(), b"{".to_vec(), weights());
    let loaded = StaticModel::from_bundle(not_json, ModelOptions::default());
    assert!(matches!(loaded, Err(LoadError::Tokenizer { .. })));
}

#[test]
fn a_tokenizer_that_panics_on_a_text_fails_that_text() -> Result<(), LoadError> {
    use embed_core::Embedder as _;
    let mut tokenizer = tokenizer();
    // Cutting into pieces of no length is a thing that the parser accepts and the cutter does not.
    tokenizer["pre_tokenizer"] = json!({ "type": "FixedLength", "length": 0 });
    let model = load_all("{}", &tokenizer, safetensors(&[Tensor::table()]))?;
    let error = model.embed(&["a"]).expect_err("no pieces");
    assert!(matches!(error, embed_core::Error::Backend(_)), "{error:?}");
    Ok(())
}

#[test]
fn a_configuration_that_is_no_json_is_refused() {
    let result = load_all("{,}", &tokenizer(), safetensors(&[Tensor::table()]));
    check!(result, LoadError::Json { .. }, "fixture/config.json: not valid JSON");
}

/// A folder with a sound model.
fn folder() -> std::io::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes);
    write("config.json", b"{}")?;
    write("tokenizer.json", tokenizer().to_string().as_bytes())?;
    write("model.safetensors", &safetensors(&[Tensor::table()]))?;
    Ok(folder)
}

const FILES: [&str; 3] = ["config.json", "model.safetensors", "tokenizer.json"];

#[test]
fn a_folder_is_opened_by_mapping_its_files() -> Result<(), Box<dyn std::error::Error>> {
    let folder = folder()?;
    let model = StaticModel::open(folder.path())?;
    assert_eq!(model.description().rows, VOCABULARY);
    Ok(())
}

#[test]
fn empty_files_are_refused_by_name() -> std::io::Result<()> {
    for name in FILES {
        let folder = folder()?;
        fs::write(folder.path().join(name), "")?;
        let error = StaticModel::open(folder.path()).expect_err("an empty file");
        assert!(
            matches!(&error, LoadError::EmptyFile { path } if path.ends_with(name)),
            "{error:?}"
        );
    }
    Ok(())
}

#[test]
fn a_directory_in_place_of_a_file_is_refused_by_name() -> std::io::Result<()> {
    for name in FILES {
        let folder = folder()?;
        fs::remove_file(folder.path().join(name))?;
        fs::create_dir(folder.path().join(name))?;
        let error = StaticModel::open(folder.path()).expect_err("a directory");
        assert!(
            matches!(&error, LoadError::NotAFile { path, found: "a directory" } if path.ends_with(name)),
            "{error:?}"
        );
    }
    Ok(())
}

#[test]
fn a_missing_folder_and_a_file_in_its_place_are_told_apart() -> std::io::Result<()> {
    let folder = folder()?;
    let missing = StaticModel::open(Path::new("no/such/folder")).expect_err("nothing there");
    assert!(missing.to_string().contains("no/such/folder: No such file"), "{missing}");
    let file = StaticModel::open(folder.path().join("config.json")).expect_err("a file");
    assert!(file.to_string().ends_with("config.json: expected a folder, found a file"), "{file}");
    Ok(())
}

#[test]
fn every_layout_is_opened_from_disk() -> Result<(), Box<dyn std::error::Error>> {
    use embed_model2vec::Layout;
    for layout in Layout::ALL {
        let folder = tempfile::tempdir()?;
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent"))?;
            fs::write(path, bytes)
        };
        write(layout.config(), b"{}")?;
        write(layout.tokenizer(), tokenizer().to_string().as_bytes())?;
        write(layout.weights(), &safetensors(&[Tensor::table()]))?;
        write("modules.json", br#"[{"type":"sentence_transformers.models.Normalize"}]"#)?;
        let description = StaticModel::open(folder.path())?.description();
        assert_eq!((description.layout, description.normalize), (layout, true));
    }
    Ok(())
}
