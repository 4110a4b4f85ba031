use super::*;

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn outline(text: &str) -> Option<(Vec<String>, JsonShape)> {
    read(&body(text), false).map(|read| (read.keys, read.shape))
}

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|&key| key.to_owned()).collect()
}

fn texts(values: Option<Values>) -> Option<Vec<Option<String>>> {
    let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    values.map(|values| values.into_iter().map(|value| value.map(text)).collect())
}

/// Values parsed without `columns`; checks that parsing with the same columns yields the same.
fn values_of(text: &str) -> Option<Vec<Option<String>>> {
    let text = body(text);
    let read = read(&text, true)?;
    if read.values.is_some() {
        assert_eq!(read.values, values(&text, &read.keys, read.shape));
    }
    texts(read.values)
}

fn values_with_columns(columns: &[&str], text: &str) -> Option<Vec<Option<String>>> {
    let shape = if text.trim_start().starts_with('{') { JsonShape::Object } else { JsonShape::Array };
    texts(values(&body(text), &keys(columns), shape))
}

fn some(values: &[Option<&str>]) -> Option<Vec<Option<String>>> {
    Some(values.iter().map(|value| value.map(str::to_owned)).collect())
}

#[test]
fn key_order_does_not_matter() {
    let ab = keys(&["a", "b"]);
    for uniform in [
        r#"[{"b":1,"a":{"c":[1,{}]}}]"#,
        r#"[{"b":1,"a":2},{"b":3,"a":4},{"a":5,"b":6},{"a":7,"b":8}]"#,
        r#"[{"a":1,"b":2,"a":3},{"b":4,"a":5},{"a":1,"\u0062":2}]"#,
    ] {
        assert_eq!(outline(uniform), Some((ab.clone(), JsonShape::Array)), "{uniform}");
    }
    for mixed in [
        r#"[{"a":1,"b":1},{"a":1}]"#,
        r#"[{"a":1},{"a":1,"b":1}]"#,
        r#"[{"a":1},{"b":1}]"#,
        r#"[{"a":1},{}]"#,
        r#"[{},{"a":1}]"#,
        r#"[{"a":1},[1]]"#,
        r#"[null,{"a":1}]"#,
        r#"[{"a":1,"b":1},{"a":1,"a":1}]"#,
    ] {
        assert!(matches!(outline(mixed), Some((_, JsonShape::Mixed))), "{mixed}");
    }
    assert_eq!(outline("[{},{}]"), Some((Vec::new(), JsonShape::Array)));
    assert_eq!(outline("[]"), Some((Vec::new(), JsonShape::Empty)));
}

#[test]
fn numbers_of_any_size_are_accepted() {
    for (number, shape) in [
        ("1e400", JsonShape::Empty),
        (" -1E+400 ", JsonShape::Empty),
        (r#"[{"a":1},1e400]"#, JsonShape::Mixed),
        (" [1e400,{}]", JsonShape::Mixed),
    ] {
        assert_eq!(outline(number), Some((Vec::new(), shape)), "{number}");
    }
    assert_eq!(outline(r#"[{"a":1e400}]"#), Some((keys(&["a"]), JsonShape::Array)));
    for none in ["1e400 1", "[1e400", "[1e400,]", "[1e400,01]", "1e", "--1e400"] {
        assert_eq!(outline(none), None, "{none}");
    }
}

#[test]
fn unpaired_surrogates_are_rejected() {
    for whole in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#"{"\u00e9":"\\\u0041"}"#, r#""\"\u0000""#] {
        assert!(outline(whole).is_some(), "{whole}");
    }
    for half in [r#""\ud83d""#, r#""\ude00\ud83d""#, r#""\ud83d\u0041""#, r#"[{"a":"\\\uD83Dx"}]"#] {
        assert_eq!(outline(half), None, "{half}");
    }
    assert_eq!(read(&Bytes::from_static(b"\"\xff\""), true), None);
    for odd in [r#""\u12""#, r#""\u"#, r#""\"#, r#""\uzzzz""#] {
        assert_eq!(outline(odd), None, "{odd}");
    }
}

#[test]
fn number_of_distinct_keys_is_bounded() {
    let object = |names: &[String]| {
        let members: Vec<String> = names.iter().map(|name| format!("{name:?}:1")).collect();
        format!("{{{}}}", members.join(","))
    };
    let many: Vec<String> = (0..10 * MAX_KEYS).map(|number| format!("k{number:06}")).collect();
    for (text, shape) in [
        (object(&many), JsonShape::Object),
        (format!("[{},{}]", object(&many), object(&many)), JsonShape::Array),
    ] {
        let read = read(&body(&text), true).unwrap();
        assert!(read.keys.len() > MAX_KEYS && read.keys.len() <= 2 * MAX_KEYS);
        assert_eq!((read.keys.first(), read.shape, read.values), (many.first(), shape, None));
    }
    let doubles: Vec<String> = (0..10 * MAX_KEYS).map(|number| format!("k{:06}", number % 1_600)).collect();
    let row = object(&doubles);
    let (keys, _) = outline(&row).unwrap();
    assert_eq!(keys, many.get(..1_600).unwrap());
    let last = object(&keys.into_iter().rev().collect::<Vec<_>>());
    let (keys, shape) = outline(&format!("[{row},{last},{row}]")).unwrap();
    assert_eq!((keys.len(), shape), (1_600, JsonShape::Array));
}

#[test]
fn nesting_depth_does_not_use_stack() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(200_000), close.repeat(200_000));
    assert!(matches!(outline(&deep("[", "]")), Some((_, JsonShape::Mixed))));
    assert!(matches!(outline(&deep(r#"{"a":"#, "}")), Some((_, JsonShape::Object))));
    assert_eq!(outline(&"[".repeat(200_000)), None);
}

#[test]
fn scalars_match_postgresql_literals() {
    let two = some(&[Some("x\n\"é😀"), Some("1.50")]);
    assert_eq!(values_of(r#" {"b": 1.50 , "a":"x\n\"\u00e9\ud83d\ude00"} "#), two);
    assert_eq!(values_of(r#"{"a":true,"b":null}"#), some(&[Some("true"), None]));
    assert_eq!(values_of(r#"{"b":"","a":" "}"#), some(&[Some(" "), Some("")]));
    let rows = r#"[{"a":"x\\\"y","b":1},{"b":"NULL","a":null},{"b":"","a":"{,}"}]"#;
    assert_eq!(values_of(rows), some(&[Some(r#"{"x\\\"y",NULL,"{,}"}"#), Some(r#"{"1","NULL",""}"#)]));
    assert_eq!(
        values_with_columns(&["a"], r#"{"b":-1e5,"c":"x"}"#),
        some(&[None]),
        "keys not in columns= are ignored"
    );
    assert_eq!(
        values_with_columns(&["a", "b"], r#"[{"b":1,"a":2},{"b":3},{"c":4,"a":5},{"b":6,"a":7}]"#),
        some(&[Some(r#"{"2",NULL,"5","7"}"#), Some(r#"{"1","3",NULL,"6"}"#)])
    );
    assert_eq!(values_with_columns(&["a"], "[]"), some(&[Some("{}")]));
}

#[test]
fn value_without_escapes_is_not_copied() {
    let text = body(r#"{"a":"plain","b":"\t"}"#);
    let values = read(&text, true).unwrap().values.unwrap();
    let within = |value: &Option<Bytes>| text.as_ptr_range().contains(&value.as_ref().unwrap().as_ptr());
    assert_eq!(values.iter().map(within).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn unusual_bodies_are_left_to_postgresql() {
    for odd in [
        r#"{"a":{}}"#,
        r#"{"a":[1]}"#,
        r#"{"a":1,"a":1}"#,
        r#"{"a":null,"a":1}"#,
        r#"{"a":"\u0000"}"#,
        r#"{"\u0000":1}"#,
        r#"{"b":{},"a":1}"#,
        r#"{"a":"\ud83d"}"#,
        r#"{"a":01}"#,
        r#"{"a":1} x"#,
        r#"{"a":1"#,
        r#"[{"a":1},[]]"#,
        r#"[{"a":1},null]"#,
        r#"[{"a":1},{"a":1,"a":2}]"#,
        r#"[{"a":1},{"a":{}}]"#,
        r#"[{"a":1},{"a":1,"\u0000":2}]"#,
        "[1]",
        "{\"a\":\"\t\"}",
        "\"a\"",
        r#"{"a":NaN}"#,
        "",
    ] {
        assert_eq!((values_of(odd), values_with_columns(&["a"], odd)), (None, None), "{odd}");
    }
    assert_eq!((values_of("{}"), values_of("[{},{}]"), values_of("[]")), (None, None, None), "no values");
    assert_eq!(values_of(r#"[{"a":1},{"b":1}]"#), None, "keys differ");
    assert_eq!(values_with_columns(&["a", "b", "c", "d"], "[{},{},{}]"), None, "more values than bytes");
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_DECODED_BYTES));
    assert_eq!((values_of(&long), values_with_columns(&["a"], &long)), (None, None), "too long to decode");
}
