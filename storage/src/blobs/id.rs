//! Name of a blob: a random UUID, independent of bucket and key, so that no client-chosen name reaches the
//! store.

use std::fmt;
use std::str::FromStr as _;

use uuid::Uuid;

/// Name of a blob; equals `version` in the row that refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(Uuid);

impl BlobId {
    /// Generates a new id.
    #[must_use]
    pub fn random() -> Self {
        Self(basalt_core::random::uuid())
    }

    /// Parses the canonical form, lower case with hyphens. Other spellings are rejected, so that every blob
    /// has one name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(Uuid::from_str(text).ok()?);
        (id.to_string() == text).then_some(id)
    }

    /// As a PostgreSQL parameter.
    pub(super) const fn uuid(self) -> Uuid {
        self.0
    }

    /// Folder of the blob: the first two hex digits.
    pub(super) fn folder(self) -> String {
        let [first, ..] = self.0.into_bytes();
        format!("{first:02x}")
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_the_canonical_form() {
        let id = BlobId::random();
        assert_eq!(BlobId::parse(&id.to_string()), Some(id));
        for text in [
            "0193C3F6-7C1C-4D6E-9B7A-2F1B0C3D4E5F",
            "{0193c3f6-7c1c-4d6e-9b7a-2f1b0c3d4e5f}",
            "0193c3f67c1c4d6e9b7a2f1b0c3d4e5f",
            "urn:uuid:0193c3f6-7c1c-4d6e-9b7a-2f1b0c3d4e5f",
            " 0193c3f6-7c1c-4d6e-9b7a-2f1b0c3d4e5f",
            "1",
            "",
            "../../etc/passwd",
        ] {
            assert_eq!(BlobId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn folder_is_the_first_two_digits() {
        let id = BlobId::parse("0193c3f6-7c1c-4d6e-9b7a-2f1b0c3d4e5f").unwrap();
        assert_eq!(id.path().as_ref(), "01/0193c3f6-7c1c-4d6e-9b7a-2f1b0c3d4e5f");
    }
}
