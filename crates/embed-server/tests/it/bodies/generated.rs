//! Bodies that nobody thought of.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value};

use super::{Client, ROUTES, Route, post};
use crate::server::{settings, start};

/// Values of JSON, as deep as a request may be and deeper.
fn json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_u64..300).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        any::<String>().prop_map(Value::from),
        prop_oneof![Just("m"), Just("float"), Just("base64"), Just("")].prop_map(Value::from),
    ];
    leaf.prop_recursive(40, 64, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            object(any::<String>(), inner),
        ]
    })
}

fn object(
    names: impl Strategy<Value = String>,
    values: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Value> {
    prop::collection::vec((names, values), 0..4)
        .prop_map(|fields| Value::from(fields.into_iter().collect::<Map<String, Value>>()))
}

/// Runs a property of bodies on every route, against one server.
fn check_all<S: Strategy>(bodies: S, body: impl Fn(&Route, S::Value) -> Vec<u8>)
where
    S::Value: Clone,
{
    let server = start(settings());
    let client = RefCell::new(Client::of(&server));
    let config =
        ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    let done = TestRunner::new(config).run(&bodies, |value| {
        for route in &ROUTES {
            let body = body(route, value.clone());
            post(&mut client.borrow_mut(), route.path, &body);
        }
        Ok(())
    });
    done.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn any_value_is_answered() {
    check_all(json(), |_, value| value.to_string().into_bytes());
}

#[test]
fn any_value_in_a_field_is_answered() {
    check_all((any::<prop::sample::Index>(), json()), |route, (place, value)| {
        route.with(place.index(route.fields.len()), &value.to_string()).into_bytes()
    });
}

#[test]
fn any_values_in_all_fields_are_answered() {
    let values = prop::collection::vec(json(), 6);
    check_all((values, any::<u64>()), |route, (values, kept)| {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        let fields: Vec<(&str, &str)> = route
            .fields
            .iter()
            .zip(&values)
            .enumerate()
            .map(
                |(place, (field, value))| {
                    if kept >> place & 1 == 1 { *field } else { (field.0, value.as_str()) }
                },
            )
            .collect();
        route.body(&fields).into_bytes()
    });
}

#[test]
fn any_bytes_are_answered() {
    check_all(prop::collection::vec(any::<u8>(), 0..200), |_, bytes| bytes);
}

#[test]
fn a_body_with_any_change_is_answered() {
    let edits = prop::collection::vec(
        (any::<prop::sample::Index>(), prop::option::of(any::<u8>()), any::<bool>()),
        1..5,
    );
    check_all(edits, |route, edits| {
        let mut body = route.sound().into_bytes();
        for (place, byte, replaces) in edits {
            let place = place.index(body.len());
            match byte {
                Some(byte) if replaces => body[place] = byte,
                Some(byte) => body.insert(place, byte),
                None if body.len() > 1 => drop(body.remove(place)),
                None => {}
            }
        }
        body
    });
}
