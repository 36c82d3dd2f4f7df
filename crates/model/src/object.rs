//! Objects that are read as objects only.
//!
//! What `serde` derives for a struct also takes a list of its fields in their order. Nobody means
//! that: a caller who sends `[]` where a pane should be described has made a mistake, and is told so.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A value that is read from an object, and from nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Reading(PhantomData))
    }
}

struct Reading<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Reading<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// For fields that are lists of objects.
///
/// # Errors
///
/// When something in the list is no object.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::<Object<T>>::deserialize(from)?;
    Ok(list.into_iter().map(|object| object.0).collect())
}

/// For fields that are an object or missing.
///
/// # Errors
///
/// When it is something else.
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
    fn a_list_is_no_object() {
        let read = serde_json::from_str::<Object<TeamPane>>;

        assert_eq!(read("{}").unwrap(), Object(TeamPane::default()));
        let refused = read("[]").unwrap_err().to_string();
        assert!(refused.contains("expected an object"), "{refused}");
    }

    #[test]
    fn objects_within_objects_are_objects_too() {
        let read = serde_json::from_str::<Team>;

        assert!(read(r#"{"pane": [{"ready": {"idle": true}}]}"#).is_ok());
        assert!(read(r#"{"pane": [[]]}"#).is_err());
        assert!(read(r#"{"pane": [{"ready": []}]}"#).is_err());
    }
}
