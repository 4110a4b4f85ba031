//! The `Prefer` header (rest.md §3.11).

use std::fmt;

use super::write_joined;

/// What the client prefers. Of several values of one kind the first wins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preferences {
    /// `resolution=`
    pub resolution: Option<Resolution>,
    /// `missing=`
    pub missing: Option<Missing>,
    /// `return=`
    pub representation: Option<Representation>,
    /// `count=`
    pub count: Option<Count>,
    /// `tx=`
    pub transaction: Option<Transaction>,
    /// `handling=`
    pub handling: Option<Handling>,
    /// `timezone=`
    pub timezone: Option<String>,
    /// `max-affected=`; counts only with strict handling.
    pub max_affected: Option<u64>,
    /// Preferences that are not known, for strict handling.
    pub invalid: Vec<String>,
}

macro_rules! preference {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// The preference as it is written and echoed.
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
    /// What an insert does with rows that exist.
    Resolution {
        /// Update them.
        MergeDuplicates = "resolution=merge-duplicates",
        /// Leave them.
        IgnoreDuplicates = "resolution=ignore-duplicates",
    }
}
preference! {
    /// What a key that is missing from a body means.
    Missing {
        /// The column's default.
        Default = "missing=default",
        /// Null.
        Null = "missing=null",
    }
}
preference! {
    /// What a write answers with.
    Representation {
        /// The rows.
        Full = "return=representation",
        /// No body, a `Location`.
        HeadersOnly = "return=headers-only",
        /// No body.
        Minimal = "return=minimal",
    }
}
preference! {
    /// How rows are counted.
    Count {
        /// Count them.
        Exact = "count=exact",
        /// Ask the planner.
        Planned = "count=planned",
        /// Count up to max-rows, then ask the planner.
        Estimated = "count=estimated",
    }
}
preference! {
    /// How the transaction ends.
    Transaction {
        /// COMMIT.
        Commit = "tx=commit",
        /// ROLLBACK.
        Rollback = "tx=rollback",
    }
}
preference! {
    /// What an unknown preference does.
    Handling {
        /// It is an error.
        Strict = "handling=strict",
        /// It is ignored.
        Lenient = "handling=lenient",
    }
}

impl Preferences {
    /// Reads all `Prefer` headers of a request.
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

    /// Takes one preference, unless its kind was set before; false if it is not known.
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
    /// As a `Prefer` header.
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
