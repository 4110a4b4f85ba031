//! Requests by the thousand: constructs of the grammar combined at random, and always the same ones.
//!
//! Written over a small model of the schema, so that most requests mean something. One in twenty has junk put somewhere
//! (its place ends in `!`), and a few hold one value that does not fit its column: with two, PostgreSQL would be free
//! which to complain about. Every level is ordered by its key.

use super::case::Case;

/// SplitMix64: the same numbers on every machine.
struct Dice {
    state: u64,
    /// Whether this request may still get a value that does not fit.
    may_misfit: bool,
}

impl Dice {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("it is below a usize")
    }

    /// True once in `times`.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// One of the values, or now and then, at most once in a request, one that does not fit.
    fn value(&mut self, values: &[&'static str], misfit: &'static str) -> &'static str {
        if self.may_misfit && self.once_in(25) {
            self.may_misfit = false;
            return misfit;
        }
        self.pick(values)
    }

    /// Between `least` and `most` different items.
    fn some<T: Copy>(&mut self, items: &[T], least: usize, most: usize) -> Vec<T> {
        let mut left = items.to_vec();
        let count = (least + self.below(most - least + 1)).min(left.len());
        (0..count).map(|_| left.swap_remove(self.below(left.len()))).collect()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Number,
    Text,
    Bool,
    Time,
    Json,
    TextArray,
    Enum,
    Range,
    Search,
    /// Without operators of its own.
    Other,
}

struct Table {
    name: &'static str,
    columns: &'static [(&'static str, Kind)],
    /// Orders every row.
    key: &'static str,
    /// Name in the URL, target table, whether it is to one.
    embeds: &'static [(&'static str, &'static str, bool)],
}

use Kind::{Bool, Enum, Json, Number, Other, Range, Search, Text, TextArray, Time};

const TABLES: &[Table] = &[
    Table {
        name: "ships",
        columns: &[
            ("id", Number),
            ("name", Text),
            ("class", Enum),
            ("tons", Number),
            ("code", Text),
            ("active", Bool),
            ("launched", Time),
            ("spec", Json),
            ("flags", TextArray),
            ("shout", Text),
            ("home_id", Number),
        ],
        key: "id",
        embeds: &[
            ("ports!home_id", "ports", true),
            ("ports!ships_built_fk", "ports", true),
            ("home_id", "ports", true),
            ("sister_id", "ships", true),
            ("captains", "captains", true),
            ("papers", "papers", true),
            ("crew", "crew", false),
            ("cargo", "cargo", false),
            ("goods!cargo", "goods", false),
            ("goods!claims", "goods", false),
            ("ports!visits", "ports", false),
            ("birthplace", "ports", true),
            ("treasures", "treasures", false),
        ],
    },
    Table {
        name: "ports",
        columns: &[
            ("id", Number),
            ("name", Text),
            ("country", Text),
            ("depth", Number),
            ("opened", Time),
            ("tags", TextArray),
            ("rating", Number),
        ],
        key: "id",
        embeds: &[
            ("ships!home_id", "ships", false),
            ("ships!ships_built_fk", "ships", false),
            ("fleet", "ships", false),
            ("flagship", "ships", true),
            ("berths", "berths", false),
            ("ship_list!home", "ship_list", false),
        ],
    },
    Table {
        name: "crew",
        columns: &[("id", Number), ("name", Text), ("ship_id", Number), ("hired", Time), ("summary", Text)],
        key: "id",
        embeds: &[("ships", "ships", true), ("mentor_id", "crew", true), ("crew", "crew", false)],
    },
    Table {
        name: "captains",
        columns: &[("ship_id", Number), ("name", Text), ("rank", Number)],
        key: "ship_id",
        embeds: &[("ships", "ships", true)],
    },
    Table {
        name: "papers",
        columns: &[("id", Number), ("number", Text)],
        key: "id",
        embeds: &[("ships", "ships", true)],
    },
    Table {
        name: "goods",
        columns: &[("id", Number), ("label", Text), ("price", Other)],
        key: "id",
        embeds: &[("ships!cargo", "ships", false), ("cargo", "cargo", false)],
    },
    Table {
        name: "cargo",
        columns: &[("ship_id", Number), ("good_id", Number), ("tons", Number)],
        key: "ship_id,good_id",
        embeds: &[("ships", "ships", true), ("goods", "goods", true)],
    },
    Table {
        name: "berths",
        columns: &[("port_id", Number), ("number", Text), ("length", Number)],
        key: "port_id,number",
        embeds: &[("ports", "ports", true), ("bookings", "bookings", false)],
    },
    Table {
        name: "bookings",
        columns: &[("id", Number), ("number", Text), ("ship_id", Number)],
        key: "id",
        embeds: &[("berths", "berths", true), ("ships", "ships", true), ("berth_view", "berths", true)],
    },
    Table {
        name: "ship_list",
        columns: &[("id", Number), ("title", Text), ("class", Enum), ("tons", Number)],
        key: "id",
        embeds: &[
            ("home", "ports", true),
            ("crew", "crew", false),
            ("captains", "captains", true),
            ("goods!cargo", "goods", false),
        ],
    },
    Table {
        name: "treasures",
        columns: &[("id", Number), ("worth", Number)],
        key: "id",
        embeds: &[("ships", "ships", true)],
    },
    Table {
        name: "samples",
        columns: &[
            ("id", Number),
            ("num", Number),
            ("txt", Text),
            ("flag", Bool),
            ("stamp", Time),
            ("jsb", Json),
            ("texts", TextArray),
            ("kind", Enum),
            ("ir", Range),
            ("doc", Search),
            ("big", Number),
        ],
        key: "id",
        embeds: &[],
    },
    Table {
        name: "settings",
        columns: &[("key", Text), ("value", Json), ("num", Number), ("grp", Text)],
        key: "key",
        embeds: &[],
    },
];

fn table(name: &str) -> &'static Table {
    TABLES.iter().find(|table| table.name == name).expect("the model is closed")
}

/// What is sometimes put somewhere in a query.
const JUNK: &[&str] = &[
    ",", ".", "(", ")", "!", "->", "->>", "::", ":", "\"", "..", "not.", "*", " ", "and", "()", "{", "eq.",
    "\\", "'", "nope",
];

/// So many requests.
pub(crate) fn cases(count: usize) -> Vec<Case> {
    let mut dice = Dice { state: 1202, may_misfit: true };
    (0..count).map(|index| case(&mut dice, format!("generated:{index}"))).collect()
}

fn case(dice: &mut Dice, mut place: String) -> Case {
    dice.may_misfit = true;
    let root = table(dice.pick(&[
        "ships",
        "ships",
        "ports",
        "crew",
        "captains",
        "goods",
        "cargo",
        "berths",
        "bookings",
        "ship_list",
        "samples",
        "settings",
    ]));
    let mut query = Query::default();
    if !dice.once_in(8) {
        let select = query.select(dice, root, "", 0);
        query.parameters.insert(0, format!("select={select}"));
    }
    query.conditions(dice, root, "", 3);
    let order = order(dice, root);
    query.parameters.push(format!("order={order}"));
    if dice.once_in(4) {
        query.parameters.push(format!("limit={}", 1 + dice.below(3)));
    }
    if dice.once_in(6) {
        query.parameters.push(format!("offset={}", dice.below(3)));
    }
    let mut target = format!("/{}?{}", root.name, query.parameters.join("&"));
    if dice.once_in(20) {
        // Somewhere behind the question mark, at the border of a character.
        let start = root.name.len() + 2;
        let places: Vec<_> =
            target.char_indices().map(|(index, _)| index).filter(|index| *index >= start).collect();
        target.insert_str(dice.pick(&places), dice.pick(JUNK));
        place.push('!');
    }
    let mut case = Case::get(place, &target);
    if dice.once_in(5) {
        case.headers.push(("Prefer".to_owned(), "count=exact".to_owned()));
    }
    if dice.once_in(8) {
        let accept = dice.pick(&[
            "text/csv",
            "application/vnd.pgrst.object+json",
            "application/vnd.pgrst.array+json;nulls=stripped",
            "application/vnd.pgrst.object+json;nulls=stripped",
        ]);
        case.headers.push(("Accept".to_owned(), accept.to_owned()));
    }
    if dice.once_in(12) {
        let role = dice.pick(&["authenticated", "service_role"]);
        case = case.with_role(role);
    }
    if dice.once_in(30) {
        case.method = "HEAD".to_owned();
    }
    case
}

#[derive(Default)]
struct Query {
    parameters: Vec<String>,
}

impl Query {
    /// A select list, with the conditions of its embeds as parameters of their own.
    fn select(&mut self, dice: &mut Dice, table: &'static Table, path: &str, depth: usize) -> String {
        let mut items: Vec<String> = Vec::new();
        if dice.once_in(5) {
            items.push("*".to_owned());
        } else {
            let columns = dice.some(table.columns, 1, 3);
            items.extend(columns.into_iter().map(|(name, kind)| field(dice, name, kind, depth)));
        }
        let embeds = if depth < 2 { dice.below(3 - depth) } else { 0 };
        let mut taken = Vec::new();
        for (name, target, to_one) in dice.some(table.embeds, embeds, embeds) {
            let number = items.len();
            let (alias, spread) = match dice.below(6) {
                0 | 1 => (Some(format!("e{number}")), false),
                2 if to_one => (None, true),
                _ => (None, false),
            };
            let bare = name.split('!').next().unwrap_or(name);
            let own = alias.clone().unwrap_or_else(|| bare.to_owned());
            // Two embeds of one name cannot be told apart in filters.
            if taken.contains(&bare) {
                continue;
            }
            taken.push(bare);
            let path = if path.is_empty() { own } else { format!("{path}.{own}") };
            let target = super::generator::table(target);
            let inside = if !spread && dice.once_in(12) {
                String::new()
            } else {
                self.select(dice, target, &path, depth + 1)
            };
            let join = dice.pick(&["", "", "", "!inner", "!left"]);
            let prefix =
                if spread { "...".to_owned() } else { alias.map(|alias| alias + ":").unwrap_or_default() };
            items.push(format!("{prefix}{name}{join}({inside})"));
            if dice.once_in(3) {
                self.conditions(dice, target, &path, 1);
            }
            if !to_one {
                self.parameters.push(format!("{path}.order={}", order(dice, target)));
                if dice.once_in(4) {
                    self.parameters.push(format!("{path}.limit={}", dice.below(3)));
                }
            }
            if dice.once_in(8) && !path.contains('.') {
                self.parameters.push(format!("{path}={}", dice.pick(&["is.null", "not.is.null"])));
            }
        }
        let comma = dice.pick(&[",", ",", ", "]);
        items.join(comma)
    }

    /// Up to `most` filters and logic trees.
    fn conditions(&mut self, dice: &mut Dice, table: &Table, path: &str, most: usize) {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        for _ in 0..dice.below(most + 1) {
            let (name, kind) = dice.pick(table.columns);
            if dice.once_in(4) {
                let operator = dice.pick(&["or", "and", "not.or", "not.and"]);
                self.parameters.push(format!("{prefix}{operator}={}", tree(dice, table, 0)));
            } else {
                let (column, condition) = condition(dice, name, kind, false);
                self.parameters.push(format!("{prefix}{column}={condition}"));
            }
        }
    }
}

fn field(dice: &mut Dice, name: &str, kind: Kind, depth: usize) -> String {
    let alias = if dice.once_in(5) { "a1:" } else { "" };
    let path = match kind {
        // 12 names and looks into array elements at the top level only.
        Json if depth == 0 => {
            dice.pick(&["", "->masts", "->>masts", "->crew->min", "->k->2->>deep", "->0", "->1->a->>2"])
        }
        Json => dice.pick(&["", "->masts", "->>masts", "->crew->min", "->crew->>max", "->\"name\""]),
        TextArray if depth == 0 => dice.pick(&["", "", "->0", "->>1"]),
        Number | Text | Bool | Time | TextArray | Enum | Range | Search | Other => "",
    };
    let cast = if dice.once_in(6) { dice.pick(&["::text", "::varchar", "::text"]) } else { "" };
    format!("{alias}{name}{path}{cast}")
}

fn order(dice: &mut Dice, table: &Table) -> String {
    let mut terms = Vec::new();
    if dice.once_in(3) {
        let (name, kind) = dice.pick(table.columns);
        let name = if kind == Json { format!("{name}->>masts") } else { name.to_owned() };
        terms.push(format!(
            "{name}{}{}",
            dice.pick(&["", ".asc", ".desc"]),
            dice.pick(&["", ".nullsfirst", ".nullslast"])
        ));
    }
    terms.push(table.key.to_owned());
    terms.join(",")
}

fn tree(dice: &mut Dice, table: &Table, depth: usize) -> String {
    let nodes: Vec<_> = (0..=dice.below(3))
        .map(|_| {
            if depth < 2 && dice.once_in(5) {
                format!("{}{}", dice.pick(&["or", "and", "not.or", "not.and"]), tree(dice, table, depth + 1))
            } else {
                let (name, kind) = dice.pick(table.columns);
                let (column, condition) = condition(dice, name, kind, true);
                format!("{column}.{condition}")
            }
        })
        .collect();
    format!("({})", nodes.join(","))
}

/// A column (with a path into it) and `[not.]op.value`; values in logic trees are quoted where they must be.
fn condition(dice: &mut Dice, name: &str, kind: Kind, in_tree: bool) -> (String, String) {
    let not = if dice.once_in(6) { "not." } else { "" };
    let mut column = name.to_owned();
    let condition = if dice.once_in(8) {
        dice.pick(&["is.null", "is.NULL", "not.is.null"]).to_owned()
    } else {
        match kind {
            Number => {
                let operator = dice.pick(&["eq", "neq", "gt", "gte", "lt", "lte", "isdistinct"]);
                match dice.below(6) {
                    0 => format!("in.({})", dice.pick(&["1,2", "3", "2,\"5\"", "", "1,2,3,4"])),
                    1 => format!(
                        "{}({}).{{{}}}",
                        dice.pick(&["eq", "gt", "lte"]),
                        dice.pick(&["any", "all"]),
                        dice.pick(&["1,2", "3"])
                    ),
                    _ => format!("{operator}.{}", dice.value(&["1", "2", "3", "80", "0", "-1"], "x")),
                }
            }
            Text => match dice.below(6) {
                0 => format!(
                    "{}.{}",
                    dice.pick(&["like", "ilike"]),
                    dice.pick(&["*a*", "A*", "%o", "*", "_o*"])
                ),
                1 => format!("{}.{}", dice.pick(&["match", "imatch"]), dice.pick(&["^A", "o$", "a|e"])),
                2 => format!(
                    "in.({})",
                    dice.pick(&["Aurora,Echo", "\"Cork\",Dover", "\"Dora, the \\\"Great\\\"\"", "salt"])
                ),
                3 => format!(
                    "{}({}).{{{}}}",
                    dice.pick(&["like", "ilike", "match"]),
                    dice.pick(&["any", "all"]),
                    dice.pick(&["A*,B*", "a*", "^C"])
                ),
                _ => {
                    let value =
                        dice.pick(&["Aurora", "Cork", "Ada", "grain", "Dora, the \"Great\"", "", "a"]);
                    let value = if in_tree {
                        format!("\"{}\"", value.replace('"', "\\\""))
                    } else {
                        value.to_owned()
                    };
                    format!("{}.{value}", dice.pick(&["eq", "neq", "gt", "lte", "isdistinct"]))
                }
            },
            Bool => dice
                .pick(&["is.true", "is.false", "is.unknown", "eq.true", "neq.f", "isdistinct.true"])
                .to_owned(),
            Time => format!(
                "{}.{}",
                dice.pick(&["eq", "gt", "lt", "gte", "lte"]),
                dice.value(&["2000-01-01", "2020-02-29T10:30:00Z", "1848-04-01"], "never")
            ),
            Json => {
                column.push_str(dice.pick(&["->masts", "->>masts", "->crew->>min", "->>name", "->k->0", ""]));
                let value = dice.value(&["2", "1", "8"], "x");
                format!("{}.{value}", dice.pick(&["eq", "gt", "neq"]))
            }
            TextArray => format!(
                "{}.{}",
                dice.pick(&["cs", "cd", "ov", "eq"]),
                dice.pick(&["{red}", "{red,blue}", "{}", "{fish}"])
            ),
            Enum => {
                dice.value(&["eq.brig", "neq.sloop", "in.(brig,ketch)", "gt.sloop"], "eq.nope").to_owned()
            }
            Range => {
                let value = dice.pick(&["[1,5]", "[20,30)", "empty"]);
                let value = if in_tree { format!("\"{value}\"") } else { value.to_owned() };
                format!("{}.{value}", dice.pick(&["cs", "cd", "ov", "sl", "sr", "nxl", "nxr", "adj", "eq"]))
            }
            Other => "is.null".to_owned(),
            Search => format!(
                "{}.{}",
                dice.pick(&["fts", "plfts", "phfts", "wfts", "fts(english)"]),
                dice.pick(&["quick", "brown", "lazy"])
            ),
        }
    };
    (column, if condition.starts_with("not.") { condition } else { format!("{not}{condition}") })
}
