//! Properties of the grammar: what is printed reads back as itself, and no input panics.

use proptest::prelude::*;

use super::filter::{Filter, IsValue, Operation, Operator, Quantifier, Test, TextSearch};
use super::logic::{Connective, LogicNode, LogicTree};
use super::order::{Direction, Nulls, OrderTerm};
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

fn any_operation() -> impl Strategy<Value = Operation> {
    let value = || "[ -~ä]{0,12}";
    let quantifiable = prop_oneof![Just(Operator::Eq), Just(Operator::Like), Just(Operator::Gte)];
    let plain = prop_oneof![Just(Operator::Neq), Just(Operator::Cs), Just(Operator::Lt), Just(Operator::Adj)];
    let quantifier = prop::option::of(prop_oneof![Just(Quantifier::Any), Just(Quantifier::All)]);
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
        prop_oneof![Just(IsValue::Null), Just(IsValue::NotNull), Just(IsValue::Unknown)]
            .prop_map(Operation::Is),
        value().prop_map(Operation::IsDistinct),
        (
            prop_oneof![Just(TextSearch::Query), Just(TextSearch::Web)],
            prop::option::of("[a-z]{1,5}"),
            value()
        )
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
    let aggregate = prop::option::of((prop_oneof![Just(Aggregate::Sum), Just(Aggregate::Count)], any_cast()));
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
        let hint = prop::option::of("[a-z]{1,4}_fk");
        (
            any::<bool>(),
            prop::option::of(any_name()),
            any_name(),
            hint,
            join,
            prop::collection::vec(inner, 0..4),
        )
            .prop_map(|(spread, alias, target, hint, join, select)| {
                let alias = alias.filter(|_| !spread);
                SelectItem::Embed(SelectEmbed { spread, alias, target, hint, join, select })
            })
    });
    prop::collection::vec(item, 1..4)
}

fn any_order() -> impl Strategy<Value = OrderTerm> {
    let direction = prop::option::of(prop_oneof![Just(Direction::Asc), Just(Direction::Desc)]);
    let nulls = prop::option::of(prop_oneof![Just(Nulls::First), Just(Nulls::Last)]);
    (prop::option::of(any_name()), any_field(), direction, nulls)
        .prop_map(|(relation, field, direction, nulls)| OrderTerm { relation, field, direction, nulls })
}

fn join<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

proptest! {
    #[test]
    fn a_test_reads_back_as_it_was_printed(filter in any_filter()) {
        prop_assert_eq!(super::filter::parse(&filter.test.to_string()).unwrap(), filter.test);
    }

    #[test]
    fn a_logic_tree_reads_back_as_it_was_printed(tree in any_tree()) {
        let text = format!("({})", join(&tree.nodes));
        prop_assert_eq!(logic::parse(false, Connective::Or, &text).unwrap(), tree);
    }

    #[test]
    fn a_select_reads_back_as_it_was_printed(items in any_select()) {
        prop_assert_eq!(select::parse(&join(&items)).unwrap(), items);
    }

    #[test]
    fn an_order_reads_back_as_it_was_printed(terms in prop::collection::vec(any_order(), 1..4)) {
        prop_assert_eq!(order::parse(&join(&terms)).unwrap(), terms);
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
    fn canonical_parameters_read_back(pairs in prop::collection::vec(("[a-z]{1,3}", ".{0,8}"), 0..5)) {
        let mut sorted = pairs.clone();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        prop_assert_eq!(Parameters::decode(&Parameters(pairs).canonical()).0, sorted);
    }
}

#[test]
fn values_inside_logic_come_in_three_syntaxes() {
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
fn json_paths_show_their_last_key() {
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
fn a_hint_that_begins_like_a_join_type_is_a_hint() {
    let SelectItem::Embed(embed) = select::parse("a!inner_fk!inner(*)").unwrap().remove(0) else { panic!() };
    assert_eq!((embed.hint.as_deref(), embed.join), (Some("inner_fk"), Some(JoinType::Inner)));
}

#[test]
fn modifiers_are_told_by_the_last_segment() {
    let parameters = Parameters::decode(
        "tasks.order=id&a.b.limit=3&tasks.not.or=(x.eq.1)&not.and=(y.eq.2)&First+Name=eq.x&offset=5&order=a&order=b",
    );
    let query = QueryParams::parse(&parameters, Arguments::Refused).unwrap();
    assert_eq!(query.orders.len(), 2);
    assert_eq!(
        query.ranges,
        [
            (vec!["a".to_owned(), "b".to_owned()], range::RowRange { offset: 0, limit: Some(3) }),
            (vec![], range::RowRange { offset: 5, limit: None }),
        ]
    );
    assert!(query.logic.iter().all(|(_, tree)| tree.negated));
    assert_eq!(query.filters[0].1.field.name, "First Name");
}
