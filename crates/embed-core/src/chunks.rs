//! Cutting a long batch into pieces of bounded size.

use std::num::NonZeroUsize;
use std::ops::Range;

/// Cuts `count` items into consecutive ranges of at most `max_rows` items.
///
/// The ranges are in order, touch each other and cover `0..count` exactly. All but the last have
/// `max_rows` items; `count == 0` gives no range. A limit of zero cannot be expressed, because it
/// would lose every item.
///
/// ```
/// use std::num::NonZeroUsize;
/// let limit = NonZeroUsize::new(4).ok_or("zero")?;
/// let ranges: Vec<_> = embed_core::forward_chunk_ranges(10, limit).collect();
/// assert_eq!(ranges, [0..4, 4..8, 8..10]);
/// # Ok::<(), &str>(())
/// ```
pub fn forward_chunk_ranges(
    count: usize,
    max_rows: NonZeroUsize,
) -> impl ExactSizeIterator<Item = Range<usize>> {
    let max_rows = max_rows.get();
    (0..count.div_ceil(max_rows)).map(move |chunk| {
        let start = chunk * max_rows;
        start..count.min(start.saturating_add(max_rows))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_cover_everything_once(count in 0usize..5000, limit in 1usize..600) {
            let limit = NonZeroUsize::new(limit).expect("not zero");
            let mut next = 0;
            for range in forward_chunk_ranges(count, limit) {
                prop_assert_eq!(range.start, next);
                prop_assert!(!range.is_empty() && range.len() <= limit.get());
                next = range.end;
            }
            prop_assert_eq!(next, count);
        }
    }

    #[test]
    fn the_largest_limit_gives_one_range() {
        let ranges: Vec<_> = forward_chunk_ranges(7, NonZeroUsize::MAX).collect();
        assert_eq!(ranges, vec![0..7]);
    }
}
