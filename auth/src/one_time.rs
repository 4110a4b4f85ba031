//! Codes that are mailed to people and given back once (auth.md §3.10): how they are hashed for storage.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA224, digest};

/// What is stored of a code: `hex(SHA-224(lower(address) || code))`; of a phone number its digits.
pub(crate) fn code_hash(address: &str, code: &str) -> String {
    let text = format!("{}{code}", address.to_lowercase());
    digest(&SHA224, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether `code` is the one whose hash is stored. Rows of PKCE flows prefix the hash.
pub(crate) fn is_code(stored: &str, address: &str, code: &str) -> bool {
    let stored = stored.strip_prefix("pkce_").unwrap_or(stored);
    verify_slices_are_equal(stored.as_bytes(), code_hash(address, code).as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_s_vector_holds() {
        let hash = "b507a4ef007e1379d644aa6fe395cf98f1054ac96b63a052dca9a26a";
        assert_eq!(code_hash("User@example.com", "123456"), hash);
        assert!(is_code(hash, "user@example.com", "123456"));
        assert!(is_code(&format!("pkce_{hash}"), "user@example.com", "123456"));
        assert!(!is_code(hash, "user@example.com", "123457"));
        assert!(!is_code("", "user@example.com", "123456"));
    }
}
