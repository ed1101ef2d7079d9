//! The longest piece of a vocabulary that a text begins with.
//!
//! The pieces stand in one sorted list. If a piece `p` is a prefix of the text `t`, every piece from
//! `p` up to `t` in that order begins with `p` as well; so the longest prefix is the last piece that is
//! not greater than `t`, or one of that piece's own prefixes. Each piece knows the longest other piece
//! that it begins with (`shorter`), and how far it agrees with the text says how many of those links
//! have to be followed.
//!
//! A search is a binary search among the pieces that share the first two bytes, on keys of eight
//! bytes: a handful of comparisons of integers, whatever the lengths. The list is built in its place,
//! by counting and sorting small groups; it needs no other memory, and memory that is touched for the
//! first time is what loading mostly consists of. (Tried before it: a map of hashed prefixes, which
//! takes a probe for each length and longer to build.)

/// A set of pieces with their ids.
#[derive(Debug)]
pub(super) struct Pieces {
    /// All pieces, one after the other, in the order in which they were given.
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

/// Groups of pieces with the same first two bytes.
const GROUPS: usize = 1 << 16;

impl Pieces {
    /// Builds the set; `None` if a piece occurs twice, or if there are too many to count.
    pub(super) fn new<'a>(pieces: impl Iterator<Item = (&'a [u8], u32)> + Clone) -> Option<Self> {
        let pieces = pieces.filter(|(piece, _)| !piece.is_empty());
        let (mut count, mut total) = (0, 0);
        let mut groups = vec![0_u32; GROUPS + 1];
        for (piece, _) in pieces.clone() {
            count += 1;
            total += piece.len();
            // No number overflows if the check behind this loop succeeds.
            let group = &mut groups[group(key(piece)) + 1];
            *group = group.wrapping_add(1);
        }
        if u32::try_from(total).is_err() || count >= NONE as usize {
            return None;
        }
        let mut before = 0;
        for group in &mut groups {
            before += *group;
            *group = before;
        }

        // Each piece goes to the next place of its group, so that the number of each group becomes
        // that of the one behind it.
        let mut text = Vec::with_capacity(total);
        let nothing = Entry { key: 0, start: 0, len: 0, id: 0, shorter: NONE };
        let mut entries = vec![nothing; count];
        for (piece, id) in pieces {
            let key = key(piece);
            let place = &mut groups[group(key)];
            let (start, len) = (u32::try_from(text.len()).ok()?, u32::try_from(piece.len()).ok()?);
            entries[*place as usize] = Entry { key, start, len, id, shorter: NONE };
            *place += 1;
            text.extend_from_slice(piece);
        }
        groups.copy_within(..GROUPS, 1);
        groups[0] = 0;
        let mut set = Self {
            text: text.into(),
            entries: entries.into(),
            groups: groups.into(),
            single: Box::new([NONE; 256]),
        };
        set.sort();
        set.link()?;
        Some(set)
    }

    /// Sorts the entries of each group.
    fn sort(&mut self) {
        let text = &self.text[..];
        for bounds in self.groups.windows(2).filter(|bounds| bounds[1] - bounds[0] > 1) {
            let group = &mut self.entries[bounds[0] as usize..bounds[1] as usize];
            group.sort_unstable_by(|a, b| {
                a.key.cmp(&b.key).then_with(|| a.piece(text).cmp(b.piece(text)))
            });
        }
    }

    /// Finds the longest entry that each entry begins with, and the entries of a single byte; `None`
    /// if two entries are the same.
    fn link(&mut self) -> Option<()> {
        let text = &self.text[..];
        // The entries that the current one begins with, the shortest first.
        let mut prefixes: Vec<(u32, &[u8])> = Vec::new();
        for (number, entry) in (0..).zip(&mut self.entries) {
            let piece = entry.piece(text);
            while prefixes.last().is_some_and(|(_, prefix)| !piece.starts_with(prefix)) {
                prefixes.pop();
            }
            if let Some(&(shorter, prefix)) = prefixes.last() {
                if prefix.len() == piece.len() {
                    return None;
                }
                entry.shorter = shorter;
            }
            if let [byte] = *piece {
                self.single[usize::from(byte)] = number;
            }
            prefixes.push((number, piece));
        }
        Some(())
    }

    /// Length in bytes and id of the longest piece that `text` begins with.
    #[inline]
    pub(super) fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        let (&first, key) = (text.first()?, key(text));
        let group = group(key);
        let (start, end) = (self.groups[group] as usize, self.groups[group + 1] as usize);
        let not_greater = self.entries[start..end].partition_point(|entry| {
            entry.key < key || entry.key == key && entry.piece(&self.text) <= text
        });
        let mut number = match not_greater {
            // Only a piece of one byte can be a prefix and lie in another group.
            0 => self.single[usize::from(first)],
            count => u32::try_from(start + count - 1).ok()?,
        };
        let mut agreeing = None;
        loop {
            let entry = self.entries.get(number as usize)?;
            let agreeing =
                *agreeing.get_or_insert_with(|| common_prefix(entry.piece(&self.text), text));
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
}

impl Entry {
    /// The piece in the text of all pieces.
    #[inline]
    fn piece(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..][..self.len as usize]
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
