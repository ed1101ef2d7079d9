//! Every text is that of `zmij`.

use proptest::prelude::*;

use super::array::write_numbers;
use super::write_array;

/// What one number at a time gives.
fn one_by_one(values: &[f32]) -> Vec<u8> {
    let mut text = b"[".to_vec();
    for (index, &value) in values.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(zmij::Buffer::new().format(value).as_bytes());
    }
    text.push(b']');
    text
}

#[track_caller]
fn check(values: &[f32]) {
    let mut text = b"before".to_vec();
    write_array(values, &mut text);
    let text = text.strip_prefix(b"before").expect("appended");
    assert_eq!(text, one_by_one(values), "{values:?}");
    let mut plain = Vec::new();
    write_plainly(values, &mut plain);
    assert_eq!(plain, text, "{values:?}");
}

/// An array by the code for every processor.
fn write_plainly(values: &[f32], text: &mut Vec<u8>) {
    text.push(b'[');
    write_numbers(values, text);
    text.push(b']');
}

/// All numbers whose bits are in `range`, with the sign of their last bit, compared a thousand at a time.
fn check_bits(range: std::ops::Range<u32>) {
    let mut values = Vec::with_capacity(1024);
    let mut text = Vec::new();
    for start in range.clone().step_by(1024) {
        let bits = start..range.end.min(start + 1024);
        values.clear();
        values.extend(bits.map(|bits| f32::from_bits(bits | bits << 31)));
        let expected = one_by_one(&values);
        for write in [write_array, write_plainly] {
            text.clear();
            write(&values, &mut text);
            if text != expected {
                // To name the number.
                for &value in &values {
                    check(&[value]);
                }
                unreachable!("some number between {start:#x} and the next 1024");
            }
        }
    }
}

#[test]
fn every_number_of_the_fast_way_has_the_text_of_zmij() {
    let start = (2.0_f32).powi(-16).to_bits();
    let end = 1.0_f32.to_bits();
    let middle = start.midpoint(end);
    std::thread::scope(|scope| {
        scope.spawn(|| check_bits(start - 1024..middle));
        scope.spawn(|| check_bits(middle..end + 1024));
    });
}

#[test]
fn numbers_of_all_kinds_have_the_text_of_zmij() {
    let kinds = [
        0.0,
        1.0,
        0.1,
        0.01,
        0.012_345_679,
        1.5e-39,
        1e-5,
        9.999_999e-6,
        1e7,
        123_456.79,
        1.234_567_9e-30,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::EPSILON,
        f32::from_bits(1),
        0.999_999_94,
    ];
    check(&[]);
    check(&kinds.map(|value| -value));
    for start in 0..kinds.len() {
        check(&kinds[start..]);
        check(&kinds[..start]);
    }
}

#[test]
fn a_text_stays_where_it_is_with_the_room_that_is_said() {
    // A sign, four zeros behind the point and nine digits: no number has a longer text.
    let longest = -0.000_012_376_277_5;
    for width in 0..100 {
        let mut text = Vec::with_capacity(2 + super::WIDEST * width + super::HEADROOM);
        let (start, capacity) = (text.as_ptr(), text.capacity());
        write_array(&vec![longest; width], &mut text);
        assert_eq!((text.as_ptr(), text.capacity()), (start, capacity), "{width} numbers");
    }
}

proptest! {
    #[test]
    fn any_numbers_have_the_text_of_zmij(
        values in proptest::collection::vec(any::<u32>().prop_map(f32::from_bits), 0..70),
    ) {
        let mut text = Vec::new();
        write_array(&values, &mut text);
        prop_assert_eq!(text, one_by_one(&values));
    }

    #[test]
    fn rows_of_length_one_have_the_text_of_zmij(
        values in proptest::collection::vec(-1.0_f32..1.0, 1..300),
    ) {
        let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        let values: Vec<f32> = values.iter().map(|value| value / norm).collect();
        let mut text = Vec::new();
        write_array(&values, &mut text);
        prop_assert_eq!(text, one_by_one(&values));
    }
}
