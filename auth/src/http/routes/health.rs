//! `GET /health`: liveness and version, in the format that deployment scripts expect (auth.md §3.14).

use axum::Json;
use serde_json::{Value, json};

pub(crate) async fn get() -> Json<Value> {
    Json(json!({
        "version": "v2.196.0",
        "name": "GoTrue",
        "description": "GoTrue is a user registration and authentication API"
    }))
}
