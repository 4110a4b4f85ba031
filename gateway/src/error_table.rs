//! The errors of all services, for docs/ERRORS.md. The tests compare the table with the error maps in the source.

mod document;
mod rows;

/// An error that clients see.
struct Row {
    /// The stable code.
    code: &'static str,
    /// The possible HTTP statuses, in ascending order; empty for errors that are not sent over HTTP.
    status: &'static str,
    /// What went wrong.
    meaning: &'static str,
    /// How the user of the API or the operator resolves it.
    advice: &'static str,
}

/// The errors of one service or protocol.
struct Section {
    title: &'static str,
    /// Where the code is in the response.
    intro: &'static str,
    rows: &'static [Row],
    /// The source files that choose code and status, from the root of the repository; none if a test of the service
    /// covers the statuses.
    sources: &'static [&'static str],
}

const SECTIONS: [Section; 7] = [
    Section {
        title: "Auth (`/auth/v1`)",
        intro: "The code is in the header `x-sb-error-code` and in `error_code` or `code` of the body, depending on the\n\
                API version that the client requests. A link from a mail redirects with `error_code` in the URL. A hook that\n\
                rejects a request chooses status and message; the code is `unknown` then.",
        rows: rows::AUTH,
        sources: &["auth/src/error/wire.rs", "auth/src/error/feature.rs"],
    },
    Section {
        title: "REST (`/rest/v1`)",
        intro: "The code is in `code` of the body and in the header `Proxy-Status`.",
        rows: rows::REST,
        sources: &["rest/src/error/wire.rs", "rest/src/error/postgres.rs"],
    },
    Section {
        title: "REST: errors of PostgreSQL",
        intro: "`code` is the SQLSTATE that PostgreSQL reports. `*` stands for any further characters; the first row that\n\
                fits decides.",
        rows: rows::SQLSTATE,
        sources: &[],
    },
    Section {
        title: "Storage (`/storage/v1`)",
        intro: "The code is in `code` of the body, the status below in `statusCode`. S3 and TUS respond with this status.\n\
                The other routes respond with 400, except when the status below is 408, 416, 429, 500, 507 or 544, for\n\
                `SlowDown`, for unknown routes, for JSON bodies that are too large, and on routes for secret keys only.",
        rows: rows::STORAGE,
        sources: &["storage/src/error.rs"],
    },
    Section {
        title: "Storage over S3 (`/storage/v1/s3`)",
        intro: "The code is in `Code` of the XML body. The codes of Storage occur here, too, and in addition:",
        rows: rows::S3,
        sources: &[
            "storage/src/s3/error.rs",
            "storage/src/s3/form.rs",
            "storage/src/s3/multipart.rs",
            "storage/src/s3/documents.rs",
        ],
    },
    Section {
        title: "Functions (`/functions/v1`)",
        intro: "The code is in `code` of the body and in the header `sb-error-code`. Responses of a function itself have\n\
                neither.",
        rows: rows::FUNCTIONS,
        sources: &["functions/src/error.rs"],
    },
    Section {
        title: "Realtime (`/realtime/v1`)",
        intro: "HTTP errors have the text in `error` or `message`, and no code. A join that is refused has\n\
                `response.reason`, which begins with one of these codes and a colon.",
        rows: rows::REALTIME,
        sources: &[],
    },
];
