//! The `Prefer` header (rest.md §3.11).

use std::fmt;

use super::write_joined;

/// Preferences of the client. If one kind occurs several times, the first value applies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preferences {
    /// `resolution=`: handling of existing rows.
    pub resolution: Option<Resolution>,
    /// `missing=`: meaning of missing keys.
    pub missing: Option<Missing>,
    /// `return=`: content of the response to a write.
    pub representation: Option<Representation>,
    /// `count=`: whether and how rows are counted.
    pub count: Option<Count>,
    /// `tx=`: how the transaction ends.
    pub transaction: Option<Transaction>,
    /// `handling=`: whether unknown preferences are errors.
    pub handling: Option<Handling>,
    /// `timezone=`: time zone of the transaction.
    pub timezone: Option<String>,
    /// `max-affected=`: limit on affected rows; applies only with strict handling.
    pub max_affected: Option<u64>,
    /// Unknown preferences, for strict handling.
    pub invalid: Vec<String>,
}

macro_rules! preference {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// The preference as written in `Prefer` and `Preference-Applied`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

preference! {
    /// Handling of rows that already exist.
    Resolution {
        /// Update existing rows.
        MergeDuplicates = "resolution=merge-duplicates",
        /// Ignore existing rows.
        IgnoreDuplicates = "resolution=ignore-duplicates",
    }
}
preference! {
    /// Meaning of a key missing from a body.
    Missing {
        /// Use the column's default.
        Default = "missing=default",
        /// Use null.
        Null = "missing=null",
    }
}
preference! {
    /// Content of the response to a write.
    Representation {
        /// The written rows.
        Full = "return=representation",
        /// No body, but a `Location` header.
        HeadersOnly = "return=headers-only",
        /// No body.
        Minimal = "return=minimal",
    }
}
preference! {
    /// How rows are counted.
    Count {
        /// Count all matching rows.
        Exact = "count=exact",
        /// Use the planner's estimate.
        Planned = "count=planned",
        /// Count up to max-rows, beyond that use the planner's estimate.
        Estimated = "count=estimated",
    }
}
preference! {
    /// How the transaction ends.
    Transaction {
        /// Commit.
        Commit = "tx=commit",
        /// Roll back.
        Rollback = "tx=rollback",
    }
}
preference! {
    /// Handling of unknown preferences.
    Handling {
        /// Reject the request.
        Strict = "handling=strict",
        /// Ignore them.
        Lenient = "handling=lenient",
    }
}

impl Preferences {
    /// Parses all `Prefer` headers of a request.
    ///
    /// ```
    /// use basalt_rest::parse::prefer::{Preferences, Representation};
    /// let prefer = Preferences::parse(["return=minimal,return=representation", "foo=bar"]);
    /// assert_eq!(prefer.representation, Some(Representation::Minimal));
    /// assert_eq!(prefer.invalid, ["foo=bar"]);
    /// ```
    pub fn parse<'a>(headers: impl IntoIterator<Item = &'a str>) -> Self {
        let mut prefer = Self::default();
        for text in headers.into_iter().flat_map(|header| header.split(',')) {
            let text = text.trim();
            if !text.is_empty() && !prefer.read(text) {
                prefer.invalid.push(text.to_owned());
            }
        }
        prefer
    }

    /// Whether unknown preferences are errors.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.handling == Some(Handling::Strict)
    }

    /// Parses one preference, and sets it unless its kind is already set; false if it is unknown.
    fn read(&mut self, text: &str) -> bool {
        fn first<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
            let known = value.is_some();
            if slot.is_none() {
                *slot = value;
            }
            known
        }
        if let Some(zone) = text.strip_prefix("timezone=") {
            return first(&mut self.timezone, Some(zone.to_owned()));
        }
        if let Some(rows) = text.strip_prefix("max-affected=") {
            return first(&mut self.max_affected, rows.parse().ok());
        }
        first(&mut self.resolution, Resolution::parse(text))
            || first(&mut self.missing, Missing::parse(text))
            || first(&mut self.representation, Representation::parse(text))
            || first(&mut self.count, Count::parse(text))
            || first(&mut self.transaction, Transaction::parse(text))
            || first(&mut self.handling, Handling::parse(text))
    }
}

impl fmt::Display for Preferences {
    /// Formats the preferences as a `Prefer` header.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            self.resolution.map(Resolution::as_str),
            self.missing.map(Missing::as_str),
            self.representation.map(Representation::as_str),
            self.count.map(Count::as_str),
            self.transaction.map(Transaction::as_str),
            self.handling.map(Handling::as_str),
        ];
        let words = words.into_iter().flatten().map(str::to_owned);
        let zone = self.timezone.iter().map(|zone| format!("timezone={zone}"));
        let rows = self.max_affected.iter().map(|rows| format!("max-affected={rows}"));
        let all: Vec<String> = words.chain(zone).chain(rows).chain(self.invalid.iter().cloned()).collect();
        write_joined(f, &all, ", ")
    }
}
