//! The OpenAPI document of the root (rest.md §3.14).

use basalt_rest::config::RestConfig;
use basalt_rest::openapi::{Server, document};
use serde_json::{Value, json};

use super::fixture;

fn shown() -> Value {
    let config = RestConfig::default();
    document("public", &fixture::cache(), None, &Server::from_config(&config, None), &config)
}

#[test]
fn foreign_key_names_table_or_view_over_it() {
    let shown = shown();
    let note = |relation: &str, column: &str| {
        shown["definitions"][relation]["properties"][column]["description"].clone()
    };
    assert_eq!(
        note("tasks", "project_id"),
        "Note:\nThis is a Foreign Key to `projects.id`.<fk table='projects' column='id'/>",
        "there is a view over it too"
    );
    assert_eq!(
        note("visits", "room_id"),
        "Note:\nThis is a Foreign Key to `open_rooms.number`.<fk table='open_rooms' column='number'/>",
        "the table is in a private schema"
    );
}

#[test]
fn preference_without_values_has_no_enum() {
    let shown = shown();
    let parameter = |name: &str| shown["parameters"][name].clone();
    assert_eq!(
        parameter("preferParams"),
        json!({"name": "Prefer", "description": "Preference", "required": false, "in": "header", "type": "string"})
    );
    assert_eq!(parameter("preferCount")["enum"], json!(["count=none"]));
}
