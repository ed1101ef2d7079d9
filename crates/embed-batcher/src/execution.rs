//! One call of the backend: under `catch_unwind`, checked, and split where single items are at fault.
//!
//! Every way to the backend, inline, queued and around the queue, comes through here, so that they give
//! the same guarantees.

use std::any::Any;
use std::collections::HashMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::backend::{Backend, RowFault};
use crate::error::Error;
use crate::fault::{Fault, Seeded};
use crate::planner::Few;

/// What became of one item.
pub(crate) type ItemResult<B> = Result<<B as Backend>::Row, Failure<<B as Backend>::Error>>;

/// Why an item has no row.
#[derive(Clone, Debug)]
pub(crate) struct Failure<E: std::error::Error + 'static> {
    pub(crate) error: Error<E>,
    /// Whether the item was alone in its call, so that a position in the error is that of the item.
    pub(crate) alone: bool,
}

/// Runs `items` and gives one result for each.
///
/// A failure that the backend calls data-dependent makes it run the halves, so that one bad item among
/// n costs about 2 log2 n more calls, and n bad ones cost 2 n.
pub(crate) fn run<B: Backend>(
    backend: &B,
    items: &[&B::Item],
    options: &B::Options,
    seeded: Seeded,
) -> Vec<ItemResult<B>> {
    let error = match run_once(backend, items, options, seeded) {
        Ok(rows) => return rows.into_iter().map(Ok).collect(),
        Err(error) => error,
    };
    let alone = items.len() == 1;
    let split = !alone && guarded(|| backend.is_data_dependent(&error)).unwrap_or(false);
    if !split {
        return items.iter().map(|_| Err(Failure { error: error.clone(), alone })).collect();
    }
    let (left, right) = items.split_at(items.len() / 2);
    let mut results = run(backend, left, options, seeded);
    results.extend(run(backend, right, options, seeded));
    results
}

/// The distinct ones among some items, and where each item is among them.
pub(crate) struct Distinct<'a, I: ?Sized> {
    pub(crate) items: Few<&'a I>,
    /// `None` where all are taken as distinct.
    places: Option<Vec<usize>>,
}

impl<'a, I: ?Sized + Eq + Hash> Distinct<'a, I> {
    /// Looks for equal ones, if `shares` says that they may share.
    pub(crate) fn of(items: Few<&'a I>, shares: bool) -> Self {
        if !shares || items.len() < 2 {
            return Self { items, places: None };
        }
        let mut known = HashMap::with_capacity(items.len());
        let mut distinct = Few::new();
        let place = |item: &'a I| {
            *known.entry(item).or_insert_with(|| {
                distinct.push(item);
                distinct.len() - 1
            })
        };
        let places: Vec<usize> = items.into_iter().map(place).collect();
        Self { items: distinct, places: Some(places) }
    }

    /// One result for each of the items, from one for each distinct item.
    pub(crate) fn spread<R: Clone>(&self, results: Vec<R>) -> Vec<R> {
        let Some(places) = &self.places else { return results };
        places.iter().map(|place| results[*place].clone()).collect()
    }
}

fn run_once<B: Backend>(
    backend: &B,
    items: &[&B::Item],
    options: &B::Options,
    seeded: Seeded,
) -> Result<Vec<B::Row>, Error<B::Error>> {
    guarded(|| {
        let mut rows = backend.run(items, options).map_err(Error::Backend)?;
        if seeded.is(Fault::I2RotatesRows) {
            let by = 1.min(rows.len());
            rows.rotate_left(by);
        }
        if seeded.is(Fault::I24DependsOnOrder) && rows.len() == 3 {
            rows.swap(0, 1);
        }
        if seeded.is(Fault::I7SkipsTheChecks) && rows.len() >= items.len() {
            return Ok(rows);
        }
        if rows.len() != items.len() {
            return Err(Error::RowCount { expected: items.len(), received: rows.len() });
        }
        for (row, values) in rows.iter().enumerate() {
            backend.check(values, options).map_err(|fault| match fault {
                RowFault::Width { expected, received } => {
                    Error::RowWidth { row, expected, received }
                }
                RowFault::NotFinite { column } => Error::NotFinite { row, column },
            })?;
        }
        Ok(rows)
    })?
}

/// Runs a caller's function; a panic becomes an error.
///
/// Nothing is shared with the function that a panic could leave half changed: it gets references to
/// what it may not change, and its result is dropped.
pub(crate) fn guarded<T>(function: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|payload| Panic(message(&*payload).into()))
}

/// A panic that was caught: what it said.
#[derive(Debug)]
pub(crate) struct Panic(Arc<str>);

impl<E: std::error::Error> From<Panic> for Error<E> {
    fn from(Panic(message): Panic) -> Self {
        Self::Panicked { message }
    }
}

/// What a panic said, where it said a string.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The error that a caller sees whose item `position` failed: of an item that failed alone, whatever
/// position it names is that of the caller.
pub(crate) fn located<B: Backend>(
    backend: &B,
    failure: Failure<B::Error>,
    position: usize,
) -> Error<B::Error> {
    match failure.error {
        error if !failure.alone => error,
        Error::Backend(error) => {
            Error::Backend(guarded(|| backend.relocate(error.clone(), position)).unwrap_or(error))
        }
        Error::RowWidth { expected, received, .. } => {
            Error::RowWidth { row: position, expected, received }
        }
        Error::NotFinite { column, .. } => Error::NotFinite { row: position, column },
        error => error,
    }
}
