//! The schema of these tests: projects of clients, with tasks assigned to users, and functions over them.

use std::collections::HashMap;

use basalt_rest::schema_cache::relationships::{
    ComputedRelationship, ForeignKey, ShownColumn, ShownColumns, derive,
};
use basalt_rest::schema_cache::routines::{Returns, Routine, RoutineParam, RowShape, Volatility};
use basalt_rest::schema_cache::{
    Column, MediaHandler, PartialKey, Parts, QualifiedName, Relation, Representations, SchemaCache,
};

fn name(name: &str) -> QualifiedName {
    QualifiedName::new("public", name)
}

/// Builds a relation. `id integer!` belongs to the primary key; `= default` may follow.
fn relation(name: &str, columns: &[&str]) -> Relation {
    let mut primary_key = Vec::new();
    let columns = columns
        .iter()
        .map(|text| {
            let (text, default) = match text.split_once(" = ") {
                Some((text, default)) => (text, Some(default.into())),
                None => (*text, None),
            };
            let (column, type_name) = text.split_once(' ').unwrap();
            if type_name.ends_with('!') {
                primary_key.push(column.to_owned());
            }
            let type_name = type_name.trim_end_matches('!');
            Column {
                name: column.into(),
                base_type: type_name.into(),
                type_oid: type_oid(type_name),
                type_name: type_name.into(),
                default,
                ..Column::default()
            }
        })
        .collect();
    Relation {
        schema: "public".into(),
        name: name.into(),
        insertable: true,
        updatable: true,
        deletable: true,
        columns,
        primary_key,
        ..Relation::default()
    }
}

/// Oid of a built-in type; the fixture also has one other type.
fn type_oid(type_name: &str) -> u32 {
    match type_name {
        "boolean" => 16,
        "integer" => 23,
        "text" => 25,
        "text[]" => 1009,
        "tsvector" => 3614,
        "jsonb" => 3802,
        _ => 90_000,
    }
}

fn foreign_key(constraint: &str, from: (&str, &str), to: (&str, &str), is_unique: bool) -> ForeignKey {
    ForeignKey {
        constraint: constraint.into(),
        table: name(from.0),
        foreign: name(to.0),
        columns: vec![(from.1.into(), to.1.into())],
        is_unique,
    }
}

fn routine(
    function: &str,
    params: &[(&str, &str, bool)],
    returns: Returns,
    volatility: Volatility,
) -> Routine {
    let params = params
        .iter()
        .map(|(name, type_name, required)| RoutineParam {
            name: (*name).to_owned(),
            type_name: (*type_name).to_owned(),
            wide_type: (*type_name).to_owned(),
            required: *required,
            variadic: *name == "rest",
        })
        .collect();
    Routine {
        name: name(function),
        params,
        returns,
        volatility,
        isolation: None,
        settings: Vec::new(),
        comment: None,
    }
}

pub(crate) fn cache() -> SchemaCache {
    let relations = vec![
        relation("clients", &["id integer!", "name text"]),
        relation(
            "projects",
            &["id integer!", "name text", "client_id integer", "meta jsonb", "tags text[]", "body tsvector"],
        ),
        relation(
            "tasks",
            &[
                "id integer! = nextval('public.tasks_id_seq')",
                "name text",
                "project_id integer",
                "parent_id integer",
                "done boolean = false",
            ],
        ),
        relation("users", &["id integer!", "name text"]),
        relation("tasks_users", &["task_id integer!", "user_id integer!"]),
        relation("profiles", &["user_id integer!", "bio text"]),
        relation("orders", &["id integer!", "billing_id integer", "shipping_id integer"]),
        relation("addresses", &["id integer!", "street text"]),
        // Rooms are in a private schema; requests know a view of them.
        relation("visits", &["id integer!", "room_id integer"]),
        Relation { is_view: true, ..relation("open_rooms", &["number integer"]) },
        relation("keyless", &["a integer"]),
        // A domain with representations.
        relation("paints", &["id integer!", "shade public.color"]),
        Relation {
            is_view: true,
            ..relation("project_cards", &["card_id integer", "title text", "customer integer"])
        },
        Relation {
            partial_keys: vec![PartialKey {
                columns: vec!["tenant".to_owned(), "slug".to_owned()],
                predicate: "(NOT gone)".to_owned(),
            }],
            ..relation("pages", &["id integer!", "tenant integer", "slug text", "gone boolean"])
        },
    ];
    let foreign_keys = vec![
        foreign_key("projects_client_id_fkey", ("projects", "client_id"), ("clients", "id"), false),
        foreign_key("tasks_project_id_fkey", ("tasks", "project_id"), ("projects", "id"), false),
        foreign_key("tasks_parent_id_fkey", ("tasks", "parent_id"), ("tasks", "id"), false),
        foreign_key("tasks_users_task_fkey", ("tasks_users", "task_id"), ("tasks", "id"), false),
        foreign_key("tasks_users_user_fkey", ("tasks_users", "user_id"), ("users", "id"), false),
        foreign_key("profiles_user_id_fkey", ("profiles", "user_id"), ("users", "id"), true),
        ForeignKey {
            foreign: QualifiedName::new("private", "rooms"),
            ..foreign_key("visits_room_fkey", ("visits", "room_id"), ("rooms", "id"), false)
        },
        foreign_key("billing_fk", ("orders", "billing_id"), ("addresses", "id"), false),
        foreign_key("shipping_fk", ("orders", "shipping_id"), ("addresses", "id"), false),
    ];
    let computed = vec![ComputedRelationship {
        function: name("latest_task"),
        origin: name("projects"),
        target: name("tasks"),
        to_one: true,
    }];
    let scalar = Returns { set: false, row: RowShape::Scalar, media: None };
    let projects = Returns { set: true, row: RowShape::Composite(name("projects")), media: None };
    let routines = vec![
        routine(
            "add",
            &[("a", "integer", true), ("b", "integer", true)],
            scalar.clone(),
            Volatility::Immutable,
        ),
        routine("hello", &[("name", "text", false)], scalar.clone(), Volatility::Stable),
        routine("projects_below", &[("below", "integer", true)], projects, Volatility::Stable),
        routine("digest", &[("", "bytea", true)], scalar.clone(), Volatility::Immutable),
        routine("parse", &[("", "json", true)], scalar.clone(), Volatility::Immutable),
        routine("shout", &[("", "text", true)], scalar.clone(), Volatility::Immutable),
        routine("shred", &[("", "xml", true)], scalar.clone(), Volatility::Immutable),
        routine(
            "numbers",
            &[],
            Returns { set: true, row: RowShape::Scalar, media: None },
            Volatility::Stable,
        ),
        routine(
            "one_project",
            &[],
            Returns { set: false, row: RowShape::Composite(name("projects")), media: None },
            Volatility::Volatile,
        ),
        routine("concat_all", &[("rest", "text[]", true)], scalar.clone(), Volatility::Immutable),
        routine("twice", &[("a", "integer", true)], scalar.clone(), Volatility::Volatile),
        routine("twice", &[("a", "text", true)], scalar.clone(), Volatility::Volatile),
        // Overloads: one produces a page, the other a number.
        routine(
            "page",
            &[],
            Returns { media: Some("text/html".to_owned()), ..scalar.clone() },
            Volatility::Stable,
        ),
        routine("page", &[("number", "integer", true)], scalar.clone(), Volatility::Stable),
        routine("tell", &[("b", "text", true), ("a", "integer", true)], scalar.clone(), Volatility::Stable),
        routine("tell", &[("a", "integer", true), ("b", "json", true)], scalar.clone(), Volatility::Stable),
        routine(
            "forget",
            &[],
            Returns { set: false, row: RowShape::Void, media: None },
            Volatility::Volatile,
        ),
    ];
    let exposed = ["public".to_owned()];
    let shown_column = |(view_column, table_column): (&str, &str)| ShownColumn {
        view_column: view_column.into(),
        table: name("projects"),
        table_column: table_column.into(),
    };
    let card = [("card_id", "id"), ("title", "name"), ("customer", "client_id")].map(shown_column);
    let room = ShownColumn {
        view_column: "number".into(),
        table: QualifiedName::new("private", "rooms"),
        table_column: "id".into(),
    };
    let shown =
        ShownColumns::from([(name("project_cards"), card.to_vec()), (name("open_rooms"), vec![room])]);
    let relationships = derive(foreign_keys, &computed, &relations, &shown, &exposed);
    let of_color = |function: &str| HashMap::from([("public.color".into(), name(function))]);
    let representations = Representations {
        to_json: of_color("color_to_json"),
        from_json: of_color("color_from_json"),
        from_text: of_color("color_from_text"),
    };
    let handler = |function, relation: Option<&str>, media: &str| MediaHandler {
        function: name(function),
        relation: relation.map(name),
        media: media.to_owned(),
    };
    let media_handlers = vec![
        handler("as_html", Some("clients"), "text/html"),
        handler("as_yaml", None, "text/yaml"),
        handler("as_anything", None, "*/*"),
    ];
    SchemaCache::from(Parts {
        relations,
        relationships,
        routines,
        representations,
        media_handlers,
        roles: HashMap::new(),
        ..Parts::default()
    })
}
