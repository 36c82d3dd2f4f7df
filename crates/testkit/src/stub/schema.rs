//! Answers that satisfy a JSON schema.
//!
//! Some auxiliary requests come with a schema, and an agent that gets anything else retries for
//! minutes. Any value of the right shape will do.

use serde_json::{Map, Value, json};

/// Returns the schema that an answer must satisfy.
pub(super) fn demanded(body: &Value) -> Option<&Value> {
    const PLACES: [&str; 6] = [
        "/output_config/format/schema",
        "/output_format/schema",
        "/text/format/schema",
        "/response_format/json_schema/schema",
        "/generationConfig/responseJsonSchema",
        "/generationConfig/responseSchema",
    ];
    PLACES.iter().find_map(|place| body.pointer(place))
}

/// Returns a value that satisfies `schema`, for the constructs that agents use.
pub(super) fn example(schema: &Value) -> Value {
    if let Some(first) = schema.pointer("/enum/0") {
        return first.clone();
    }
    let kind = schema["type"].as_str().unwrap_or("object").to_ascii_lowercase();
    match kind.as_str() {
        "string" => json!("stub"),
        "integer" | "number" => json!(1),
        "boolean" => json!(false),
        "array" => json!([]),
        "null" => Value::Null,
        _ => {
            let none = Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&none);
            properties.iter().map(|(name, inner)| (name.clone(), example(inner))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_satisfies_its_schema() {
        let body = json!({"generationConfig": {"responseJsonSchema": {
            "type": "OBJECT",
            "properties": {
                "reasoning": {"type": "STRING"},
                "score": {"type": "INTEGER"},
                "choice": {"type": "string", "enum": ["flash", "pro"]},
            },
        }}});

        let value = example(demanded(&body).unwrap());

        assert_eq!(value, json!({"reasoning": "stub", "score": 1, "choice": "flash"}));
    }
}
