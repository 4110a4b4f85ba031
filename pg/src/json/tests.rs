use proptest::prelude::*;

use super::*;

fn encoded(encoding: &JsonEncoding, text: &str) -> Option<String> {
    let mut json = Vec::new();
    encoding.push(&mut json, text.as_bytes())?;
    Some(String::from_utf8(json).unwrap())
}

#[test]
fn values_are_encoded_by_type() {
    for (encoding, text, json) in [
        (JsonEncoding::Boolean, "t", "true"),
        (JsonEncoding::Number, "9007199254740993", "9007199254740993"),
        (JsonEncoding::Number, "-1.5e-07", "-1.5e-07"),
        (JsonEncoding::Number, "1e+20", "1e+20"),
        (JsonEncoding::Number, "1.50", "1.50"),
        (JsonEncoding::Number, "-Infinity", "\"-Infinity\""),
        (JsonEncoding::FiniteNumber, "-Infinity", "null"),
        (JsonEncoding::FiniteNumber, "NaN", "null"),
        (JsonEncoding::Json, "{\"a\": 1}", "{\"a\": 1}"),
        (JsonEncoding::CheckedJson, r#" {"a": [1, 2]} "#, r#"{"a": [1, 2]}"#),
        (JsonEncoding::Hex, "\\xdeadbeef", "\"deadbeef\""),
        (JsonEncoding::Date, "0044-03-15 BC", "\"0044-03-15 BC\""),
        (JsonEncoding::Text, "a\"\\\n\u{1f}é", "\"a\\\"\\\\\\n\\u001fé\""),
    ] {
        assert_eq!(encoded(&encoding, text).as_deref(), Some(json), "{text}");
    }
}

#[test]
fn timestamps_become_iso_8601() {
    for (text, json) in [
        ("2026-01-02 03:04:05", "2026-01-02T03:04:05"),
        ("2026-01-02 03:04:05.6+00", "2026-01-02T03:04:05.6+00:00"),
        ("2026-01-02 03:04:05-03:30", "2026-01-02T03:04:05-03:30"),
        ("1850-01-02 03:04:05-07:52:58", "1850-01-02T03:04:05-07:52:58"),
        ("12026-01-02 03:04:05+01 BC", "12026-01-02T03:04:05+01:00 BC"),
        ("-infinity", "-infinity"),
    ] {
        assert_eq!(encoded(&JsonEncoding::Timestamp, text).unwrap(), format!("\"{json}\""));
    }
}

#[test]
fn text_of_another_type_is_rejected() {
    for text in
        ["12/17/1997", "17-12-1997", "17.12.1997", "Wed Dec 17 07:37:16 1997 PST", "17.12.1997 07:37:16 PST"]
    {
        assert_eq!(encoded(&JsonEncoding::Date, text), None, "{text}");
        assert_eq!(encoded(&JsonEncoding::Timestamp, text), None, "{text}");
    }
    for text in ["", "-", "01", "1.", ".5", "1e", "1e+", "1 2", "2024-01-02", "+1", "0x1"] {
        assert_eq!(encoded(&JsonEncoding::Number, text), None, "{text}");
    }
    assert_eq!(encoded(&JsonEncoding::Boolean, "true"), None);
    assert_eq!(encoded(&JsonEncoding::CheckedJson, "{"), None);
}

#[test]
fn arrays_of_any_dimension_are_encoded() {
    for (element, text, json) in [
        (JsonEncoding::Text, "{}", "[]"),
        (JsonEncoding::Text, r#"{a,NULL,"NULL","","b \"c\\d"}"#, r#"["a",null,"NULL","","b \"c\\d"]"#),
        (JsonEncoding::Text, "[0:1][2:2]={{a},{b}}", r#"[["a"],["b"]]"#),
        (JsonEncoding::Text, r#"{{"a,b",c},{d,"{"}}"#, r#"[["a,b","c"],["d","{"]]"#),
        (JsonEncoding::Text, r#"{"{x}"}"#, r#"["{x}"]"#),
        (JsonEncoding::Boolean, "{t,f}", "[true,false]"),
        (JsonEncoding::CheckedJson, r#"{"{\"a\": 1}"}"#, r#"[{"a": 1}]"#),
        (JsonEncoding::array(JsonEncoding::Number), r#"{"{1,2}",NULL}"#, "[[1,2],null]"),
    ] {
        assert_eq!(encoded(&JsonEncoding::array(element), text).as_deref(), Some(json), "{text}");
    }
    let boxes = JsonEncoding::Array { element: Arc::new(JsonEncoding::Text), delimiter: b';' };
    assert_eq!(encoded(&boxes, "{(1,1),(0,0);(2,2),(1,1)}").unwrap(), r#"["(1,1),(0,0)","(2,2),(1,1)"]"#);
    for broken in
        ["", "a", "{", "{a", "}", "{\"a", "{\"a\\", "[0:1]{a}", "{,}", "{a,}", "{}{}", "{a}b", "{\"a\"b}"]
    {
        assert_eq!(encoded(&JsonEncoding::array(JsonEncoding::Text), broken), None, "{broken}");
    }
}

#[test]
fn composites_become_objects() {
    let encoding = JsonEncoding::Composite(vec![
        ("a".to_owned(), JsonEncoding::Number),
        ("b".to_owned(), JsonEncoding::Text),
        ("c".to_owned(), JsonEncoding::array(JsonEncoding::Number)),
    ]);
    let value = encoded(&encoding, r#"(1,"x ""y"", z","{1,2}")"#);
    assert_eq!(value.unwrap(), r#"{"a":1,"b":"x \"y\", z","c":[1,2]}"#);
    assert_eq!(encoded(&encoding, r#"(,"",)"#).unwrap(), r#"{"a":null,"b":"","c":null}"#);
    for broken in ["(1,2,3,4)", "(1,2)", "(1,\"2,{})", "1,2,{}"] {
        assert_eq!(encoded(&encoding, broken), None, "{broken}");
    }
}

proptest! {
    #[test]
    fn strings_round_trip(text in "[\\x01-\\x7f\"\\\\é😀]{0,40}") {
        let json = encoded(&JsonEncoding::Text, &text).unwrap();
        prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn any_text_encodes_as_valid_json(text in "[{}(),\"\\\\a1 \\-.e]{0,20}", index in 0_usize..9) {
        let encodings = [
            JsonEncoding::Boolean,
            JsonEncoding::Number,
            JsonEncoding::FiniteNumber,
            JsonEncoding::CheckedJson,
            JsonEncoding::Hex,
            JsonEncoding::Timestamp,
            JsonEncoding::array(JsonEncoding::array(JsonEncoding::Number)),
            JsonEncoding::array(JsonEncoding::Text),
            JsonEncoding::Composite(vec![("a".to_owned(), JsonEncoding::Text), ("b".to_owned(), JsonEncoding::Boolean)]),
        ];
        let mut json = Vec::new();
        encodings[index].push_or_string(&mut json, &text);
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok(), "{:?}", json);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(text in proptest::collection::vec(any::<u8>(), 0..40)) {
        for encoding in [
            JsonEncoding::Boolean,
            JsonEncoding::Number,
            JsonEncoding::Date,
            JsonEncoding::Timestamp,
            JsonEncoding::Text,
            JsonEncoding::Hex,
        ] {
            let mut json = Vec::new();
            let _any = encoding.push(&mut json, &text);
            let _any = JsonEncoding::array(encoding.clone()).push(&mut json, &text);
            let _any = JsonEncoding::Composite(vec![("a".to_owned(), encoding)]).push(&mut json, &text);
        }
    }
}
