//! Properties of the grammar: printed values parse to themselves, and no input panics.

use proptest::prelude::*;

use super::filter::{Filter, IsValue, Operation, Operator, Quantifier, Test, TextSearch};
use super::logic::{Connective, LogicNode, LogicTree};
use super::media::{MediaType, PlanMedia, PlanOption};
use super::order::{Direction, Nulls, OrderTerm};
use super::prefer::Preferences;
use super::query::{Arguments, Parameters, QueryParams};
use super::select::{Aggregate, CastType, JoinType, SelectColumn, SelectEmbed, SelectItem};
use super::*;

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z][a-z0-9_]{0,6}", "[ -~äß語]{1,8}"]
}

fn any_field() -> impl Strategy<Value = Field> {
    let operand =
        prop_oneof![any_name().prop_map(JsonOperand::Key), "-?[0-9]{1,4}".prop_map(JsonOperand::Index)];
    let step = (prop_oneof![Just(Arrow::Json), Just(Arrow::Text)], operand)
        .prop_map(|(arrow, operand)| JsonStep { arrow, operand });
    (any_name(), prop::collection::vec(step, 0..3)).prop_map(|(name, path)| Field { name, path })
}

/// Turns a trailing index into a key, because digits before a closing parenthesis are one.
fn make_trailing_index_a_key(field: &mut Field) {
    if let Some(JsonStep { operand, .. }) = field.path.last_mut()
        && let JsonOperand::Index(index) = operand
    {
        *operand = JsonOperand::Key(index.clone());
    }
}

fn any_operation() -> impl Strategy<Value = Operation> {
    use Operator::{
        Adj, Cd, Cs, Eq, Gt, Gte, Ilike, Imatch, Like, Lt, Lte, Match, Neq, Nxl, Nxr, Ov, Sl, Sr,
    };
    let value = || "[ -~ä]{0,12}";
    let quantifiable = prop::sample::select(vec![Eq, Gt, Gte, Lt, Lte, Like, Ilike, Match, Imatch]);
    let plain = prop::sample::select(vec![Neq, Cs, Cd, Ov, Sl, Sr, Nxr, Nxl, Adj]);
    let quantifier = prop::option::of(prop_oneof![Just(Quantifier::Any), Just(Quantifier::All)]);
    let is = [IsValue::Null, IsValue::NotNull, IsValue::True, IsValue::False, IsValue::Unknown];
    let search = [TextSearch::Query, TextSearch::Plain, TextSearch::Phrase, TextSearch::Web];
    prop_oneof![
        (quantifiable, quantifier, value()).prop_map(|(operator, quantifier, value)| Operation::Compare {
            operator,
            quantifier,
            value
        }),
        (plain, value()).prop_map(|(operator, value)| Operation::Compare {
            operator,
            quantifier: None,
            value
        }),
        prop::collection::vec("[ -~ä]{1,12}", 0..4).prop_map(Operation::In),
        prop::sample::select(is.to_vec()).prop_map(Operation::Is),
        value().prop_map(Operation::IsDistinct),
        (prop::sample::select(search.to_vec()), prop::option::of("[a-z]{1,5}"), value())
            .prop_map(|(operator, config, query)| Operation::TextSearch { operator, config, query }),
    ]
}

fn any_filter() -> impl Strategy<Value = Filter> {
    (any_field(), any::<bool>(), any_operation())
        .prop_map(|(field, negated, operation)| Filter { field, test: Test { negated, operation } })
}

fn any_tree() -> impl Strategy<Value = LogicTree> {
    let connective = || prop_oneof![Just(Connective::And), Just(Connective::Or)];
    let leaf = any_filter().prop_map(LogicNode::Filter);
    let node = leaf.prop_recursive(3, 12, 3, move |inner| {
        (any::<bool>(), connective(), prop::collection::vec(inner, 1..3)).prop_map(
            |(negated, connective, nodes)| LogicNode::Tree(LogicTree { negated, connective, nodes }),
        )
    });
    prop::collection::vec(node, 1..3).prop_map(|nodes| LogicTree {
        negated: false,
        connective: Connective::Or,
        nodes,
    })
}

fn any_cast() -> impl Strategy<Value = Option<CastType>> {
    prop::option::of("[a-z][a-z ]{0,5}[a-z]".prop_map(|name| {
        let SelectItem::Column(column) = select::parse(&format!("a::{name}")).unwrap().remove(0) else {
            unreachable!("a cast column")
        };
        column.cast.unwrap()
    }))
}

fn any_select() -> impl Strategy<Value = Vec<SelectItem>> {
    let aggregates = vec![Aggregate::Sum, Aggregate::Avg, Aggregate::Count, Aggregate::Max, Aggregate::Min];
    let aggregate = prop::option::of((prop::sample::select(aggregates), any_cast()));
    let leaf = prop_oneof![
        Just(SelectItem::Star),
        (prop::option::of(any_name()), any_cast())
            .prop_map(|(alias, cast)| SelectItem::Count { alias, cast }),
        (prop::option::of(any_name()), any_field(), any_cast(), aggregate).prop_map(
            |(alias, field, cast, aggregate)| SelectItem::Column(SelectColumn {
                alias,
                field,
                cast,
                aggregate
            })
        ),
    ];
    let item = leaf.prop_recursive(3, 16, 4, |inner| {
        let join = prop::option::of(prop_oneof![Just(JoinType::Left), Just(JoinType::Inner)]);
        let hint =
            prop::option::of(prop_oneof![any_name(), Just("left".to_owned()), Just("inner".to_owned())]);
        (
            any::<bool>(),
            prop::option::of(any_name()),
            any_name(),
            hint,
            join,
            prop::collection::vec(inner, 0..4),
        )
            .prop_map(|(spread, alias, target, hint, join, mut select)| {
                if let Some(SelectItem::Column(SelectColumn { field, cast: None, aggregate: None, .. })) =
                    select.last_mut()
                {
                    make_trailing_index_a_key(field);
                }
                let alias = alias.filter(|_| !spread);
                SelectItem::Embed(SelectEmbed { spread, alias, target, hint, join, select })
            })
    });
    prop::collection::vec(item, 1..4)
}

fn any_order() -> impl Strategy<Value = OrderTerm> {
    let direction = prop::option::of(prop_oneof![Just(Direction::Asc), Just(Direction::Desc)]);
    let nulls = prop::option::of(prop_oneof![Just(Nulls::First), Just(Nulls::Last)]);
    (prop::option::of(any_name()), any_field(), direction, nulls).prop_map(
        |(relation, mut field, direction, nulls)| {
            if relation.is_some() {
                make_trailing_index_a_key(&mut field);
            }
            OrderTerm { relation, field, direction, nulls }
        },
    )
}

fn any_preferences() -> impl Strategy<Value = Preferences> {
    let either = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        prop::option::of(prop::sample::select(words))
    };
    let words = (
        either(&["resolution=merge-duplicates", "resolution=ignore-duplicates"]),
        either(&["missing=default", "missing=null"]),
        either(&["return=representation", "return=headers-only", "return=minimal"]),
        either(&["count=exact", "count=planned", "count=estimated"]),
        either(&["tx=commit", "tx=rollback"]),
        either(&["handling=strict", "handling=lenient"]),
    );
    let numbers = (prop::option::of("[A-Za-z_/+:-]{0,12}"), prop::option::of(any::<u64>()));
    (words, numbers, prop::collection::vec("[a-z]{1,6}(=[!-+.-~]{0,6})?", 0..3)).prop_map(
        |((resolution, missing, representation, count, transaction, handling), (zone, rows), others)| {
            let words = [resolution, missing, representation, count, transaction, handling];
            let zone = zone.map(|zone| format!("timezone={zone}"));
            let rows = rows.map(|rows| format!("max-affected={rows}"));
            let all: Vec<String> = words.into_iter().chain([zone, rows]).flatten().chain(others).collect();
            Preferences::parse(all.iter().map(String::as_str))
        },
    )
}

fn any_media() -> impl Strategy<Value = MediaType> {
    let simple = prop_oneof![
        prop::sample::select(vec![
            MediaType::Any,
            MediaType::Json,
            MediaType::ArrayStripped,
            MediaType::Singular { stripped: false },
            MediaType::Singular { stripped: true },
            MediaType::Csv,
            MediaType::GeoJson,
            MediaType::OpenApi,
            MediaType::UrlEncoded,
            MediaType::TextPlain,
            MediaType::TextXml,
            MediaType::OctetStream,
        ]),
        "x-[a-z]{1,5}/[a-z.+-]{1,9}".prop_map(MediaType::Other),
    ];
    let options = [
        PlanOption::Analyze,
        PlanOption::Verbose,
        PlanOption::Settings,
        PlanOption::Buffers,
        PlanOption::Wal,
    ];
    let options = prop::sample::subsequence(options.to_vec(), 0..=5);
    let plan = (any::<bool>(), simple.clone(), options)
        .prop_map(|(json, target, options)| MediaType::Plan(Box::new(PlanMedia { json, target, options })));
    prop_oneof![simple, plan]
}

/// A query string with select, filters and logic, and the order and range of one embed.
fn any_query() -> impl Strategy<Value = (Parameters, QueryParams)> {
    let filters = prop::collection::vec(any_filter(), 0..3);
    let trees = prop::collection::vec((any::<bool>(), any_tree()), 0..2);
    let orders = prop::collection::vec(any_order(), 1..3);
    let range = (prop::option::of(0..1000_u128), 0..1000_u128);
    (any_select(), any_name(), filters, trees, orders, range).prop_map(
        |(select, embed, filters, trees, order, (limit, offset))| {
            let path = vec![embed];
            let prefix = Name(&path[0]).to_string();
            let mut pairs = vec![("select".to_owned(), join(&select))];
            // A key that ends like a modifier is one.
            let is_modifier = |filter: &Filter| {
                let key = filter.field.to_string();
                let last = key.rsplit('.').next().unwrap_or_default();
                let reserved = ["select", "columns", "on_conflict"].contains(&key.as_str());
                reserved || ["order", "limit", "offset", "and", "or"].contains(&last)
            };
            let filters: Vec<Filter> = filters.into_iter().filter(|filter| !is_modifier(filter)).collect();
            pairs.extend(filters.iter().map(|filter| (filter.field.to_string(), filter.test.to_string())));
            let trees: Vec<LogicTree> =
                trees.into_iter().map(|(negated, tree)| LogicTree { negated, ..tree }).collect();
            pairs.extend(trees.iter().map(|tree| {
                let word = if tree.negated { "not.or" } else { "or" };
                (format!("{prefix}.{word}"), format!("({})", join(&tree.nodes)))
            }));
            pairs.push((format!("{prefix}.order"), join(&order)));
            pairs.push((format!("{prefix}.offset"), offset.to_string()));
            pairs.extend(limit.map(|limit| (format!("{prefix}.limit"), limit.to_string())));
            let query = QueryParams {
                select,
                has_select: true,
                columns: None,
                on_conflict: None,
                filters: filters.into_iter().map(|filter| (Vec::new(), filter)).collect(),
                logic: trees.into_iter().map(|tree| (path.clone(), tree)).collect(),
                orders: [(path.clone(), order)].into(),
                ranges: [(path, range::RowRange { offset, limit })].into(),
                has_root_range: false,
                arguments: Vec::new(),
            };
            (Parameters(pairs), query)
        },
    )
}

fn join<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

proptest! {
    #[test]
    fn printed_test_parses_to_itself(filter in any_filter()) {
        prop_assert_eq!(super::filter::parse(&filter.test.to_string()).unwrap(), filter.test);
    }

    #[test]
    fn printed_logic_tree_parses_to_itself(tree in any_tree()) {
        let text = format!("({})", join(&tree.nodes));
        prop_assert_eq!(logic::parse(false, Connective::Or, &text).unwrap(), tree);
    }

    #[test]
    fn printed_select_parses_to_itself(items in any_select()) {
        prop_assert_eq!(select::parse(&join(&items)).unwrap(), items);
    }

    #[test]
    fn printed_order_parses_to_itself(terms in prop::collection::vec(any_order(), 1..4)) {
        prop_assert_eq!(order::parse(&join(&terms)).unwrap(), terms);
    }

    #[test]
    fn printed_names_parse_to_themselves(names in prop::collection::hash_set(any_name(), 1..4)) {
        let names: Vec<String> = names.into_iter().collect();
        let printed: Vec<String> = names.iter().map(|name| Name(name).to_string()).collect();
        prop_assert_eq!(columns::parse(Parameter::Columns, &printed.join(",")).unwrap(), names);
    }

    #[test]
    fn printed_preferences_parse_to_themselves(prefer in any_preferences()) {
        prop_assert_eq!(Preferences::parse([prefer.to_string().as_str()]), prefer);
    }

    #[test]
    fn printed_range_parses_to_itself(offset in 0..u128::MAX / 2, limit in prop::option::of(1..u128::MAX / 2)) {
        let range = range::RowRange { offset, limit };
        prop_assert_eq!(range::parse_header(&range.to_string()), Ok(range));
    }

    #[test]
    fn intersection_of_ranges_is_commutative(a in (0..50_u128, prop::option::of(0..50_u128)), b in (0..50_u128, prop::option::of(0..50_u128))) {
        let (a, b) = (range::RowRange { offset: a.0, limit: a.1 }, range::RowRange { offset: b.0, limit: b.1 });
        let holds = |range: range::RowRange, row: u128| {
            row >= range.offset && range.limit.is_none_or(|limit| row < range.offset + limit)
        };
        prop_assert_eq!(a.intersect(b), b.intersect(a));
        for row in 0..120 {
            prop_assert_eq!(a.intersect(b).is_some_and(|both| holds(both, row)), holds(a, row) && holds(b, row));
        }
    }

    #[test]
    fn printed_media_types_parse_to_themselves(types in prop::collection::vec(any_media(), 1..4)) {
        prop_assert_eq!(MediaType::parse_accept(&join(&types)), types);
    }

    #[test]
    fn canonical_query_string_parses_to_itself((parameters, query) in any_query()) {
        let mut canonical = query.clone();
        // Sorting the parameters changes only the order of filters.
        canonical.filters.sort_by_key(|(_, filter)| filter.field.to_string());
        prop_assert_eq!(QueryParams::parse(&parameters, Arguments::Refused).unwrap(), query);
        let read = Parameters::decode(&parameters.canonical());
        let mut read = QueryParams::parse(&read, Arguments::Refused).unwrap();
        read.filters.sort_by_key(|(_, filter)| filter.field.to_string());
        prop_assert_eq!(read.filters, canonical.filters);
        prop_assert_eq!(read.select, canonical.select);
    }

    #[test]
    fn error_position_is_within_text(text in "[ -~äß語]{0,30}") {
        let errors = [
            select::parse(&text).err(),
            order::parse(&text).err(),
            super::filter::parse(&text).err(),
            logic::parse(false, Connective::And, &text).err(),
            columns::parse(Parameter::OnConflict, &text).err(),
        ];
        for error in errors.into_iter().flatten() {
            prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1, "{}", error);
            prop_assert!(error.found.is_none_or(|found| text.contains(found)), "{}", error);
        }
    }

    #[test]
    fn no_query_string_panics(raw in "[ -~äß\"\\\\]{0,60}") {
        let parameters = Parameters::decode(&raw);
        let _read = QueryParams::parse(&parameters, Arguments::Refused);
        let _read = QueryParams::parse(&parameters, Arguments::Accepted);
        let _read = media::MediaType::parse_accept(&raw);
        let _read = prefer::Preferences::parse([raw.as_str()]);
    }

    #[test]
    fn no_value_panics(name in prop_oneof![Just("select"), Just("order"), Just("or"), Just("a"), Just("columns")], value in ".{0,60}") {
        let parameters = Parameters(vec![(name.to_owned(), value)]);
        let _read = QueryParams::parse(&parameters, Arguments::Refused);
    }

    #[test]
    fn canonical_parameters_decode_to_themselves(pairs in prop::collection::vec(("[a-z]{1,3}", ".{0,8}"), 0..5)) {
        let mut sorted = pairs.clone();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        prop_assert_eq!(Parameters::decode(&Parameters(pairs).canonical()).0, sorted);
    }
}

#[test]
fn logic_accepts_bare_quoted_and_braced_values() {
    let tree = logic::parse(
        false,
        Connective::Or,
        "(name.eq.\"a,b\",tags.cs.{x,y},id.in.(1,2), created_at.gte.2024-01-01T00:00:00.000Z )",
    )
    .unwrap();
    let text = join(&tree.nodes);
    assert_eq!(
        text,
        "name.eq.\"a,b\",tags.cs.\"{x,y}\",id.in.(\"1\",\"2\"),created_at.gte.\"2024-01-01T00:00:00.000Z \""
    );
}

#[test]
fn list_elements_keep_inner_quotes() {
    for (text, elements) in [
        ("in.(\"a,b\",c)", vec!["a,b", "c"]),
        ("in.(a\"b)", vec!["a\"b"]),
        ("in.(\"x\" y)", vec!["\"x\" y"]),
        ("in.()", vec![]),
        ("in.(\"\")", vec![]),
        ("in.( ,3)", vec!["", "3"]),
        ("in.( \"a\", b)", vec!["a", " b"]),
        ("in. (1) ", vec!["1"]),
        ("in.(\"\\\"q\\\\\")", vec!["\"q\\"]),
    ] {
        let expected = Operation::In(elements.into_iter().map(str::to_owned).collect());
        assert_eq!(filter::parse(text).unwrap().operation, expected, "{text}");
    }
}

#[test]
fn json_path_is_named_after_last_key() {
    for (text, name) in [
        ("data->1->a->>2", "a"),
        ("data->3", "data"),
        ("data->>a", "a"),
        ("data", "data"),
        ("d->\"x y\"", "x y"),
    ] {
        let SelectItem::Column(column) = select::parse(text).unwrap().remove(0) else { panic!("{text}") };
        assert_eq!(column.field.output_name(), name, "{text}");
    }
}

#[test]
fn hint_may_start_like_a_join_type() {
    let SelectItem::Embed(embed) = select::parse("a!inner_fk!inner(*)").unwrap().remove(0) else { panic!() };
    assert_eq!((embed.hint.as_deref(), embed.join), (Some("inner_fk"), Some(JoinType::Inner)));
}

#[test]
fn error_positions_are_per_line() {
    let query = |text: &str| QueryParams::parse(&Parameters::decode(text), Arguments::Refused).unwrap_err();
    let position = |error| match error {
        super::query::QueryError::Parse(error) => (error.line, error.column),
        super::query::QueryError::Range(_) => panic!("no range here"),
    };
    assert_eq!(position(query("id=noop%0A.1")), (1, 1));
    assert_eq!(position(query("or=(a.eq.1,b.noop.2)")), (1, 13));
    assert_eq!(position(query("or=(a.eq.%22x%0Ay%22,b.noop.2)")), (2, 6));
}

#[test]
fn last_segment_of_key_identifies_modifier() {
    let parameters = Parameters::decode(
        "tasks.order=id&a.b.limit=3&tasks.not.or=(x.eq.1)&not.and=(y.eq.2)&First+Name=eq.x&offset=5&order=a&order=b",
    );
    let query = QueryParams::parse(&parameters, Arguments::Refused).unwrap();
    assert_eq!(query.orders.len(), 2);
    assert_eq!(
        query.ranges,
        [
            (vec![], range::RowRange { offset: 5, limit: None }),
            (vec!["a".to_owned(), "b".to_owned()], range::RowRange { offset: 0, limit: Some(3) }),
        ]
        .into()
    );
    assert!(query.logic.iter().all(|(_, tree)| tree.negated));
    assert_eq!(query.filters[0].1.field.name, "First Name");
}

/// A URL has room for thousands of embeds, which PostgreSQL would plan until it runs out of memory.
#[test]
fn embed_limit_counts_all_levels() {
    let list = |side_by_side: usize| {
        let embeds: Vec<_> = (0..side_by_side).map(|number| format!("e{number}:t(id,...u(*))")).collect();
        embeds.join(",")
    };
    assert_eq!(select::parse(&list(50)).unwrap().len(), 50);
    let error = select::parse(&list(51)).unwrap_err();
    assert_eq!((error.column, &*error.expecting), (list(50).len() + ",e50:t(".len() + 1, "fewer embeds"));
}

/// PostgreSQL would treat it as the name without the NUL.
#[test]
fn names_with_nul_are_rejected() {
    let error = select::parse("\"t\0own\"").unwrap_err();
    assert_eq!((error.column, &*error.expecting), (1, "name without NUL"));
    assert!(super::filter::parse("eq.\"a\0b\"").is_ok(), "PostgreSQL checks values");
}

/// Parameter, text, column, details: the expectation lists of PostgREST's grammar.
#[test]
fn errors_list_what_was_expected() {
    let any = logic::Connective::Or;
    let logic = |text: &str| logic::parse(false, any, text).map(drop);
    let select = |text: &str| select::parse(text).map(drop);
    let order = |text: &str| order::parse(text).map(drop);
    let filter = |text: &str| super::filter::parse(text).map(drop);
    let name = r#"letter, digit, "-", "->>", "->""#;
    let node = "field name (* or [a..z0..9_$]), negation operator (not) or logic operator (and, or)";
    let item = r#""...", field name (* or [a..z0..9_$]), "*" or "count()""#;
    type Read<'a> = &'a dyn Fn(&str) -> Result<(), super::ParseError>;
    let cases: [(Read<'_>, &str, usize, String); 27] = [
        (&logic, "()", 2, format!(r#"unexpected ")" expecting {node}"#)),
        (&logic, "(id.eq.1,)", 10, format!(r#"unexpected ")" expecting {node}"#)),
        (&logic, "(id)", 4, format!(r#"unexpected ")" expecting {name} or delimiter (.)"#)),
        (&logic, r#"("id")"#, 6, r#"unexpected ")" expecting "->>", "->" or delimiter (.)"#.to_owned()),
        (&logic, "(id.in.1,2)", 8, r#"unexpected "1" expecting "(""#.to_owned()),
        (&logic, "(id.eq.1", 9, r#"unexpected end of input expecting "," or ")""#.to_owned()),
        (&logic, "(ord(id.eq.1))", 4, r#"unexpected "d" expecting "(""#.to_owned()),
        (&logic, "(not.xor(id.eq.2))", 6, r#"unexpected "x" expecting logic operator (and, or)"#.to_owned()),
        (
            &select,
            "name!hint",
            5,
            format!(r#"unexpected '!' expecting {name}, "::", ".", ")", "," or end of input"#),
        ),
        (&select, "*!hint", 2, r#"unexpected '!' expecting ")", "," or end of input"#.to_owned()),
        (
            &select,
            "id,a(name[])",
            10,
            format!(r#"unexpected '[' expecting {name}, "::", ".", ")", "," or end of input"#),
        ),
        (&select, "name::", 7, "unexpected end of input expecting letter or digit".to_owned()),
        (
            &select,
            "name::int!",
            10,
            r#"unexpected '!' expecting letter, digit, ".", "::", ")", "," or end of input"#.to_owned(),
        ),
        (
            &select,
            "name.foo()",
            6,
            r#"unexpected "f" expecting "sum", "avg", "count", "max" or "min""#.to_owned(),
        ),
        (&select, "id,", 4, format!("unexpected end of input expecting {item}")),
        (
            &select,
            "data->>-78xy",
            11,
            r#"unexpected 'x' expecting digit, "->", "::", ".", "," or end of input"#.to_owned(),
        ),
        (&select, "data->>--34", 9, r#"unexpected "-" expecting digit"#.to_owned()),
        (
            &order,
            "id.ac",
            4,
            r#"unexpected "c" expecting "asc", "desc", "nullsfirst" or "nullslast""#.to_owned(),
        ),
        (
            &order,
            "id.nulsfist",
            4,
            r#"unexpected "n" expecting "asc", "desc", "nullsfirst" or "nullslast""#.to_owned(),
        ),
        (&order, "id.descc", 8, r#"unexpected 'c' expecting delimiter (.), "," or end of input"#.to_owned()),
        (&order, "id.nullslasttt", 13, r#"unexpected 't' expecting "," or end of input"#.to_owned()),
        (&order, "id.asc.nlsfst", 8, r#"unexpected "l" expecting "nullsfirst" or "nullslast""#.to_owned()),
        (&order, "id.asc.nullslasttt", 17, r#"unexpected 't' expecting "," or end of input"#.to_owned()),
        (
            &order,
            "clients(name,id)",
            8,
            format!(r#"unexpected '(' expecting {name}, delimiter (.), "," or end of input"#),
        ),
        (&filter, "fts().value", 5, r#"unexpected ")" expecting operator (eq, gt, ...)"#.to_owned()),
        (&filter, "eq().value", 4, r#"unexpected ")" expecting operator (eq, gt, ...)"#.to_owned()),
        (&filter, "in.1", 4, r#"unexpected "1" expecting "(""#.to_owned()),
    ];
    for (read, text, column, details) in cases {
        let error = read(text).unwrap_err();
        assert_eq!((error.column, error.details()), (column, details), "{text}");
    }
}
