//! Compiles conditions of policies, as PostgreSQL stores them, to expressions (`expression.rs`).
//!
//! Accepted are comparisons of the row's own columns, constants and claims, combined with AND, OR, NOT, IN
//! and IS, for types whose equality is that of their text or of an integer, and sub-selects on tables.
//! Everything else makes the condition unsupported: unknown nodes or fields, operators and functions of other
//! object ids, other types, collations that may be nondeterministic. PostgreSQL then evaluates the policies.

use std::collections::HashMap;

use super::expression::{BooleanTest, Cast, Claim, Comparison, Datum, Expr, Kind};
use super::node_tree::{self, Node, Object};
use super::subselect::Subselect;

/// Functions that read claims, by their object ids in this database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimFunction {
    Uid,
    Role,
    Jwt,
}

/// A column that policies may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) number: i16,
    pub(super) name: String,
    pub(super) type_oid: u32,
    pub(super) is_generated: bool,
}

/// Compiles expressions on the rows of one table.
pub(super) struct Compiler<'a> {
    attributes: &'a [Attribute],
    functions: &'a HashMap<u32, ClaimFunction>,
    tables: &'a HashMap<u32, JoinedTable>,
    /// Columns that the expressions read, as indexes of `attributes`, with their kinds.
    pub(super) columns: Vec<(usize, Kind)>,
    pub(super) subselects: Vec<Subselect>,
    variables: Variables,
    /// Whether NULL has the same effect as false at this place.
    is_positive: bool,
}

/// What the variables of an expression refer to.
#[derive(Clone, Debug)]
enum Variables {
    /// The row.
    Row,
    /// The tables of a sub-select, or the row one level up.
    Joined(Vec<u32>),
    /// The table with this number in a sub-select, whose policies are compiled.
    PoliciesOf(usize, u32),
    /// None are accepted.
    Nothing,
}

impl<'a> Compiler<'a> {
    pub(super) const fn new(
        attributes: &'a [Attribute],
        functions: &'a HashMap<u32, ClaimFunction>,
        tables: &'a HashMap<u32, JoinedTable>,
    ) -> Self {
        Self {
            attributes,
            functions,
            tables,
            columns: Vec::new(),
            subselects: Vec::new(),
            variables: Variables::Row,
            is_positive: true,
        }
    }

    /// Compiles the condition of a policy; `None` if it is unsupported.
    pub(super) fn condition(&mut self, node: &Node) -> Option<Expr> {
        self.of_kind(node, Kind::Bool)
    }

    fn of_kind(&mut self, node: &Node, kind: Kind) -> Option<Expr> {
        let (expr, found) = self.compile(node)?;
        (found == kind).then_some(expr)
    }

    fn conditions(&mut self, nodes: &[Node]) -> Option<Vec<Expr>> {
        nodes.iter().map(|node| self.condition(node)).collect()
    }

    /// Compiles an operand of something else than AND and OR, where NULL differs from false.
    fn strictly<T>(&mut self, compile: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = std::mem::replace(&mut self.is_positive, false);
        let compiled = compile(self);
        self.is_positive = before;
        compiled
    }

    /// Compiles where variables refer to something else.
    fn within<T>(&mut self, variables: Variables, compile: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = std::mem::replace(&mut self.variables, variables);
        let compiled = compile(self);
        self.variables = before;
        compiled
    }

    fn compile(&mut self, node: &Node) -> Option<(Expr, Kind)> {
        let node = node.as_object()?;
        match node.name.as_str() {
            "VAR" => self.column(node),
            "CONST" => constant(node),
            "FUNCEXPR" => self.function(node),
            "SUBLINK" => self.subselect(node),
            "RELABELTYPE" => self.relabel(node),
            "COERCEVIAIO" => self.strictly(|this| this.cast(node)),
            "OPEXPR" => self.strictly(|this| this.operator(node)),
            "DISTINCTEXPR" => {
                let (comparison, left, right) = self.strictly(|this| this.operands(node))?;
                (comparison == Comparison::Eq)
                    .then(|| (Expr::Distinct(left.into(), right.into()), Kind::Bool))
            }
            "SCALARARRAYOPEXPR" => self.strictly(|this| this.array_operator(node)),
            "BOOLEXPR" => self.boolean(node),
            "NULLTEST" => self.strictly(|this| this.null_test(node)),
            "BOOLEANTEST" => self.strictly(|this| this.boolean_test(node)),
            _ => None,
        }
    }

    fn column(&mut self, node: &Object) -> Option<(Expr, Kind)> {
        has_only(
            node,
            "varno varattno vartype vartypmod varcollid varnullingrels varlevelsup varreturningtype varnosyn \
             varattnosyn location",
        )?;
        let returning = node.atom("varreturningtype").unwrap_or("0");
        if returning != "0" || !has_no_bits(node, "varnullingrels") {
            return None;
        }
        let number: i16 = node.number("varattno")?;
        let type_oid: u32 = node.number("vartype")?;
        let kind = Kind::from_oid(type_oid)?;
        let (table, level) = (node.number::<usize>("varno")?, node.number::<u32>("varlevelsup")?);
        let joined = match (&self.variables, table, level) {
            (Variables::Row, 1, 0) | (Variables::Joined(_), 1, 1) => None,
            (Variables::Joined(tables), number, 0) => {
                let index = number.checked_sub(1)?;
                Some((index, *tables.get(index)?))
            }
            (Variables::PoliciesOf(index, table), 1, 0) => Some((*index, *table)),
            (_, _, _) => return None,
        };
        if let Some((index, table)) = joined {
            let attributes = &self.tables.get(&table)?.attributes;
            let attribute = attributes.iter().find(|attribute| attribute.number == number)?;
            let name = (attribute.type_oid == type_oid).then(|| attribute.name.clone())?;
            return Some((Expr::Joined(index, name, kind), kind));
        }
        let index = self.attributes.iter().position(|attribute| attribute.number == number)?;
        let attribute = self.attributes.get(index)?;
        if attribute.type_oid != type_oid || attribute.is_generated {
            return None;
        }
        let known = self.columns.iter().position(|(known, _)| *known == index);
        let column = known.unwrap_or_else(|| {
            self.columns.push((index, kind));
            self.columns.len() - 1
        });
        Some((Expr::Column(column, kind), kind))
    }

    /// A function that reads claims, or a cast to a wider integer type.
    fn function(&mut self, node: &Object) -> Option<(Expr, Kind)> {
        has_only(
            node,
            "funcid funcresulttype funcretset funcvariadic funcformat funccollid inputcollid args location",
        )?;
        if node.boolean("funcretset")? || node.boolean("funcvariadic")? {
            return None;
        }
        let id: u32 = node.number("funcid")?;
        match (id, node.list("args")?) {
            // int2 to int4, int2 to int8, int4 to int8
            (313 | 754 | 481, [inner]) => Some((self.of_kind(inner, Kind::Int)?, Kind::Int)),
            (id, []) => Some(match self.functions.get(&id)? {
                ClaimFunction::Uid => (Expr::Claim(Claim::Uid), Kind::Uuid),
                ClaimFunction::Role => (Expr::Claim(Claim::Role), Kind::Text),
                ClaimFunction::Jwt => (Expr::Claim(Claim::Path(Vec::new())), Kind::Json),
            }),
            (_, _) => None,
        }
    }

    /// A change of type without a change of value: varchar to text.
    fn relabel(&mut self, node: &Object) -> Option<(Expr, Kind)> {
        has_only(node, "arg resulttype resulttypmod resultcollid relabelformat location")?;
        let is_text = node.number::<u32>("resulttype")? == 25 && node.number::<i32>("resulttypmod")? == -1;
        is_text.then_some(())?;
        Some((self.of_kind(node.value("arg")?, Kind::Text)?, Kind::Text))
    }

    fn cast(&mut self, node: &Object) -> Option<(Expr, Kind)> {
        has_only(node, "arg resulttype resultcollid coerceformat location")?;
        let (cast, kind) = Cast::to_type(node.number("resulttype")?)?;
        let (inner, from) = self.compile(node.value("arg")?)?;
        let is_supported = match (from, kind) {
            (Kind::Uuid | Kind::Int, Kind::Text) => true,
            (Kind::Text, Kind::Uuid | Kind::Int | Kind::Bool) => true,
            (Kind::Bool | Kind::Int | Kind::Text | Kind::Uuid | Kind::Json, _) => false,
        };
        is_supported.then(|| (Expr::Cast(inner.into(), cast), kind))
    }

    fn operator(&mut self, node: &Object) -> Option<(Expr, Kind)> {
        let id: u32 = node.number("opno")?;
        // `->` and `->>` of jsonb and text
        if !matches!(id, 3211 | 3477) {
            let (comparison, left, right) = self.operands(node)?;
            return Some((Expr::Compare(comparison, left.into(), right.into()), Kind::Bool));
        }
        has_only(node, OPERATOR_FIELDS)?;
        let [object, key] = node.list("args")? else { return None };
        let (Expr::Claim(Claim::Path(mut path)), Kind::Json) = self.compile(object)? else { return None };
        let (Expr::Constant(Some(Datum::Text(key))), Kind::Text) = self.compile(key)? else { return None };
        path.push(key.into_owned());
        Some((Expr::Claim(Claim::Path(path)), if id == 3211 { Kind::Json } else { Kind::Text }))
    }

    /// The operands of a comparison.
    fn operands(&mut self, node: &Object) -> Option<(Comparison, Expr, Expr)> {
        has_only(node, OPERATOR_FIELDS)?;
        let (comparison, kind) = comparison(node.number("opno")?)?;
        has_plain_collation(node, kind)?;
        let [left, right] = node.list("args")? else { return None };
        Some((comparison, self.of_kind(left, kind)?, self.of_kind(right, kind)?))
    }

    fn array_operator(&mut self, node: &Object) -> Option<(Expr, Kind)> {
        has_only(node, "opno opfuncid hashfuncid negfuncid useOr inputcollid args location")?;
        let (comparison, kind) = comparison(node.number("opno")?)?;
        has_plain_collation(node, kind)?;
        let [left, array] = node.list("args")? else { return None };
        let left = self.of_kind(left, kind)?;
        let array = array.as_object()?;
        if !matches!(array.name.as_str(), "ARRAYEXPR" | "ARRAY") {
            return None;
        }
        has_only(
            array,
            "array_typeid array_collid element_typeid elements multidims list_start list_end location",
        )?;
        if array.boolean("multidims")? || Kind::from_oid(array.number("element_typeid")?) != Some(kind) {
            return None;
        }
        let items = array.list("elements")?;
        let items = items.iter().map(|item| self.of_kind(item, kind)).collect::<Option<Vec<_>>>()?;
        let is_any = node.boolean("useOr")?;
        Some((Expr::Among(comparison, is_any, left.into(), items), Kind::Bool))
    }

    fn boolean(&mut self, node: &Object) -> Option<(Expr, Kind)> {
        has_only(node, "boolop args location")?;
        let operator = node.atom("boolop")?;
        let nodes = node.list("args")?;
        let mut items = if operator == "not" {
            self.strictly(|this| this.conditions(nodes))?
        } else {
            self.conditions(nodes)?
        };
        let expr = match (operator, items.len()) {
            ("and", 1..) => Expr::and(items),
            ("or", 1..) => Expr::or(items),
            ("not", 1) => Expr::Not(items.pop()?.into()),
            (_, _) => return None,
        };
        Some((expr, Kind::Bool))
    }

    fn null_test(&mut self, node: &Object) -> Option<(Expr, Kind)> {
        has_only(node, "arg nulltesttype argisrow location")?;
        if node.boolean("argisrow")? {
            return None;
        }
        let (inner, kind) = self.compile(node.value("arg")?)?;
        let is_null = (kind != Kind::Json).then(|| Expr::IsNull(inner.into()))?;
        let expr = match node.number::<u32>("nulltesttype")? {
            0 => is_null,
            1 => Expr::Not(is_null.into()),
            _ => return None,
        };
        Some((expr, Kind::Bool))
    }

    fn boolean_test(&mut self, node: &Object) -> Option<(Expr, Kind)> {
        has_only(node, "arg booltesttype location")?;
        let inner = self.condition(node.value("arg")?)?;
        let number: u32 = node.number("booltesttype")?;
        let test = match number / 2 {
            0 => BooleanTest::True,
            1 => BooleanTest::False,
            2 => BooleanTest::Unknown,
            _ => return None,
        };
        let test = Expr::Is(test, inner.into());
        Some((if number.is_multiple_of(2) { test } else { Expr::Not(test.into()) }, Kind::Bool))
    }

    fn subselect(&mut self, node: &Object) -> Option<(Expr, Kind)> {
        has_only(node, "subLinkType subLinkId testexpr operName subselect location")?;
        let query = Query::read(node.object("subselect")?)?;
        match node.number::<u32>("subLinkType")? {
            // EXPR_SUBLINK: `(select auth.uid())`
            4 if query.tables.is_empty() && query.condition.is_none() => {
                let target = query.target?;
                self.within(Variables::Nothing, |this| this.compile(target))
            }
            // EXISTS_SUBLINK
            0 => self.exists(&query, None),
            // ANY_SUBLINK: `x in (select …)`. Like EXISTS, except that it may be NULL instead of false.
            2 if self.is_positive => {
                let test = node.object("testexpr")?;
                let [left, Node::Object(parameter)] = test.list("args")? else { return None };
                has_only(test, OPERATOR_FIELDS)?;
                let (comparison, kind) = comparison(test.number("opno")?)?;
                has_plain_collation(test, kind)?;
                let is_target = parameter.name == "PARAM"
                    && parameter.number::<u32>("paramkind")? == 2
                    && parameter.number::<u32>("paramid")? == 1;
                if test.name != "OPEXPR" || comparison != Comparison::Eq || !is_target {
                    return None;
                }
                let left = self.strictly(|this| this.of_kind(left, kind))?;
                self.exists(&query, Some((left, kind)))
            }
            _ => None,
        }
    }

    /// `exists (select …)`, with the condition that the selected value equals `operand`.
    fn exists(&mut self, query: &Query<'_>, operand: Option<(Expr, Kind)>) -> Option<(Expr, Kind)> {
        if !matches!(self.variables, Variables::Row) || query.tables.is_empty() {
            return None;
        }
        let mut conditions = Vec::new();
        let inside = Variables::Joined(query.tables.clone());
        if let Some(condition) = query.condition {
            conditions.push(self.within(inside.clone(), |this| this.condition(condition))?);
        }
        if let Some((left, kind)) = operand {
            let target = query.target?;
            let right = self.within(inside, |this| this.strictly(|this| this.of_kind(target, kind)))?;
            conditions.push(Expr::Compare(Comparison::Eq, left.into(), right.into()));
        }
        let mut names = Vec::new();
        for (index, table) in query.tables.iter().enumerate() {
            let joined = self.tables.get(table)?;
            if !joined.may_select {
                return None;
            }
            names.push((joined.schema.clone(), joined.name.clone()));
            let Some(policies) = &joined.policies else { continue };
            let variables = Variables::PoliciesOf(index, *table);
            conditions.push(self.within(variables, |this| this.policies(policies))?);
        }
        self.subselects.push(Subselect::new(names, Expr::and(conditions))?);
        Some((Expr::Exists(self.subselects.len() - 1, None), Kind::Bool))
    }

    /// Combines policies: whether each is permissive, and its condition.
    pub(super) fn policies(&mut self, policies: &[(bool, Option<String>)]) -> Option<Expr> {
        let (mut permissive, mut all) = (Vec::new(), Vec::new());
        for (is_permissive, condition) in policies {
            let expr = self.condition(&node_tree::parse(condition.as_deref()?)?)?;
            if *is_permissive { permissive.push(expr) } else { all.push(expr) }
        }
        // Without a permissive policy nothing is visible.
        all.push(Expr::or(permissive));
        Some(Expr::and(all))
    }
}

/// A table that a policy reads in a sub-select.
#[derive(Clone, Debug)]
pub(super) struct JoinedTable {
    pub(super) schema: String,
    pub(super) name: String,
    /// Whether the role may read all columns.
    pub(super) may_select: bool,
    /// Its policies for the role; `None` if row security does not apply to it.
    pub(super) policies: Option<Vec<(bool, Option<String>)>>,
    pub(super) attributes: Vec<Attribute>,
}

/// `select target from tables where condition`, without any other clause.
struct Query<'a> {
    target: Option<&'a Node>,
    tables: Vec<u32>,
    condition: Option<&'a Node>,
}

impl<'a> Query<'a> {
    fn read(query: &'a Object) -> Option<Self> {
        if query.name != "QUERY" || query.number::<u32>("commandType")? != 1 {
            return None;
        }
        let is_default = |name: &str| match name {
            "commandType" | "canSetTag" | "hasSubLinks" | "rtable" | "rteperminfos" | "jointree"
            | "targetList" | "stmt_location" | "stmt_len" => true,
            _ => query.atom(name).is_some_and(|value| matches!(value, "<>" | "false" | "0")),
        };
        if !query.field_names().all(is_default) {
            return None;
        }
        // Views check permissions as their owner.
        let permissions = query.list("rteperminfos").unwrap_or_default();
        let is_caller =
            |info: &Node| info.as_object().and_then(|info| info.number("checkAsUser")) == Some(0_u32);
        if !permissions.iter().all(is_caller) {
            return None;
        }
        let tables = query.list("rtable")?;
        let tables = tables.iter().map(|table| table_id(table.as_object()?)).collect::<Option<Vec<_>>>()?;
        let join = query.object("jointree")?;
        has_only(join, "fromlist quals")?;
        let from = join.list("fromlist")?;
        let is_listed = |(index, node): (usize, &Node)| {
            let Some(node) = node.as_object() else { return false };
            node.name == "RANGETBLREF" && node.number("rtindex") == Some(index + 1)
        };
        if from.len() != tables.len() || !from.iter().enumerate().all(is_listed) {
            return None;
        }
        let condition = match join.value("quals")? {
            Node::Atom(nothing) if nothing == "<>" => None,
            condition @ (Node::Atom(_) | Node::List(_) | Node::Object(_)) => Some(condition),
        };
        let mut targets = Vec::new();
        for entry in query.list("targetList")? {
            let entry = entry.as_object()?;
            if entry.name != "TARGETENTRY" || entry.boolean("resjunk")? {
                return None;
            }
            targets.push(entry.value("expr")?);
        }
        let target = if let [target] = targets.as_slice() { Some(*target) } else { None };
        Some(Self { target, tables, condition })
    }
}

/// The object id of a table in a FROM clause.
fn table_id(entry: &Object) -> Option<u32> {
    has_only(
        entry,
        "alias eref rtekind relid inh relkind rellockmode perminfoindex tablesample lateral inFromCl \
         requiredPerms checkAsUser selectedCols insertedCols updatedCols extraUpdatedCols securityQuals",
    )?;
    let is_table = entry.name == "RANGETBLENTRY"
        && entry.number::<u32>("rtekind")? == 0
        && matches!(entry.atom("relkind")?, "r" | "p")
        && entry.atom("tablesample")? == "<>"
        && entry.boolean("inh")?
        && !entry.boolean("lateral")?
        && entry.atom("securityQuals")? == "<>"
        && entry.atom("checkAsUser").unwrap_or("0") == "0";
    if is_table { entry.number("relid") } else { None }
}

const OPERATOR_FIELDS: &str = "opno opfuncid opresulttype opretset opcollid inputcollid args location";

/// Fails on fields this reader does not know: a later version of PostgreSQL may have given the node another
/// meaning.
fn has_only(node: &Object, known: &str) -> Option<()> {
    let mut names = node.field_names();
    names.all(|name| known.split(' ').any(|known| known == name)).then_some(())
}

/// Whether a set of numbers is absent or empty.
fn has_no_bits(node: &Object, field: &str) -> bool {
    match node.values(field) {
        None => true,
        Some([Node::List(items)]) => matches!(items.as_slice(), [Node::Atom(b)] if b == "b"),
        Some(_) => false,
    }
}

/// Text is compared byte by byte under the database's collation and `C`; others may be nondeterministic, and
/// a missing one makes PostgreSQL raise an error.
fn has_plain_collation(node: &Object, kind: Kind) -> Option<()> {
    let collation: u32 = node.number("inputcollid")?;
    (kind != Kind::Text || matches!(collation, 100 | 950 | 951)).then_some(())
}

fn constant(node: &Object) -> Option<(Expr, Kind)> {
    has_only(node, "consttype consttypmod constcollid constlen constbyval constisnull location constvalue")?;
    let type_oid: u32 = node.number("consttype")?;
    let kind = Kind::from_oid(type_oid)?;
    if node.boolean("constisnull")? {
        return Some((Expr::Constant(None), kind));
    }
    let [Node::Atom(length), Node::Atom(open), bytes @ .., Node::Atom(close)] = node.values("constvalue")?
    else {
        return None;
    };
    if open != "[" || close != "]" {
        return None;
    }
    let bytes = bytes.iter().map(byte).collect::<Option<Vec<u8>>>()?;
    let length: usize = length.parse().ok()?;
    Some((Expr::Constant(Some(decode(type_oid, kind, length, &bytes)?)), kind))
}

/// Printed as a signed or unsigned number, depending on the platform.
fn byte(node: &Node) -> Option<u8> {
    let Node::Atom(text) = node else { return None };
    let number: i16 = text.parse().ok()?;
    let number = if number < 0 { number.checked_add(256)? } else { number };
    u8::try_from(number).ok()
}

/// Decodes a constant from PostgreSQL's memory format on a little-endian machine. The format of another
/// machine fails the checks: a length that does not match, bytes beyond the type's size.
fn decode(type_oid: u32, kind: Kind, length: usize, bytes: &[u8]) -> Option<Datum<'static>> {
    match kind {
        Kind::Text => {
            let (header, text) = bytes.split_first_chunk::<4>()?;
            let total = usize::try_from(u32::from_le_bytes(*header)).ok()?;
            // The lowest two bits mark compressed and short values.
            (total % 4 == 0 && total / 4 == bytes.len() && length == bytes.len()).then_some(())?;
            Some(Datum::Text(String::from_utf8(text.to_vec()).ok()?.into()))
        }
        Kind::Uuid => {
            let bytes: [u8; 16] = bytes.try_into().ok()?;
            (length == 16).then(|| Datum::Text(uuid::Uuid::from_bytes(bytes).to_string().into()))
        }
        Kind::Int => {
            let number = i64::from_le_bytes(bytes.try_into().ok()?);
            let size = match type_oid {
                21 => i16::try_from(number).is_ok().then_some(2)?,
                // Larger constants of type int8 are rare, and would be read wrongly on other machines.
                _ => i32::try_from(number).is_ok().then_some(if type_oid == 20 { 8 } else { 4 })?,
            };
            (length == size).then_some(Datum::Int(number))
        }
        Kind::Bool => match (length, bytes) {
            (1, [0, 0, 0, 0, 0, 0, 0, 0]) => Some(Datum::Bool(false)),
            (1, [1, 0, 0, 0, 0, 0, 0, 0]) => Some(Datum::Bool(true)),
            _ => None,
        },
        Kind::Json => None,
    }
}

/// Comparison operators of `pg_catalog` by object id, which is the same in all versions.
pub(super) const OPERATORS: [(Kind, [u32; 6]); 12] = [
    // =, <>, <, <=, >, >=; 0 where the order is not that of the text.
    (Kind::Bool, [91, 85, 58, 1694, 59, 1695]),
    (Kind::Text, [98, 531, 0, 0, 0, 0]),
    (Kind::Uuid, [2972, 2973, 2974, 2976, 2975, 2977]),
    // int2, int4, int8, then each pair of them
    (Kind::Int, [94, 519, 95, 522, 520, 524]),
    (Kind::Int, [96, 518, 97, 523, 521, 525]),
    (Kind::Int, [410, 411, 412, 414, 413, 415]),
    (Kind::Int, [532, 538, 534, 540, 536, 542]),
    (Kind::Int, [533, 539, 535, 541, 537, 543]),
    (Kind::Int, [1862, 1863, 1864, 1866, 1865, 1867]),
    (Kind::Int, [1868, 1869, 1870, 1872, 1871, 1873]),
    (Kind::Int, [15, 36, 37, 80, 76, 82]),
    (Kind::Int, [416, 417, 418, 420, 419, 430]),
];

fn comparison(operator: u32) -> Option<(Comparison, Kind)> {
    const ALL: [Comparison; 6] =
        [Comparison::Eq, Comparison::Ne, Comparison::Lt, Comparison::Le, Comparison::Gt, Comparison::Ge];
    OPERATORS.iter().find_map(|(kind, ids)| {
        let found = ids.iter().zip(ALL).find(|(id, _)| **id == operator && operator != 0);
        found.map(|(_, comparison)| (comparison, *kind))
    })
}
