//! The gate beside a model of it, and the cases that matter by name.

use std::task::Waker;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::clock::ManualClock;

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn check_occupancy(gate: &DeviceGate, holders: usize, waiting: usize) {
    assert_eq!(gate.occupancy(), Occupancy { holders, waiting });
}

#[test]
fn an_exclusive_owner_excludes_itself() {
    let gate = DeviceGate::new();
    let owner = Owner::exclusive("generation");
    let guard = gate.try_acquire(&owner);
    assert!(guard.is_some());
    assert!(gate.try_acquire(&owner).is_none());
    assert_eq!(owner.name(), "generation");
    drop(guard);
    check_occupancy(&gate, 0, 0);
}

#[test]
fn a_foreign_owner_that_waits_blocks_the_owner_inside() {
    let gate = DeviceGate::new();
    let (embedding, generation) = (Owner::shared("embedding"), Owner::exclusive("generation"));
    let inside = gate.try_acquire(&embedding);
    let mut foreign = gate.acquire(&generation);
    assert!(poll(&mut foreign).is_pending());
    assert!(gate.try_acquire(&embedding).is_none());
    let mut late = gate.acquire(&embedding);
    assert!(poll(&mut late).is_pending());
    drop(inside);
    let Poll::Ready(guard) = poll(&mut foreign) else { unreachable!("the gate is free for it") };
    assert!(poll(&mut late).is_pending());
    drop(guard);
    assert!(poll(&mut late).is_ready());
}

#[test]
fn a_waiter_that_gives_up_lets_those_behind_it_go_on() {
    let gate = DeviceGate::new();
    let (embedding, generation) = (Owner::shared("embedding"), Owner::exclusive("generation"));
    let _inside = gate.try_acquire(&embedding);
    let mut foreign = gate.acquire(&generation);
    let mut late = gate.acquire(&embedding);
    assert!(poll(&mut foreign).is_pending() && poll(&mut late).is_pending());
    drop(foreign);
    check_occupancy(&gate, 2, 0);
    assert!(poll(&mut late).is_ready());
}

#[test]
fn a_waiter_that_was_let_in_and_never_looked_gives_the_gate_back() {
    let gate = DeviceGate::new();
    let (first, second) = (Owner::exclusive("first"), Owner::exclusive("second"));
    let inside = gate.try_acquire(&first);
    let mut let_in = gate.acquire(&second);
    assert!(poll(&mut let_in).is_pending());
    drop(inside);
    check_occupancy(&gate, 1, 0);
    drop(let_in);
    check_occupancy(&gate, 0, 0);
}

#[test]
fn the_waker_of_the_last_poll_is_the_one_that_is_called() {
    struct Woken(std::sync::atomic::AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let gate = DeviceGate::new();
    let inside = gate.try_acquire(&Owner::exclusive("first"));
    let mut waits = gate.acquire(&Owner::exclusive("second"));
    let woken = [false, false].map(|woken| Arc::new(Woken(woken.into())));
    for woken in &woken {
        let waker = Waker::from(Arc::clone(woken));
        assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(inside);
    assert_eq!(woken.map(|woken| woken.0.load(Ordering::SeqCst)), [false, true]);
}

#[test]
fn an_acquisition_that_fails_a_thousand_times_leaves_no_trace() {
    let (gate, clock) = (DeviceGate::new(), ManualClock::new());
    let (embedding, generation) = (Owner::shared("embedding"), Owner::exclusive("generation"));
    let inside = gate.try_acquire(&generation);
    for _ in 0..1000 {
        let deadline = clock.now() + Duration::from_millis(1);
        let mut attempt = std::pin::pin!(gate.acquire_before(&embedding, &clock, deadline));
        assert!(poll(&mut attempt).is_pending());
        check_occupancy(&gate, 1, 1);
        clock.advance(Duration::from_millis(1));
        assert!(matches!(poll(&mut attempt), Poll::Ready(None)));
    }
    check_occupancy(&gate, 1, 0);
    assert_eq!(clock.timers().pending(), 0);
    drop(inside);
    let mut attempt = std::pin::pin!(gate.acquire_before(&embedding, &clock, clock.now()));
    assert!(matches!(poll(&mut attempt), Poll::Ready(Some(_))));
}

#[test]
fn a_panic_inside_gives_the_gate_back() {
    let gate = DeviceGate::new();
    let owner = Owner::exclusive("generation");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = gate.try_acquire(&owner);
        std::panic::panic_any("inside")
    }));
    assert!(panicked.is_err());
    check_occupancy(&gate, 0, 0);
}

#[test]
fn an_observed_gate_reports_waiting_and_holding() {
    #[derive(Default)]
    struct Seen(Mutex<Vec<(String, Duration, Duration)>>);
    impl Observer for Seen {
        fn observe(&self, observation: &Observation<'_>) {
            if let Observation::GateHeld { owner, waited, held } = *observation {
                self.0.lock().push((owner.to_owned(), waited, held));
            }
        }
    }
    let (clock, seen) = (ManualClock::new(), Arc::new(Seen::default()));
    let gate = DeviceGate::observed(Arc::new(clock.clone()), seen.clone());
    let ms = Duration::from_millis;
    let first = gate.try_acquire(&Owner::exclusive("first"));
    let mut second = gate.acquire(&Owner::exclusive("second"));
    assert!(poll(&mut second).is_pending());
    clock.advance(ms(3));
    drop(first);
    let Poll::Ready(guard) = poll(&mut second) else { unreachable!("the gate is free") };
    clock.advance(ms(5));
    drop(guard);
    let expected = [("first".to_owned(), ms(0), ms(3)), ("second".to_owned(), ms(3), ms(5))];
    assert_eq!(*seen.0.lock(), expected);
}

/// What may happen at a gate with three owners: two shared, one exclusive.
#[derive(Clone, Debug)]
enum Op {
    Try(usize),
    Ask(usize),
    Leave(usize),
    GiveUp(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => (0..3_usize).prop_map(Op::Try),
        3 => (0..3_usize).prop_map(Op::Ask),
        3 => any::<usize>().prop_map(Op::Leave),
        1 => any::<usize>().prop_map(Op::GiveUp),
    ]
}

/// The definition: a list of holders and a line, admitted from the front.
#[derive(Default)]
struct Model {
    holders: Vec<usize>,
    line: Vec<(u64, usize)>,
}

impl Model {
    fn fits(&self, owner: usize) -> bool {
        self.holders.is_empty() || (owner < 2 && self.holders.iter().all(|holder| *holder == owner))
    }

    /// Whom the line lets in.
    fn admit(&mut self) -> Vec<u64> {
        let mut admitted = Vec::new();
        while let Some(&(id, owner)) = self.line.first()
            && self.fits(owner)
        {
            self.line.remove(0);
            self.holders.push(owner);
            admitted.push(id);
        }
        admitted
    }
}

fn play(ops: &[Op]) {
    let gate = DeviceGate::new();
    let owners = [Owner::shared("a"), Owner::shared("b"), Owner::exclusive("c")];
    let mut model = Model::default();
    let mut guards: Vec<(usize, GateGuard)> = Vec::new();
    let mut waits: Vec<(u64, usize, Acquire)> = Vec::new();
    for (id, op) in ops.iter().enumerate() {
        let mut admitted = Vec::new();
        match *op {
            Op::Try(owner) => {
                let expected = model.line.is_empty() && model.fits(owner);
                let guard = gate.try_acquire(&owners[owner]);
                assert_eq!(guard.is_some(), expected);
                if let Some(guard) = guard {
                    model.holders.push(owner);
                    guards.push((owner, guard));
                }
            }
            Op::Ask(owner) => {
                model.line.push((id as u64, owner));
                admitted = model.admit();
                waits.push((id as u64, owner, gate.acquire(&owners[owner])));
            }
            Op::Leave(which) if !guards.is_empty() => {
                let (owner, guard) = guards.remove(which % guards.len());
                drop(guard);
                let place = model.holders.iter().position(|holder| *holder == owner);
                model.holders.remove(place.expect("it was inside"));
                admitted = model.admit();
            }
            Op::GiveUp(which) if !waits.is_empty() => {
                let (id, ..) = waits.remove(which % waits.len());
                model.line.retain(|(waiting, _)| *waiting != id);
                admitted = model.admit();
            }
            Op::Leave(_) | Op::GiveUp(_) => {}
        }
        let mut still = Vec::new();
        for (id, owner, mut wait) in waits {
            match poll(&mut wait) {
                Poll::Ready(guard) => {
                    assert!(admitted.contains(&id), "{id} was let in out of turn");
                    guards.push((owner, guard));
                }
                Poll::Pending => {
                    assert!(!admitted.contains(&id), "{id} was not let in");
                    still.push((id, owner, wait));
                }
            }
        }
        waits = still;
        check_occupancy(&gate, model.holders.len(), model.line.len());
    }
    drop((guards, waits));
    check_occupancy(&gate, 0, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn behaves_as_its_model(ops in vec(op(), 1..60)) {
        play(&ops);
    }
}
