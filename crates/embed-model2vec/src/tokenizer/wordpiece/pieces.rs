//! The longest piece of a vocabulary that a text begins with.
//!
//! The pieces stand in one sorted list. If a piece `p` is a prefix of the text `t`, every piece from
//! `p` up to `t` in that order begins with `p` as well; so the longest prefix is the last piece that is
//! not greater than `t`, or one of that piece's own prefixes. Each piece knows the longest other piece
//! that it begins with (`shorter`), and how far it agrees with the text says how many of those links
//! have to be followed.
//!
//! A search is a binary search among the pieces that share the first two bytes, on keys of eight
//! bytes: a handful of comparisons of integers, whatever the lengths. The list is built by counting
//! and sorting small groups; it needs no other structure than the sorted text itself. (Tried before
//! it: a map of hashed prefixes, which takes a probe for each length and longer to build.)

/// A set of pieces with their ids.
#[derive(Debug)]
pub(super) struct Pieces {
    /// All pieces, one after the other, in order.
    text: Box<[u8]>,
    /// In the order of the pieces.
    entries: Box<[Entry]>,
    /// `entries[groups[g]..groups[g + 1]]` have the first two bytes `g`.
    groups: Box<[u32]>,
    /// The entry of each piece of a single byte.
    single: Box<[u32; 256]>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The first eight bytes, the first one highest; zeros behind the end.
    key: u64,
    start: u32,
    len: u32,
    id: u32,
    /// The longest entry that this one begins with.
    shorter: u32,
}

/// Stands for no entry.
const NONE: u32 = u32::MAX;

impl Pieces {
    /// Builds the set; `None` if a piece occurs twice, or if there are too many to count.
    pub(super) fn new<'a>(pieces: impl Iterator<Item = (&'a [u8], u32)>) -> Option<Self> {
        let pieces: Vec<(&[u8], u32)> = pieces.filter(|(piece, _)| !piece.is_empty()).collect();
        let total: usize = pieces.iter().map(|(piece, _)| piece.len()).sum();
        if u32::try_from(total).is_err() || pieces.len() >= NONE as usize {
            return None;
        }
        let (sorted, groups) = sort(&pieces);
        if sorted.windows(2).any(|pair| pair[0].1 == pair[1].1) {
            return None;
        }

        let mut text = Vec::with_capacity(total);
        let mut entries: Vec<Entry> = Vec::with_capacity(sorted.len());
        let mut single = Box::new([NONE; 256]);
        // The entries that the current piece begins with, the shortest first.
        let mut prefixes: Vec<(u32, &[u8])> = Vec::new();
        for &(key, piece, id) in &sorted {
            while prefixes.last().is_some_and(|(_, prefix)| !piece.starts_with(prefix)) {
                prefixes.pop();
            }
            let shorter = prefixes.last().map_or(NONE, |&(entry, _)| entry);
            let number = u32::try_from(entries.len()).ok()?;
            let (start, len) = (u32::try_from(text.len()).ok()?, u32::try_from(piece.len()).ok()?);
            if let [byte] = *piece {
                single[usize::from(byte)] = number;
            }
            entries.push(Entry { key, start, len, id, shorter });
            prefixes.push((number, piece));
            text.extend_from_slice(piece);
        }
        Some(Self { text: text.into(), entries: entries.into(), groups, single })
    }

    /// Length in bytes and id of the longest piece that `text` begins with.
    #[inline]
    pub(super) fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        let (&first, key) = (text.first()?, key(text));
        let group = group(key);
        let (start, end) = (self.groups[group] as usize, self.groups[group + 1] as usize);
        let not_greater = self.entries[start..end].partition_point(|entry| {
            entry.key < key || entry.key == key && self.piece(entry) <= text
        });
        let mut number = match not_greater {
            // Only a piece of one byte can be a prefix and lie in another group.
            0 => self.single[usize::from(first)],
            count => u32::try_from(start + count - 1).ok()?,
        };
        let mut agreeing = None;
        loop {
            let entry = self.entries.get(number as usize)?;
            let agreeing = *agreeing.get_or_insert_with(|| common_prefix(self.piece(entry), text));
            if entry.len as usize <= agreeing {
                return Some((entry.len as usize, entry.id));
            }
            number = entry.shorter;
        }
    }

    /// The id of exactly `text`.
    pub(super) fn id(&self, text: &[u8]) -> Option<u32> {
        self.longest(text).filter(|&(len, _)| len == text.len()).map(|(_, id)| id)
    }

    fn piece(&self, entry: &Entry) -> &[u8] {
        &self.text[entry.start as usize..][..entry.len as usize]
    }
}

/// The first eight bytes as one number, in an order that agrees with that of the texts.
#[inline]
fn key(text: &[u8]) -> u64 {
    if let Some(bytes) = text.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..text.len()].copy_from_slice(text);
    u64::from_be_bytes(bytes)
}

/// The first two bytes of a key.
#[inline]
fn group(key: u64) -> usize {
    // 16 bits are left.
    usize::try_from(key >> 48).unwrap_or(0)
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

type Keyed<'a> = (u64, &'a [u8], u32);

/// Sorts pieces: first by counting into groups, then within each group.
fn sort<'a>(pieces: &[(&'a [u8], u32)]) -> (Vec<Keyed<'a>>, Box<[u32]>) {
    const GROUPS: usize = 1 << 16;
    let mut groups = vec![0u32; GROUPS + 1].into_boxed_slice();
    let keyed: Vec<Keyed<'a>> = pieces.iter().map(|&(piece, id)| (key(piece), piece, id)).collect();
    for &(key, ..) in &keyed {
        groups[group(key) + 1] += 1;
    }
    for g in 0..GROUPS {
        groups[g + 1] += groups[g];
    }
    let mut next = groups.clone();
    let mut sorted = keyed.clone();
    for piece in keyed {
        let place = &mut next[group(piece.0)];
        sorted[*place as usize] = piece;
        *place += 1;
    }
    for bounds in groups.windows(2) {
        let group = &mut sorted[bounds[0] as usize..bounds[1] as usize];
        if group.len() > 1 {
            group.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        }
    }
    (sorted, groups)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By the definition: the longest of all pieces that are prefixes.
    fn by_trying_all(pieces: &[&str], text: &str) -> Option<(usize, u32)> {
        let matching = pieces.iter().enumerate().filter(|(_, piece)| text.starts_with(**piece));
        matching
            .max_by_key(|(_, piece)| piece.len())
            .map(|(id, piece)| (piece.len(), u32::try_from(id).expect("few")))
    }

    fn set(pieces: &[&str]) -> Option<Pieces> {
        Pieces::new(
            pieces
                .iter()
                .enumerate()
                .map(|(id, p)| (p.as_bytes(), u32::try_from(id).expect("few"))),
        )
    }

    #[test]
    fn links_are_followed_to_the_longest_prefix() {
        let pieces = ["a", "ab", "abcdefghij", "abcdefghijk", "abd", "b", "é", "éa", "a\0", "\0"];
        let set = set(&pieces).expect("all differ");
        for text in [
            "",
            "a",
            "ab",
            "abc",
            "abcdefghijz",
            "abcdefghijkz",
            "abcdefgh",
            "abe",
            "ac",
            "z",
            "ba",
            "é",
            "éb",
            "éab",
            "a\0b",
            "\0",
            "\0\0",
            "a\u{1}",
        ] {
            assert_eq!(set.longest(text.as_bytes()), by_trying_all(&pieces, text), "{text:?}");
        }
        assert_eq!((set.id(b"abd"), set.id(b"abde")), (Some(4), None));
    }

    #[test]
    fn a_piece_that_occurs_twice_is_refused() {
        assert!(set(&["a", "b", "a"]).is_none());
        assert!(set(&["", ""]).is_some_and(|set| set.longest(b"a").is_none()));
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found(
            pieces in prop::collection::hash_set("[ab\0é]{1,11}", 0..40),
            texts in prop::collection::vec("[ab\0éz]{0,14}", 1..20),
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let set = set(&pieces).expect("a set");
            for text in texts.iter().map(String::as_str).chain(pieces.iter().copied()) {
                prop_assert_eq!(set.longest(text.as_bytes()), by_trying_all(&pieces, text));
            }
        }
    }
}
