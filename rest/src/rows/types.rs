//! JSON representation of each type, by its oid in the catalog.
//!
//! The oids of built-in types never change. Other types (enums, types of extensions) are listed in the schema cache
//! if `to_json` represents them by their text, which it does unless the type has a cast to `json`.

use basalt_pg::json::JsonEncoding;

/// Types other than built-in ones whose values are strings in JSON.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TextTypes {
    sorted: Vec<u32>,
}

impl FromIterator<u32> for TextTypes {
    fn from_iter<T: IntoIterator<Item = u32>>(oids: T) -> Self {
        let mut sorted: Vec<u32> = oids.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self { sorted }
    }
}

impl TextTypes {
    /// Whether values of the type can be serialised here.
    #[must_use]
    pub fn is_known(&self, type_oid: u32) -> bool {
        self.encoding(type_oid).is_some()
    }

    pub(super) fn encoding(&self, type_oid: u32) -> Option<JsonEncoding> {
        scalar(type_oid)
            .or_else(|| element(type_oid).map(JsonEncoding::array))
            .or_else(|| self.sorted.binary_search(&type_oid).ok().map(|_| JsonEncoding::Text))
    }
}

/// Whether a cast to this name, as written in a request, results in a type supported here. The rows show which type
/// the database resolves it to.
#[must_use]
pub fn is_known_name(name: &str) -> bool {
    const NAMES: [&str; 34] = [
        "text",
        "varchar",
        "character varying",
        "bpchar",
        "character",
        "char",
        "int",
        "integer",
        "int4",
        "bigint",
        "int8",
        "smallint",
        "int2",
        "numeric",
        "decimal",
        "real",
        "float",
        "float4",
        "float8",
        "double precision",
        "boolean",
        "bool",
        "date",
        "timestamp",
        "timestamptz",
        "timestamp with time zone",
        "timestamp without time zone",
        "time",
        "timetz",
        "interval",
        "uuid",
        "json",
        "jsonb",
        "money",
    ];
    NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Built-in types. `bytea` is excluded: it is returned in binary, and `bytea_output` determines its text.
const fn scalar(type_oid: u32) -> Option<JsonEncoding> {
    Some(match type_oid {
        16 => JsonEncoding::Boolean,
        // bigint, smallint, integer, real, double precision, numeric
        20 | 21 | 23 | 700 | 701 | 1700 => JsonEncoding::Number,
        114 | 3802 => JsonEncoding::Json,
        1082 => JsonEncoding::Date,
        // without and with time zone
        1114 | 1184 => JsonEncoding::Timestamp,
        // "char", name, text, oid, xml, character, character varying
        18 | 19 | 25 | 26 | 142 | 1042 | 1043
        // time, interval, timetz, bit, varbit, uuid, money
        | 1083 | 1186 | 1266 | 1560 | 1562 | 2950 | 790
        // cidr, inet, macaddr, macaddr8
        | 650 | 869 | 829 | 774
        // point, lseg, path, box, polygon, line, circle
        | 600..=604 | 628 | 718
        // tsvector, tsquery, jsonpath, pg_lsn, refcursor
        | 3614 | 3615 | 4072 | 3220 | 1790
        // int4range, numrange, tsrange, tstzrange, daterange, int8range
        | 3904 | 3906 | 3908 | 3910 | 3912 | 3926
        // their multiranges
        | 4451 | 4532..=4536
        // tid, xid, cid, xid8, txid_snapshot, pg_snapshot, aclitem
        | 27..=29 | 5069 | 2970 | 5038 | 1033
        // regproc, regprocedure, regoper, regoperator, regclass, regtype
        | 24 | 2202..=2206
        // regconfig, regdictionary, regnamespace, regrole, regcollation
        | 3734 | 3769 | 4089 | 4096 | 4191 => JsonEncoding::Text,
        _ => return None,
    })
}

/// Element type of built-in array types. `box[]` is excluded because its elements are separated by semicolons.
const fn element(type_oid: u32) -> Option<JsonEncoding> {
    Some(match type_oid {
        1000 => JsonEncoding::Boolean,
        1016 | 1005 | 1007 | 1021 | 1022 | 1231 => JsonEncoding::Number,
        199 | 3807 => JsonEncoding::Json,
        1182 => JsonEncoding::Date,
        1115 | 1185 => JsonEncoding::Timestamp,
        // bytea: arrays are returned as text only
        1001
        // "char", name, text, oid, xml, character, character varying
        | 1002 | 1003 | 1009 | 1028 | 143 | 1014 | 1015
        // time, interval, timetz, bit, varbit, uuid, money
        | 1183 | 1187 | 1270 | 1561 | 1563 | 2951 | 791
        // cidr, inet, macaddr, macaddr8
        | 651 | 1041 | 1040 | 775
        // point, lseg, path, polygon, line, circle
        | 1017..=1019 | 1027 | 629 | 719
        // tsvector, tsquery, jsonpath, pg_lsn
        | 3643 | 3645 | 4073 | 3221
        // ranges
        | 3905 | 3907 | 3909 | 3911 | 3913 | 3927
        // multiranges
        | 6150..=6153 | 6155 | 6157 => JsonEncoding::Text,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_identified_by_oid() {
        let types = TextTypes::from_iter([90_000, 20_000, 90_000]);
        assert_eq!(types.encoding(23), Some(JsonEncoding::Number));
        assert_eq!(types.encoding(1009), Some(JsonEncoding::array(JsonEncoding::Text)));
        assert_eq!(types.encoding(20_000), Some(JsonEncoding::Text));
        assert!(!types.is_known(20_001), "unlisted type");
        assert!(!types.is_known(17), "bytea");
        assert!(!types.is_known(22), "int2vector is an array with a different text format");
        assert!(!types.is_known(2249), "record");
    }
}
