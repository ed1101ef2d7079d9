//! A small `precompiled_charsmap` for tests.

use std::collections::BTreeMap;

/// Entries that show the rules: whitespace, what vanishes, several characters on either side.
const ENTRIES: &[(&str, &str)] = &[
    ("\t", " "),
    ("\n", " "),
    ("\r", " "),
    ("\u{1}", ""),
    ("\u{7F}", ""),
    ("\u{85}", " "),
    ("\u{A0}", " "),
    ("¨", " \u{308}"),
    ("´", " \u{301}"),
    ("½", "1⁄2"),
    ("™", "TM"),
    ("\u{200C}", " "),
    ("\u{2028}", " "),
    ("\u{3000}", " "),
    ("\u{FEFF}", ""),
    ("\u{FFFD}", " "),
    ("e\u{301}", "é"),
    ("A\u{30A}", "Å"),
    ("か\u{3099}", "が"),
    ("\u{1112}\u{1161}", "하"),
    ("Ａ", "A"),
    ("＜", "<"),
    ("＞", ">"),
    ("ﬁ", "fi"),
    (" \u{308}x", "?"),
    ("\u{301}\u{308}", "\u{344}"),
    ("\u{600}", "\u{601}"),
];

#[derive(Default)]
struct Node {
    children: BTreeMap<u8, Node>,
    /// Where the replacement begins.
    value: Option<u32>,
}

pub(super) fn base64() -> String {
    let mut root = Node::default();
    let mut replacements = String::new();
    for (before, after) in ENTRIES {
        let mut node = &mut root;
        for byte in before.bytes() {
            node = node.children.entry(byte).or_default();
        }
        node.value = u32::try_from(replacements.len()).ok();
        replacements.push_str(after);
        replacements.push('\0');
    }
    let mut units = vec![0_u32; 256];
    place(&root, 0, &mut units);
    let mut bytes = u32::try_from(units.len() * 4).expect("a small table").to_le_bytes().to_vec();
    bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    bytes.extend_from_slice(replacements.as_bytes());
    encode(&bytes)
}

/// Gives the node at `unit` a block of 256 units of its own for its children.
fn place(node: &Node, unit: usize, units: &mut Vec<u32>) {
    let block = units.len() / 256;
    units.resize(units.len() + 256, 0);
    // The distance is a multiple of 256 and keeps the lowest byte of the place.
    let distance = u32::try_from((unit / 256) ^ block).expect("a small table");
    units[unit] |= distance << 10 | 1 << 9;
    let base = (block * 256) | (unit % 256);
    if let Some(value) = node.value {
        units[unit] |= 1 << 8;
        units[base] = value | 1 << 31;
    }
    for (&label, child) in &node.children {
        let unit = base ^ usize::from(label);
        units[unit] |= u32::from(label);
        place(child, unit, units);
    }
}

fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut padded = [0; 4];
        padded[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(padded);
        for digit in 0..4 {
            text.push(if digit <= chunk.len() {
                char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63])
            } else {
                '='
            });
        }
    }
    text
}
