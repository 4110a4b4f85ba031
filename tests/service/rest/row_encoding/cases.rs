//! The tested types and their values.

use super::dice::Dice;

/// A type, an expression that converts the text `x`, listed values, and a generator of random ones.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) made: &'static str,
    pub(super) named: Vec<String>,
    pub(super) random: fn(&mut Dice) -> String,
}

fn case(name: &'static str, named: &[&str], random: fn(&mut Dice) -> String) -> Case {
    Case { name, made: "", named: named.iter().map(|&text| text.to_owned()).collect(), random }
}

fn made(name: &'static str, made: &'static str, random: fn(&mut Dice) -> String) -> Case {
    Case { name, made, named: Vec::new(), random }
}

/// A type with only a few interesting values.
fn fixed(name: &'static str, named: &[&str]) -> Case {
    case(name, named, |_| String::new())
}

const SPECIAL: [&str; 3] = ["NaN", "Infinity", "-Infinity"];
const ENDLESS: [&str; 2] = ["infinity", "-infinity"];

pub(super) fn cases() -> Vec<Case> {
    let texts = [
        "",
        "NULL",
        "null",
        "\"",
        "\\",
        "{}",
        "{a,\"b\"}",
        "[0:1]={1}",
        " a ",
        "a\u{1}\u{1f}\n\r\t\u{8}\u{c}\u{7f}",
    ];
    let ranges = |name, random| case(name, &["empty", "(,)"], random);
    let multi = |name, random| case(name, &["{}", "{(,)}"], random);
    vec![
        case("boolean", &["t", "f"], |dice| dice.one_of(&["t", "f"]).to_owned()),
        case("smallint", &["0", "-32768", "32767"], |dice| {
            (i64::try_from(dice.below(65_536)).unwrap() - 32_768).to_string()
        }),
        case("integer", &["0", "-2147483648"], |dice| {
            (i64::try_from(dice.below(1 << 32)).unwrap() - (1 << 31)).to_string()
        }),
        case("bigint", &["0", "-9223372036854775808", "9007199254740993"], |dice| {
            dice.next().cast_signed().to_string()
        }),
        Case {
            named: SPECIAL
                .iter()
                .map(|&text| text.to_owned())
                .chain(["-0".into(), "1e37".into(), "1e-37".into()])
                .collect(),
            ..case("real", &[], Dice::small_float)
        },
        Case {
            named: ["-0", "1e300", "5e-324", "1e15", "1e16", "123456789.123456789"]
                .iter()
                .chain(&SPECIAL)
                .map(|&text| text.to_owned())
                .collect(),
            ..case("double precision", &[], Dice::float)
        },
        Case {
            named: SPECIAL
                .iter()
                .map(|&text| text.to_owned())
                .chain([
                    format!("-{}.{}", "9".repeat(2000), "1".repeat(900)),
                    "1e-1000".into(),
                    "-0.00".into(),
                ])
                .collect(),
            ..case("numeric", &[], |dice| {
                let (before, behind) = (1 + dice.below(60), dice.below(40));
                format!("{}{}.{}", dice.sign(), dice.digits(before), dice.digits(behind))
            })
        },
        case("text", &texts, Dice::text),
        case("character varying", &texts, Dice::text),
        Case { made: "x::character(40)", ..case("character", &texts, Dice::text) },
        case("name", &["", "NULL"], Dice::text),
        case("\"char\"", &["", "a", "\"", "\\", "\u{1}", "é"], |dice| dice.text().chars().take(1).collect()),
        case("refcursor", &texts, Dice::text),
        case("json", &["null", " {\"a\" : [1, 2] ,\n\"a\":1e400}", "\"\\u0000\"", "[]"], |dice| {
            format!("{{{} : [{}, null, \"\\u00e9\"]}}", serde_json::Value::from(dice.text()), dice.below(9))
        }),
        case("jsonb", &["null", "{\"b\":1,\"a\":1.50}", "[]"], |dice| {
            serde_json::json!({"k": dice.text()}).to_string()
        }),
        made("jsonpath", "('$.' || to_json(x))::jsonpath", Dice::text),
        made(
            "xml",
            "xmlelement(name a, regexp_replace(x, '[[:cntrl:]\u{feff}\u{10ffff}]', '', 'g'))",
            Dice::text,
        ),
        case("date", &ENDLESS, |dice| dice.date(5_000_000)),
        case("timestamp without time zone", &ENDLESS, |dice| dice.timestamp(false)),
        case("timestamp with time zone", &ENDLESS, |dice| dice.timestamp(true)),
        case("time without time zone", &["24:00:00"], Dice::clock),
        case("time with time zone", &["24:00:00+00"], |dice| {
            format!("{}{}", dice.clock(), dice.one_of(&["+00", "-03:30", "+12:45:01"]))
        }),
        case("interval", &["0", "-178000000 years"], Dice::interval),
        made("uuid", "x::uuid", |dice| format!("{:016x}{:016x}", dice.next(), dice.next())),
        made("bytea", "convert_to(x, 'UTF8')", Dice::text),
        case("money", &["0", "-92233720368547758.08"], |dice| {
            format!("{}{}.{}", dice.sign(), dice.below(1 << 40), 10 + dice.below(89))
        }),
        Case { made: "x::bit(9)", ..case("bit", &[], |dice| dice.bits(9)) },
        case("bit varying", &[""], |dice| {
            let count = dice.below(20);
            dice.bits(count)
        }),
        case("inet", &["::1", "::ffff:1.2.3.4/128"], |dice| {
            format!("10.{}.0.1/{}", dice.below(256), dice.below(33))
        }),
        case("cidr", &["::/0"], |dice| format!("10.{}.0.0/16", dice.below(256))),
        case("macaddr", &[], |dice| format!("{:012x}", dice.next() >> 16)),
        case("macaddr8", &[], |dice| format!("{:016x}", dice.next())),
        case("point", &["(NaN,Infinity)"], Dice::point),
        case("lseg", &[], |dice| format!("[{},{}]", dice.point(), dice.point())),
        case("box", &[], |dice| format!("{},{}", dice.point(), dice.point())),
        case("path", &[], |dice| {
            if dice.below(2) == 0 { format!("[{}]", dice.points()) } else { format!("({})", dice.points()) }
        }),
        case("polygon", &[], |dice| format!("({})", dice.points())),
        case("line", &[], |dice| format!("{{{},{},1}}", dice.below(99), dice.below(99))),
        case("circle", &[], |dice| format!("<(1,{}.5),{}>", dice.below(99), dice.below(99))),
        made("tsvector", "to_tsvector('simple', x)", Dice::text),
        made("tsquery", "phraseto_tsquery('simple', x)", Dice::text),
        case("pg_lsn", &["0/0"], |dice| format!("{:X}/{:X}", dice.next() >> 32, dice.next() >> 32)),
        case("oid", &["0", "4294967295"], |dice| (dice.next() >> 32).to_string()),
        case("xid", &[], |dice| (dice.next() >> 32).to_string()),
        case("cid", &[], |dice| (dice.next() >> 32).to_string()),
        case("xid8", &[], |dice| dice.next().to_string()),
        case("tid", &[], |dice| format!("({},{})", dice.next() >> 32, dice.below(60_000))),
        fixed("txid_snapshot", &["10:20:10,14,15"]),
        fixed("pg_snapshot", &["10:20:10,14,15"]),
        Case { made: "makeaclitem(10, 10, 'SELECT', x = 'a')", ..fixed("aclitem", &["a", "b"]) },
        fixed("regproc", &["now"]),
        fixed("regprocedure", &["lower(text)", "sum(integer)"]),
        fixed("regoper", &["||/"]),
        fixed("regoperator", &["+(integer,integer)"]),
        fixed("regclass", &["pg_class", "\"Strange \"\"name\""]),
        fixed("regtype", &["integer", "text[]"]),
        fixed("regconfig", &["english"]),
        fixed("regdictionary", &["simple"]),
        fixed("regnamespace", &["public"]),
        fixed("regrole", &["pg_monitor"]),
        fixed("regcollation", &["\"C\""]),
        ranges("int4range", |dice| dice.range(|dice| (dice.below(1000)).to_string())),
        ranges("int8range", |dice| dice.range(|dice| (dice.next() >> 2).to_string())),
        ranges("numrange", |dice| dice.range(|dice| format!("{}.{}", dice.below(99), dice.below(99)))),
        ranges("daterange", |dice| dice.range(|dice| dice.date(9000))),
        ranges("tsrange", |dice| dice.range(|dice| format!("\"{}\"", dice.timestamp(false)))),
        ranges("tstzrange", |dice| dice.range(|dice| format!("\"{}\"", dice.timestamp(true)))),
        multi("int4multirange", |dice| format!("{{{}}}", dice.range(|dice| dice.below(1000).to_string()))),
        multi("int8multirange", |dice| format!("{{{}}}", dice.range(|dice| dice.below(1000).to_string()))),
        multi("nummultirange", |dice| format!("{{{}}}", dice.range(|dice| dice.below(1000).to_string()))),
        multi("datemultirange", |dice| format!("{{{}}}", dice.range(|dice| dice.date(9000)))),
        multi("tsmultirange", |dice| {
            format!("{{{}}}", dice.range(|dice| format!("\"{}\"", dice.timestamp(false))))
        }),
        multi("tstzmultirange", |dice| {
            format!("{{{}}}", dice.range(|dice| format!("\"{}\"", dice.timestamp(true))))
        }),
        // Defined by this test.
        case("public.mood", &["sad", "so \"so\"", "a,b"], |dice| {
            dice.one_of(&["sad", "so \"so\""]).to_owned()
        }),
        case("public.known_mood", &["sad"], |dice| dice.one_of(&["sad", "so \"so\""]).to_owned()),
        case("public.shoe_size", &["47"], |dice| dice.below(99).to_string()),
        case("public.birthday", &ENDLESS, |dice| dice.date(9000)),
        made("public.note", "jsonb_build_object('a', x)::public.note", Dice::text),
        made("public.words", "array[x, null]::public.words", Dice::text),
        case("public.float_range", &["empty"], |dice| dice.range(|dice| dice.below(9).to_string())),
        made("public.citext", "x::public.citext", Dice::text),
    ]
}
