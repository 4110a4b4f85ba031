//! A WebAuthn authenticator in software, with the browser that runs it.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::text;

pub(super) const USER_PRESENT: u8 = 0x01;
pub(super) const USER_VERIFIED: u8 = 0x04;
const ATTESTED: u8 = 0x40;

/// One credential. Tests change the fields to forge responses.
pub(super) struct Authenticator {
    key: EcdsaKeyPair,
    pub(super) credential_id: Vec<u8>,
    pub(super) counter: u32,
    pub(super) user_handle: String,
    pub(super) rp_id: String,
    pub(super) origin: String,
    /// Of the next responses.
    pub(super) flags: u8,
}

impl Authenticator {
    pub(super) fn new(rp_id: &str, origin: &str) -> Self {
        Self {
            key: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap(),
            credential_id: basalt_core::random::bytes::<32>().to_vec(),
            counter: 0,
            user_handle: String::new(),
            rp_id: rp_id.to_owned(),
            origin: origin.to_owned(),
            flags: USER_PRESENT | USER_VERIFIED,
        }
    }

    fn client_data(&self, kind: &str, options: &Value) -> Vec<u8> {
        let challenge = text(options, "/challenge");
        json!({ "type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": false })
            .to_string()
            .into_bytes()
    }

    fn data(&mut self, flags: u8) -> Vec<u8> {
        self.counter += 1;
        let mut data = digest(&SHA256, self.rp_id.as_bytes()).as_ref().to_vec();
        data.push(flags);
        data.extend_from_slice(&self.counter.to_be_bytes());
        data
    }

    /// `navigator.credentials.create()`, serialised.
    pub(super) fn create(&mut self, options: &Value) -> Value {
        text(options, "/user/id").clone_into(&mut self.user_handle);
        let client_data = self.client_data("webauthn.create", options);
        let mut data = self.data(self.flags | ATTESTED);
        data.extend_from_slice(&[0; 16]);
        data.extend_from_slice(&u16::try_from(self.credential_id.len()).unwrap().to_be_bytes());
        data.extend_from_slice(&self.credential_id);
        // The COSE key: EC2, ES256, P-256.
        let point = self.key.public_key().as_ref();
        data.extend_from_slice(&[0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
        data.extend_from_slice(&point[1..33]);
        data.extend_from_slice(&[0x22, 0x58, 0x20]);
        data.extend_from_slice(&point[33..65]);
        // The attestation object: {"fmt": "none", "attStmt": {}, "authData": data}.
        let mut object = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59".to_vec();
        object.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
        object.extend_from_slice(&data);
        let id = URL_SAFE_NO_PAD.encode(&self.credential_id);
        json!({
            "id": id, "rawId": id, "type": "public-key", "clientExtensionResults": {},
            "response": {
                "clientDataJSON": URL_SAFE_NO_PAD.encode(client_data),
                "attestationObject": URL_SAFE_NO_PAD.encode(object),
                "transports": ["internal"],
            }
        })
    }

    /// `navigator.credentials.get()`, serialised.
    pub(super) fn get(&mut self, options: &Value) -> Value {
        let client_data = self.client_data("webauthn.get", options);
        let data = self.data(self.flags);
        let mut signed = data.clone();
        signed.extend_from_slice(digest(&SHA256, &client_data).as_ref());
        let signature = self.key.sign(&SystemRandom::new(), &signed).unwrap();
        let id = URL_SAFE_NO_PAD.encode(&self.credential_id);
        json!({
            "id": id, "rawId": id, "type": "public-key", "clientExtensionResults": {},
            "response": {
                "clientDataJSON": URL_SAFE_NO_PAD.encode(client_data),
                "authenticatorData": URL_SAFE_NO_PAD.encode(data),
                "signature": URL_SAFE_NO_PAD.encode(signature.as_ref()),
                "userHandle": self.user_handle,
            }
        })
    }
}
