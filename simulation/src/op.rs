//! Random cases: the settings of a batcher, and what happens to it.

use std::time::Duration;

use embed_batcher::{BatchConfig, Class};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::invariant::Invariant;
use crate::script::Outcome;

/// The settings of a case.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The settings of the batcher.
    pub config: BatchConfig,
    /// Whether a gate stands before the backend.
    pub gated: bool,
    /// Whether no two texts are equal, so that a call tells which entries it serves.
    pub unique: bool,
}

/// A text of a request: which one of a few (made unique where the setup says so), and its cost.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// Its name.
    pub name: u8,
    /// Its cost in tokens.
    pub tokens: u8,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Op {
    /// A request arrives.
    Submit {
        /// Its texts.
        texts: Vec<Text>,
        /// Its class.
        class: Class,
        /// Its options, one of three.
        options: u8,
        /// Its deadline from now, in milliseconds.
        deadline: Option<u8>,
        /// How the call ends if it runs inline.
        outcome: Outcome,
    },
    /// A request arrives whose cost function panics.
    SubmitPanickingCost,
    /// The caller of one of the open requests goes away.
    Cancel(u8),
    /// Time passes, timer by timer.
    Advance(u8),
    /// Time jumps ahead over any number of timers.
    Jump(u16),
    /// The clock is set back.
    TurnBack(u8),
    /// One of the running batches comes back.
    Finish(u8, Outcome),
    /// Somebody else asks for the gate.
    HoldGate,
    /// Somebody else leaves the gate, or gives up waiting.
    ReleaseGate,
    /// Callers and worker do what they can. Other ops leave it open when that happens.
    Settle,
    /// The batcher is asked to end within so many milliseconds.
    Drain(u8),
    /// All handles are dropped.
    DropHandles,
}

/// What an invariant needs to be put to the test often.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Focus {
    Any,
    Window,
    Aging,
    Fairness,
    Shutdown,
    Sharing,
    Clock,
}

fn focus(invariant: Invariant) -> Focus {
    match invariant {
        Invariant::I13 | Invariant::I14 => Focus::Window,
        Invariant::I16 => Focus::Aging,
        Invariant::I17 | Invariant::I19 => Focus::Fairness,
        Invariant::I20 | Invariant::I21 => Focus::Shutdown,
        Invariant::I9 => Focus::Sharing,
        Invariant::I22 => Focus::Clock,
        _ => Focus::Any,
    }
}

/// Cases in which `invariant` has something to say.
pub(crate) fn case(invariant: Invariant) -> impl Strategy<Value = (Setup, Vec<Op>)> {
    let focus = focus(invariant);
    (setup(focus), vec(op(focus), 1..60))
}

/// A setup, and operations that never end it.
pub(crate) fn endless() -> (impl Strategy<Value = Setup>, impl Strategy<Value = Op>) {
    let ends = |op: &Op| matches!(op, Op::Drain(_) | Op::DropHandles);
    (setup(Focus::Any), op(Focus::Any).prop_filter("goes on", move |op| !ends(op)))
}

fn setup(focus: Focus) -> impl Strategy<Value = Setup> {
    let budgets = (1..=3_usize, 1..=6_usize, 4..=24_usize);
    let queue = (6..=40_usize, 60..=200_usize, 120..=400_usize);
    let linger = match focus {
        Focus::Window => Just(25).boxed(),
        Focus::Any | Focus::Shutdown | Focus::Clock => {
            prop_oneof![2 => Just(0_u64), 1 => Just(25)].boxed()
        }
        Focus::Aging | Focus::Fairness | Focus::Sharing => Just(0).boxed(),
    };
    let aging =
        if focus == Focus::Fairness { Just(1_000_000).boxed() } else { (30..90_u64).boxed() };
    let unique = match focus {
        Focus::Aging | Focus::Fairness => Just(true).boxed(),
        Focus::Sharing => Just(false).boxed(),
        _ => any::<bool>().boxed(),
    };
    let inline = prop_oneof![Just((0_usize, 0_usize)), Just((1000, 0)), Just((1000, 1))];
    // What is in the cache never waits, and the model does not know what is.
    let cache = if focus == Focus::Sharing {
        prop_oneof![Just(0), Just(3)].boxed()
    } else {
        Just(0).boxed()
    };
    let switches = (any::<bool>(), any::<bool>(), cache);
    (budgets, queue, linger, aging, unique, inline, switches).prop_map(
        |(budgets, queue, linger, aging, unique, inline, (gated, share, cache_rows))| {
            let mut config = BatchConfig::default();
            (config.slots, config.max_rows, config.max_tokens) = budgets;
            (config.queue_texts, config.queue_tokens, config.queue_bytes) = queue;
            config.linger = Duration::from_millis(linger);
            config.aging = Duration::from_millis(aging);
            (config.inline_bytes, config.inline_slots) = inline;
            // Without sharing, equal texts could not be told apart.
            config.single_flight = share || !unique;
            config.cache_rows = cache_rows;
            Setup { config, gated, unique }
        },
    )
}

fn op(focus: Focus) -> BoxedStrategy<Op> {
    let texts = if focus == Focus::Fairness { 1..20_usize } else { 1..7 };
    let submit = (
        vec((0..6_u8, 0..8_u8).prop_map(|(name, tokens)| Text { name, tokens }), texts),
        prop_oneof![3 => Just(Class::Interactive), 1 => Just(Class::Bulk)],
        prop_oneof![3 => Just(0_u8), 1 => 0..3_u8],
        prop_oneof![4 => Just(None), 1 => (0..60_u8).prop_map(Some)],
        outcome(),
        // A text larger than any budget now and then.
        prop_oneof![30 => Just(None), 1 => (25..60_u8).prop_map(Some)],
    )
        .prop_map(|(mut texts, class, options, deadline, outcome, large)| {
            if let Some(tokens) = large {
                texts[0].tokens = tokens;
            }
            Op::Submit { texts, class, options, deadline, outcome }
        });
    let finish = (any::<u8>(), outcome()).prop_map(|(which, outcome)| Op::Finish(which, outcome));
    // Fairness is about a backlog, shutdown about the end.
    let time = if focus == Focus::Fairness { 1 } else { 8 };
    // A clock that is set back confuses the model: only one invariant is about it.
    let back = if focus == Focus::Clock {
        (0..40_u8).prop_map(Op::TurnBack).boxed()
    } else {
        Just(Op::Settle).boxed()
    };
    let end = if focus == Focus::Shutdown { 4 } else { 1 };
    prop_oneof![
        24 => submit,
        1 => Just(Op::SubmitPanickingCost),
        6 => any::<u8>().prop_map(Op::Cancel),
        time => (0..40_u8).prop_map(Op::Advance),
        1 => (0..200_u16).prop_map(Op::Jump),
        6 => back,
        20 => finish,
        2 => Just(Op::HoldGate),
        4 => Just(Op::ReleaseGate),
        10 => Just(Op::Settle),
        end => (0..80_u8).prop_map(Op::Drain),
        end => Just(Op::DropHandles),
    ]
    .boxed()
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        12 => Just(Outcome::Rows),
        1 => Just(Outcome::Fails),
        1 => Just(Outcome::Panics),
        1 => Just(Outcome::OneRowMissing),
        1 => Just(Outcome::OneRowMore),
        1 => Just(Outcome::ShortRow),
        1 => Just(Outcome::NotANumber),
    ]
}
