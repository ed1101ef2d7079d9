//! The policy with plain values: no worker, no clock, no text.

use std::time::Duration;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A planner whose groups and contents are numbers, and its time.
struct Bench {
    planner: Planner<u8, u32>,
    start: Instant,
    now: Instant,
    next: RequestId,
    /// What the last arrival led to.
    arrived: Vec<Action>,
}

/// A request of one class and group, with the costs of its items; contents are never equal.
struct Sent {
    class: Class,
    group: u8,
    tokens: Vec<usize>,
}

fn lone(tokens: usize) -> Sent {
    Sent { class: Class::Interactive, group: 0, tokens: vec![tokens] }
}

fn array(len: usize, tokens: usize) -> Sent {
    Sent { class: Class::Interactive, group: 0, tokens: vec![tokens; len] }
}

impl Bench {
    #[expect(clippy::disallowed_methods, reason = "an origin is needed, and any will do")]
    fn new(config: BatchConfig) -> Self {
        let now = Instant::now();
        let planner = Planner::new(config, Seeded::default());
        Self { planner, start: now, now, next: 0, arrived: Vec::new() }
    }

    fn default_mode(max_rows: usize, max_tokens: usize) -> Self {
        Self::new(BatchConfig { max_rows, max_tokens, ..BatchConfig::default() })
    }

    fn at(&mut self, ms: u32) -> &mut Self {
        self.now = self.start + MS * ms;
        self
    }

    fn send(&mut self, sent: Sent) -> RequestId {
        self.send_with(sent, None, None)
    }

    fn send_with(
        &mut self,
        Sent { class, group, tokens }: Sent,
        deadline: Option<Instant>,
        content: Option<u32>,
    ) -> RequestId {
        let request = self.next;
        self.next += 1;
        let entry = |tokens| Arriving { tokens, bytes: tokens, content };
        let entries = tokens.into_iter().map(entry).collect();
        let sent = self.now;
        let arrival = Arrival { request, group, class, sent, deadline, entries };
        self.arrived = self.planner.step(Event::Arrived(arrival), self.now);
        request
    }

    fn step(&mut self, event: Event<u8, u32>) -> Vec<Action> {
        self.planner.step(event, self.now)
    }

    /// Forms a batch, if the planner wants one, and lets it come back at once.
    fn run(&mut self) -> Option<Dispatch> {
        let dispatch = self.start_batch()?;
        self.step(Event::Finished(dispatch.batch));
        Some(dispatch)
    }

    fn start_batch(&mut self) -> Option<Dispatch> {
        self.step(Event::TimePassed);
        if !self.planner.wants_permit() {
            return None;
        }
        self.step(Event::Permitted).into_iter().find_map(|action| match action {
            Action::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        })
    }

    /// Requests of the next batch, an item each.
    #[track_caller]
    fn check_batch(&mut self, expected: &[RequestId], cause: CloseCause) {
        let batch = self.run().expect("something is due");
        let requests: Vec<RequestId> = batch.rows.iter().map(|entry| entry.request).collect();
        assert_eq!((requests.as_slice(), batch.cause), (expected, cause));
    }
}

#[test]
fn a_lone_query_alternates_with_an_array() {
    let mut bench = Bench::default_mode(4, 1000);
    let job = bench.send(array(100, 1));
    bench.check_batch(&[job; 4], CloseCause::Rows);
    let (first, second) = (bench.send(lone(1)), bench.send(lone(1)));
    bench.check_batch(&[first, second, job, job], CloseCause::Rows);
    bench.check_batch(&[job; 4], CloseCause::Rows);
}

#[test]
fn arrays_share_by_tokens_and_not_by_items() {
    let mut bench = Bench::default_mode(100, 40);
    let (heavy, light) = (bench.send(array(100, 10)), bench.send(array(100, 2)));
    let mut served = [0_usize, 0];
    for _ in 0..10 {
        let batch = bench.run().expect("both wait");
        for entry in batch.rows {
            served[usize::from(entry.request == light)] +=
                if entry.request == heavy { 10 } else { 2 };
        }
    }
    assert!(served[0].abs_diff(served[1]) <= 10, "{served:?}");
    assert!(served[0] + served[1] >= 10 * 31, "{served:?}");
}

#[test]
fn newcomers_without_end_do_not_starve_an_array() {
    let mut bench = Bench::default_mode(2, 1000);
    let job = bench.send(array(50, 1));
    bench.run();
    let mut served = 0;
    for _ in 0..40 {
        // As many newcomers as the backend can take.
        bench.send(lone(1));
        bench.send(lone(1));
        let batch = bench.run().expect("something waits");
        served += batch.rows.iter().filter(|entry| entry.request == job).count();
    }
    // A fair share sinks as the line grows, one over its length: 2/3 + 2/4 + 2/5 and so on.
    assert!((4..=12).contains(&served), "{served}");
}

#[test]
fn who_has_the_backend_alone_owes_nothing_for_it() {
    let mut bench = Bench::default_mode(1, 1000);
    let job = bench.send(array(50, 1));
    let lone = bench.send(lone(1));
    bench.check_batch(&[job], CloseCause::Rows);
    bench.check_batch(&[lone], CloseCause::Rows);
    for _ in 0..9 {
        bench.check_batch(&[job], CloseCause::Rows);
    }
    // Alone since, it has had all there was: a newcomer starts level with it.
    let late = bench.send(array(50, 1));
    for expected in [late, job, job, late] {
        bench.check_batch(&[expected], CloseCause::Rows);
    }
}

#[test]
fn bulk_goes_after_everything_interactive_until_it_has_aged() {
    let config = BatchConfig { max_rows: 1, aging: MS * 50, ..BatchConfig::default() };
    let mut bench = Bench::new(config);
    let bulk = bench.send(Sent { class: Class::Bulk, ..lone(1) });
    let queries = [bench.send(lone(1)), bench.send(lone(1))];
    bench.check_batch(&[queries[0]], CloseCause::Rows);
    bench.at(49).check_batch(&[queries[1]], CloseCause::Rows);
    let query = bench.send(lone(1));
    bench.at(50).check_batch(&[bulk], CloseCause::Rows);
    bench.check_batch(&[query], CloseCause::Rows);
}

#[test]
fn bulk_fills_what_is_left_of_a_batch() {
    let mut bench = Bench::default_mode(3, 1000);
    let bulk = bench.send(Sent { class: Class::Bulk, ..array(9, 1) });
    let query = bench.send(lone(1));
    bench.check_batch(&[query, bulk, bulk], CloseCause::Rows);
}

#[test]
fn options_never_share_a_batch_and_get_equal_shares() {
    let mut bench = Bench::default_mode(10, 1000);
    let (left, right) = (bench.send(array(40, 1)), bench.send(Sent { group: 1, ..array(40, 1) }));
    let mut lines = Vec::new();
    while let Some(batch) = bench.run() {
        let first = batch.rows[0].request;
        assert!(batch.rows.iter().all(|entry| entry.request == first));
        lines.push(first);
    }
    assert_eq!(lines, [left, right, left, right, left, right, left, right]);
}

#[test]
fn a_group_may_not_run_ahead_by_more_than_a_batch() {
    let mut bench = Bench::default_mode(100, 10);
    // A lone text of group 0 leads time and again; the array of group 0 may ride along only so far.
    let other = bench.send(Sent { group: 1, ..array(40, 1) });
    let job = bench.send(array(100, 1));
    let mut served = [0, 0];
    for _ in 0..20 {
        bench.send(lone(1));
        let batch = bench.run().expect("something waits");
        for entry in &batch.rows {
            served[0] += usize::from(entry.request == job);
            served[1] += usize::from(entry.request == other);
        }
        if served[1] == 40 {
            break;
        }
        assert!(served[0].abs_diff(served[1]) <= 11, "{served:?}");
    }
}

#[test]
fn an_oversize_item_goes_alone_and_blocks_nobody() {
    let mut bench = Bench::default_mode(10, 8);
    let (small, large) = (bench.send(lone(3)), bench.send(lone(90)));
    let (free, last) = (bench.send(lone(0)), bench.send(lone(8)));
    bench.check_batch(&[small], CloseCause::Tokens);
    bench.check_batch(&[large], CloseCause::Tokens);
    bench.check_batch(&[free, last], CloseCause::Exhausted);
    assert_eq!(bench.run(), None);
}

#[test]
fn equal_items_ride_along_wherever_they_wait() {
    let mut bench = Bench::default_mode(1, 1000);
    let first = bench.send_with(lone(5), None, Some(7));
    bench.send(lone(5));
    let twin = bench.send_with(Sent { class: Class::Bulk, ..lone(5) }, None, Some(7));
    let batch = bench.start_batch().expect("three wait");
    assert_eq!((batch.rows[0].request, batch.riders[0].request), (first, twin));
    assert_eq!((batch.rows.len(), batch.riders.len(), batch.tokens), (1, 1, 5));
    // One that comes while the row is computed joins it, and never waits.
    assert_eq!(bench.arrived, []);
    let late = bench.send_with(lone(5), None, Some(7));
    assert_eq!(bench.arrived, [Action::Shared { texts: 1 }]);
    let actions = bench.step(Event::Finished(batch.batch));
    let [Action::Release(released), Action::Deliver { rows }] = &actions[..] else {
        unreachable!("{actions:?}")
    };
    // What joined was counted until now.
    assert_eq!(*released, Amount { texts: 1, tokens: 5, bytes: 5 });
    let takers: Vec<RequestId> = rows[0].iter().map(|entry| entry.request).collect();
    assert_eq!(takers, [first, twin, late]);
    // Once it is back, an equal one is computed anew.
    bench.run();
    let again = bench.send_with(lone(5), None, Some(7));
    bench.check_batch(&[again], CloseCause::Rows);
}

#[test]
fn a_window_is_anchored_at_its_oldest_and_counted_from_when_it_was_sent() {
    let mut bench = Bench::new(BatchConfig::fixed_window(MS * 25, 16));
    let sent = bench.start;
    bench.at(4);
    let request = 0;
    let entries = Few::from_iter([Arriving { tokens: 1, bytes: 1, content: None }]);
    let class = Class::Interactive;
    let arrival = Arrival { request, group: 0, class, sent, deadline: None, entries };
    bench.step(Event::Arrived(arrival));
    bench.next = 1;
    assert_eq!(bench.planner.next_wake_up(), Some(sent + MS * 25));
    bench.at(10).send(lone(1));
    assert_eq!(bench.planner.next_wake_up(), Some(sent + MS * 25));
    assert_eq!(bench.at(24).run(), None);
    bench.at(25).check_batch(&[0, 1], CloseCause::Exhausted);
    assert_eq!(bench.planner.next_wake_up(), None);
}

#[test]
fn a_stale_timer_does_nothing() {
    let mut bench = Bench::new(BatchConfig::fixed_window(MS * 25, 2));
    bench.send(lone(1));
    bench.at(3).send(lone(1));
    bench.check_batch(&[0, 1], CloseCause::Rows);
    bench.at(20).send(lone(1));
    assert_eq!(bench.at(25).step(Event::TimePassed), []);
    assert!(!bench.planner.wants_permit());
    assert_eq!(bench.planner.next_wake_up(), Some(bench.start + MS * 45));
}

#[test]
fn a_request_that_expires_is_answered_wherever_it_is() {
    let mut bench = Bench::default_mode(1, 1000);
    let deadline = bench.start + MS * 10;
    let request = bench.send_with(array(3, 2), Some(deadline), None);
    bench.start_batch();
    assert_eq!(bench.planner.next_wake_up(), Some(deadline));
    let actions = bench.at(10).step(Event::TimePassed);
    let released = Action::Release(Amount { texts: 2, tokens: 4, bytes: 4 });
    let answer = Action::Answer { request, verdict: Verdict::Expired, queued: 2 };
    assert_eq!(actions, [released, answer]);
    assert_eq!(bench.planner.next_wake_up(), None);
    assert_eq!(bench.run(), None);
}

#[test]
fn a_drain_cuts_windows_short_and_ends_when_all_is_done() {
    let mut bench = Bench::new(BatchConfig::fixed_window(MS * 25, 16));
    bench.send(lone(1));
    let deadline = bench.start + MS * 100;
    bench.step(Event::Drain(deadline));
    assert!(bench.planner.wants_permit() && !bench.planner.ended());
    let batch = bench.start_batch().expect("the drain has begun");
    assert_eq!(bench.planner.next_wake_up(), Some(deadline));
    assert!(!bench.planner.ended());
    // Its items were released when they went.
    let actions = bench.step(Event::Finished(batch.batch));
    assert!(matches!(&actions[..], [Action::Deliver { .. }]), "{actions:?}");
    assert!(bench.planner.ended());
    assert_eq!(bench.planner.drained_before(), Some(deadline));
    assert_eq!(bench.planner.next_wake_up(), None);
}

#[test]
fn a_drain_ends_at_the_earliest_deadline_whatever_runs() {
    let mut bench = Bench::default_mode(1, 10);
    let (running, waiting) = (bench.send(lone(1)), bench.send(lone(1)));
    bench.start_batch();
    bench.step(Event::Drain(bench.start + MS * 50));
    bench.step(Event::Drain(bench.start + MS * 90));
    assert_eq!(bench.at(49).step(Event::TimePassed), []);
    let actions = bench.at(50).step(Event::TimePassed);
    let closed = |request, queued| Action::Answer { request, verdict: Verdict::Closed, queued };
    let released = Action::Release(Amount { texts: 1, tokens: 1, bytes: 1 });
    assert_eq!(actions, [closed(running, 0), released, closed(waiting, 1)]);
    assert!(bench.planner.ended());
    assert_eq!(bench.planner.drained_before(), None);
}

#[test]
fn a_clock_that_goes_back_is_not_followed() {
    let mut bench = Bench::new(BatchConfig::fixed_window(MS * 25, 16));
    bench.at(100).send(lone(1));
    bench.at(90).send(lone(1));
    assert_eq!(bench.planner.next_wake_up(), Some(bench.start + MS * 115));
    assert_eq!(bench.at(0).step(Event::TimePassed), []);
    bench.at(115).check_batch(&[0, 1], CloseCause::Exhausted);
}

#[test]
fn a_batch_says_how_long_its_oldest_waited() {
    let mut bench = Bench::default_mode(10, 10);
    bench.at(3).send(lone(1));
    bench.at(7).send(lone(1));
    let batch = bench.at(9).run().expect("two wait");
    assert_eq!((batch.oldest, batch.tokens), (bench.start + MS * 3, 2));
}
