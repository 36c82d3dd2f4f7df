//! Deserialisation that accepts only objects for structs.
//!
//! A derived `Deserialize` also accepts a list of the fields in order, so that `[]` would pass as
//! a struct with default values.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A value that deserialises from an object only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Deserialises a field that is a list of objects.
///
/// # Errors
///
/// If an item of the list is not an object.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::<Object<T>>::deserialize(from)?;
    Ok(list.into_iter().map(|object| object.0).collect())
}

/// Deserialises an optional field that is an object.
///
/// # Errors
///
/// If the value is not an object.
pub fn option<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(from)?.map(|object| object.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::{Team, TeamPane};

    #[test]
    fn list_is_rejected_as_object() {
        let read = serde_json::from_str::<Object<TeamPane>>;

        assert_eq!(read("{}").unwrap(), Object(TeamPane::default()));
        let refused = read("[]").unwrap_err().to_string();
        assert!(refused.contains("expected an object"), "{refused}");
    }

    #[test]
    fn list_is_rejected_as_nested_object() {
        let read = serde_json::from_str::<Team>;

        assert!(read(r#"{"pane": [{"ready": {"idle": true}}]}"#).is_ok());
        assert!(read(r#"{"pane": [[]]}"#).is_err());
        assert!(read(r#"{"pane": [{"ready": []}]}"#).is_err());
    }
}
