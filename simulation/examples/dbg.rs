//! x
use embed_batcher_simulation::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let i: usize = a[1].parse().unwrap();
    let n: u32 = a[2].parse().unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    let (inv, fault) = Invariant::ALL[i - 1];
    let r = explore(inv, (a.len() > 3).then_some(fault), n, 1);
    println!("{i} {} {:?}\n{}", r.cases, r.counts, r.failure.unwrap_or_default());
}
