//! The op on Candle's CPU device, where its rows must have the bits of the definition.

use candle_core::{DType, Device as CandleDevice, Result, Tensor};
use embed_core::NormGuard;

use super::pool::{CandlePool, dtype};
use super::{PoolRowsOptions, pool_rows};
use crate::device::test_cases::{Case, cases};
use crate::device::{Device, DeviceTable};

/// The table of a model on Candle's CPU device.
fn on_cpu(table: &DeviceTable<'_>) -> CandlePool {
    let shape = [table.rows, table.dim];
    let uploaded =
        Tensor::from_raw_buffer(table.bytes, dtype(table.kind), &shape, &CandleDevice::Cpu);
    let uploaded = uploaded.expect("a table");
    CandlePool::new(Device::Cpu, "candle".to_owned(), uploaded, table).expect("a table")
}

#[test]
fn a_pool_gives_the_rows_of_the_definition() {
    for case in cases() {
        case.check_on(&on_cpu(&case.table()));
    }
}

#[test]
fn nothing_is_launched_for_bags_without_ids() {
    let mut case = cases().swap_remove(0);
    case.bags.clear();
    case.bags.close();
    case.bags.close();
    let pool = on_cpu(&case.table());
    case.check_on(&pool);
    assert_eq!(crate::device::PoolRows::counts(&pool).launches, 0);
}

/// The tensors of a case.
fn tensors(case: &Case) -> Result<(Tensor, Tensor, Tensor, PoolRowsOptions)> {
    let cpu = CandleDevice::Cpu;
    let vector = |values: &[u32]| Tensor::from_slice(values, values.len(), &cpu);
    let table = case.table();
    let shape = [table.rows, table.dim];
    let rows = Tensor::from_raw_buffer(table.bytes, dtype(table.kind), &shape, &cpu)?;
    let mut options = PoolRowsOptions::default().with_columns(case.columns);
    options.normalize = case.normalize;
    if let Some(factors) = table.factors {
        options = options.with_factors(Tensor::new(factors, &cpu)?);
    }
    if let Some(mapping) = table.mapping {
        options = options.with_mapping(vector(mapping)?);
    }
    Ok((rows, vector(case.bags.ids())?, vector(case.bags.offsets())?, options))
}

#[test]
fn the_adapter_gives_the_rows_of_the_definition() -> Result<()> {
    for case in cases() {
        let (table, ids, offsets, options) = tensors(&case)?;
        let rows = pool_rows(&table, &ids, &offsets, &options)?;
        assert_eq!(rows.dims2()?, (case.bags.len(), case.columns));
        case.check(&rows.flatten_all()?.to_vec1()?);
    }
    Ok(())
}

#[test]
fn parts_of_tensors_are_tensors() -> Result<()> {
    let cpu = CandleDevice::Cpu;
    let table = Tensor::new(&[[9f32, 9.0], [1.0, 2.0], [3.0, 4.0]], &cpu)?.narrow(0, 1, 2)?;
    let ids = Tensor::new(&[7u32, 0, 1, 7], &cpu)?.narrow(0, 1, 2)?;
    let offsets = Tensor::new(&[7u32, 0, 2], &cpu)?.narrow(0, 1, 2)?;
    let factors = Tensor::new(&[9f32, 10.0, 100.0], &cpu)?.narrow(0, 1, 2)?;
    let options = PoolRowsOptions::default().with_factors(factors);
    let rows = pool_rows(&table, &ids, &offsets, &options)?;
    assert_eq!(rows.to_vec2::<f32>()?, [[155.0, 210.0]]);
    Ok(())
}

#[test]
fn no_bags_give_no_rows() -> Result<()> {
    let cpu = CandleDevice::Cpu;
    let table = Tensor::zeros((2, 3), DType::F32, &cpu)?;
    let none = Tensor::zeros(0, DType::U32, &cpu)?;
    let offsets = Tensor::zeros(1, DType::U32, &cpu)?;
    let options = PoolRowsOptions::default().with_normalize(NormGuard::AddTiny);
    assert_eq!(pool_rows(&table, &none, &offsets, &options)?.dims2()?, (0, 3));
    let offsets = Tensor::zeros(3, DType::U32, &cpu)?;
    let rows = pool_rows(&table, &none, &offsets, &options)?;
    assert_eq!(rows.to_vec2::<f32>()?, [[0.0; 3]; 2]);
    Ok(())
}

/// A table of two rows and three columns, with one thing that may be wrong.
struct Arguments {
    table: Tensor,
    ids: Tensor,
    offsets: Tensor,
    options: PoolRowsOptions,
}

#[track_caller]
fn refuses(part: &str, change: impl FnOnce(&mut Arguments) -> Result<()>) {
    let cpu = &CandleDevice::Cpu;
    let arguments = || -> Result<Arguments> {
        Ok(Arguments {
            table: Tensor::zeros((2, 3), DType::F32, cpu)?,
            ids: Tensor::new(&[0u32, 1, 1], cpu)?,
            offsets: Tensor::new(&[0u32, 1, 3], cpu)?,
            options: PoolRowsOptions::default(),
        })
    };
    let pool = |arguments: &Arguments| {
        let Arguments { table, ids, offsets, options } = arguments;
        pool_rows(table, ids, offsets, options)
    };
    let mut arguments = arguments().expect("tensors");
    pool(&arguments).expect("nothing is wrong yet");
    change(&mut arguments).expect("tensors");
    let message = pool(&arguments).expect_err("something is wrong").to_string();
    assert!(message.contains(part), "{message}");
}

fn vector(values: &[u32]) -> Result<Tensor> {
    Tensor::from_slice(values, values.len(), &CandleDevice::Cpu)
}

#[test]
fn shapes_and_types_are_checked() {
    let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &CandleDevice::Cpu);
    let set = |place: &mut Tensor, value: Result<Tensor>| value.map(|value| *place = value);
    refuses("rank", |a| set(&mut a.table, zeros(&[6], DType::F32)));
    refuses("neither may be 0", |a| set(&mut a.table, zeros(&[2, 0], DType::F32)));
    refuses("F64", |a| set(&mut a.table, zeros(&[2, 3], DType::F64)));
    refuses("the table is not contiguous", |a| set(&mut a.table, zeros(&[3, 2], DType::F32)?.t()));
    refuses("ids: expected a vector", |a| set(&mut a.ids, zeros(&[3, 1], DType::U32)));
    refuses("ids: expected a vector", |a| set(&mut a.ids, zeros(&[3], DType::I64)));
    refuses("ids: not contiguous", |a| set(&mut a.ids, zeros(&[1], DType::U32)?.expand(3)));
    refuses("offsets: expected a vector", |a| set(&mut a.offsets, zeros(&[3], DType::F32)));
    for columns in [0, 4] {
        refuses("columns of a table with 3", |a| {
            a.options.columns = Some(columns);
            Ok(())
        });
    }
    refuses("the mapping: expected a vector", |a| {
        a.options.mapping = Some(zeros(&[2], DType::U8)?);
        Ok(())
    });
    refuses("the factors: expected a vector", |a| {
        a.options.factors = Some(zeros(&[2], DType::F16)?);
        Ok(())
    });
    refuses("3 factors and 2 entries", |a| {
        a.options.factors = Some(zeros(&[3], DType::F32)?);
        a.options.mapping = Some(vector(&[0, 0])?);
        Ok(())
    });
}

#[test]
fn offsets_ids_and_mapping_are_checked() {
    let offsets = |values: &'static [u32]| {
        move |a: &mut Arguments| vector(values).map(|offsets| a.offsets = offsets)
    };
    refuses("first offset", offsets(&[]));
    refuses("first offset", offsets(&[1, 3]));
    refuses("go down after bag 1", offsets(&[0, 2, 1, 3]));
    refuses("the last offset is 2", offsets(&[0, 1, 2]));
    refuses("the last offset is 4", offsets(&[0, 1, 4]));
    refuses("the last offset is 0", offsets(&[0]));
    refuses("id 2 is beyond a vocabulary of 2", |a| vector(&[0, 2, 1]).map(|ids| a.ids = ids));
    refuses("id 1 is beyond a vocabulary of 1", |a| {
        a.options.factors = Some(Tensor::zeros(1, DType::F32, &CandleDevice::Cpu)?);
        Ok(())
    });
    refuses("id 1 is beyond a vocabulary of 1", |a| {
        a.options.mapping = Some(vector(&[0])?);
        Ok(())
    });
    refuses("leads to row 2 of a table with 2", |a| {
        a.options.mapping = Some(vector(&[0, 1, 2])?);
        Ok(())
    });
}

#[cfg(feature = "default-model")]
#[test]
fn the_default_model_gives_its_rows_through_a_pool() {
    use embed_core::{Embedder as _, EncodeOptions, Input, MaxLength, Normalize, RowInfo};

    use crate::StaticModel;
    use crate::device::{Piece, PoolRows as _, embed_into};
    use crate::forward::Forward;

    let model = StaticModel::default_embedded();
    let table = DeviceTable::new(model.weights(), &model.weights_file().bytes, Device::Cpu);
    let pool = on_cpu(&table.expect("the table is I8"));
    let long = "one long text ".repeat(500);
    let texts = ["", "a cat sat on the mat", "[UNK]", &long, "naïve café, 東京"];
    let inputs = texts.map(Input::Text);
    let batches = [
        EncodeOptions::default(),
        EncodeOptions::default().with_normalize(Normalize::No),
        EncodeOptions::default().with_max_length(MaxLength::Unlimited),
    ];
    for options in &batches {
        let forward = Forward {
            model: &model,
            limits: model.limits(options),
            normalize: model.normalizes(options).then_some(options.norm_guard),
            columns: model.dim(),
        };
        let mut out = vec![f32::NAN; texts.len() * model.dim()];
        let mut info = vec![RowInfo::default(); texts.len()];
        embed_into(&pool, &forward, Piece::default(), &inputs, &mut out, &mut info).expect("texts");
        let expected = model.embed_with(&texts, options).expect("texts");
        for (row, expected) in out.chunks_exact(model.dim()).zip(expected.rows()) {
            assert_eq!(row, expected);
        }
    }
    let once_for_each_batch = batches.len() as u64;
    assert_eq!(pool.counts().launches, once_for_each_batch);
    assert_eq!(pool.counts().read_backs, once_for_each_batch);
}
