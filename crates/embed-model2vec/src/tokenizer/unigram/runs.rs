//! From a path of pieces to ids: what unknown characters become.
//!
//! Neighboring links that are unknown form a run, and the run is looked up as a whole: it is a piece
//! after all, or it is spelled in byte pieces, or it is one unknown token. A link is unknown if no
//! piece stands for its character, and also if its piece is the very one that the model names as
//! unknown: a model may name an ordinary piece, such as a full stop, and then those run together too.
//!
//! Where a text is cut into units that share one lattice, a run goes on from one unit to the next; it
//! ends with the first known piece and with the last unit.

use super::lattice::Link;
use super::pieces::Pieces;

/// What stands for characters that have no piece.
#[derive(Debug)]
pub(super) struct Unknown {
    /// The unknown piece. Without one, unknown text gives no token.
    pub(super) id: Option<u32>,
    /// The pieces of bytes, `<0x00>` and so on, for models that fall back to them.
    bytes: Option<Box<[Option<u32>; 256]>>,
}

impl Unknown {
    pub(super) fn new(pieces: &Pieces, id: Option<u32>, falls_back_to_bytes: bool) -> Self {
        let piece = |byte| pieces.id(format!("<0x{byte:02X}>").as_bytes());
        let bytes = falls_back_to_bytes.then(|| Box::new(std::array::from_fn(piece)));
        Self { id, bytes }
    }

    #[inline]
    fn is_known(&self, link: Link) -> Option<u32> {
        link.id().filter(|&id| Some(id) != self.id)
    }
}

/// A run of unknown text that has not ended yet.
#[derive(Debug, Default)]
pub(super) struct Run {
    text: Vec<u8>,
}

impl Run {
    /// Appends the ids of a path through `text`; returns whether all of its links were known.
    #[inline]
    pub(super) fn extend(
        &mut self,
        path: impl Iterator<Item = Link>,
        text: &str,
        pieces: &Pieces,
        unknown: &Unknown,
        ids: &mut Vec<u32>,
    ) -> bool {
        let mut all_known = true;
        let mut place = 0;
        for link in path {
            let end = place + link.len();
            if let Some(id) = unknown.is_known(link) {
                self.close(pieces, unknown, ids);
                ids.push(id);
            } else {
                all_known = false;
                self.text.extend_from_slice(&text.as_bytes()[place..end]);
            }
            place = end;
        }
        all_known
    }

    /// Ends the run, if there is one.
    #[inline]
    pub(super) fn close(&mut self, pieces: &Pieces, unknown: &Unknown, ids: &mut Vec<u32>) {
        if !self.text.is_empty() {
            self.resolve(pieces, unknown, ids);
        }
    }

    #[cold]
    fn resolve(&mut self, pieces: &Pieces, unknown: &Unknown, ids: &mut Vec<u32>) {
        if let Some(id) = pieces.id(&self.text) {
            ids.push(id);
        } else {
            let before = ids.len();
            let spelled = unknown.bytes.as_ref().is_some_and(|known| {
                self.text.iter().all(|&byte| match known[usize::from(byte)] {
                    Some(id) => {
                        ids.push(id);
                        true
                    }
                    None => false,
                })
            });
            if !spelled {
                ids.truncate(before);
                ids.extend(unknown.id);
            }
        }
        self.text.clear();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Gives back memory above so many bytes.
    pub(super) fn give_back(&mut self, kept: usize) {
        if self.text.capacity() > kept {
            self.text = Vec::new();
        }
    }

    /// Forgets what was there, for a sink that broke off.
    pub(super) fn clear(&mut self) {
        self.text.clear();
    }
}
