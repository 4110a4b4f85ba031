//! The bounds: what names each, where it is seen, and what a client gets beyond it.

use super::Bound;

const fn bound(
    what: &'static str,
    setting: &'static str,
    limit: &'static str,
    in_use: &'static str,
    beyond: &'static str,
    counted: &'static str,
) -> Bound {
    Bound { what, setting, limit, in_use, beyond, counted }
}

/// All of them.
#[rustfmt::skip]
pub static BOUNDS: &[Bound] = &[
    bound("requests in flight", "server.max_requests", "basalt_http_requests_in_flight_limit", "basalt_http_requests_in_flight", "503 at once, `Retry-After: 1` (REST `53000`, auth `unexpected_failure`)", "basalt_http_refused_total"),
    bound("connections of clients", "server.max_connections", "basalt_http_connections_limit", "basalt_http_connections", "newcomers wait in the system's queue, which has room for 4096", "basalt_http_connections_delayed_total"),
    bound("requests on one HTTP/2 connection", "server.max_streams", "basalt_http_streams_limit", "-", "the stream is refused (`REFUSED_STREAM`)", "-"),
    bound("head of a request", "server.max_header_bytes", "basalt_http_header_bytes_limit", "-", "431, and the connection is closed (HTTP/2: the stream ends)", "basalt_http_refused_total"),
    bound("headers of a request", "server.max_headers", "basalt_http_headers_limit", "-", "431, and the connection is closed (HTTP/2 counts bytes alone)", "basalt_http_refused_total"),
    bound("target of a request (URL)", "65,534 bytes", "-", "-", "414, and the connection is closed (HTTP/2: the stream is reset)", "basalt_http_refused_total"),
    bound("time without a request, and for its head", "server.idle_timeout", "-", "-", "the connection is closed", "-"),
    bound("one body", "rest.max_body_bytes", "-", "-", "413 (auth: over 1 MiB)", "basalt_http_requests_total"),
    bound("bodies in flight", "server.body_memory", "basalt_http_body_bytes_in_flight_limit", "basalt_http_body_bytes_in_flight", "wait", "basalt_http_refused_total"),
    bound("wait for room among them", "server.body_wait", "basalt_http_body_wait_seconds_limit", "basalt_http_bodies_waiting", "503, `Retry-After: 1` (REST `53000`, auth `unexpected_failure`)", "basalt_http_refused_total"),
    bound("answers in flight", "server.answer_memory", "basalt_http_answer_bytes_in_flight_limit", "basalt_http_answer_bytes_in_flight", "503 `53000` at once, `Retry-After: 1`; answers of writes are let through", "basalt_http_refused_total"),
    bound("one row, one answer", "database.max_row_bytes", "basalt_pool_row_bytes_limit", "basalt_http_answer_bytes_in_flight", "500 `54000`; answers of writes are let through", "basalt_http_requests_total"),
    bound("slowness of clients", "server.stall_timeout", "-", "-", "a body: 408 (REST `PGRST102`, auth `request_timeout`); an answer: the connection is closed (HTTP/2: the stream)", "basalt_http_slow_clients_total"),
    bound("connections to PostgreSQL", "database.pool_size", "basalt_pool_connections_limit", "basalt_pool_connections", "wait", "basalt_pool_timeouts_total"),
    bound("wait for one of them", "database.pool_timeout", "basalt_pool_wait_seconds_limit", "basalt_pool_waiting", "REST: 504 `PGRST003`; auth: 503 `unexpected_failure`, `Retry-After: 1`", "basalt_pool_timeouts_total"),
    bound("requests of one client that wait for one of them", "512", "basalt_pool_waiting_per_client_limit", "basalt_pool_waiting", "503 (REST `53000`, auth `unexpected_failure`, storage `SlowDown`), `Retry-After: 1`", "basalt_pool_refused_total"),
    bound("prepared statements of a connection", "database.statement_cache", "basalt_pool_statements_limit", "basalt_pool_statements", "the least recently used is closed", "basalt_pool_statement_evictions_total"),
    bound("time for a request", "rest.timeout", "-", "-", "504 `57014`, and the statement is cancelled", "basalt_statements_cancelled_total"),
    bound("time for a request to auth", "auth.api_max_request_duration", "-", "-", "504 `request_timeout`", "basalt_http_requests_total"),
    bound("rows of an answer", "rest.max_rows", "-", "-", "the rest is left out, as `Content-Range` tells", "-"),
    bound("kinds of requests that are kept", "1024", "basalt_rest_shapes_limit", "basalt_rest_shapes", "the least recently used are made anew", "basalt_rest_shape_evictions_total"),
    bound("memory of theirs", "rest.shape_cache", "basalt_rest_shape_bytes_limit", "basalt_rest_shape_bytes", "as above", "basalt_rest_shape_evictions_total"),
    bound("bodies and answers of REST over 256 KiB that are read or written as JSON at a time", "1 for each core", "-", "-", "wait", "basalt_http_requests_total"),
    bound("catalog checks for unknown names", "10 % of the time", "-", "-", "what is known counts (REST: 404 `PGRST205` and the like)", "basalt_rest_schema_looks_total"),
    bound("verified tokens", "1000, of 4 KiB at most", "basalt_verified_tokens_limit", "basalt_verified_tokens", "the least recently used are verified anew", "-"),
    bound("password hashes", "auth.password_hash_queue", "basalt_auth_password_hashes_limit", "basalt_auth_password_hashes", "503 `unexpected_failure`, `Retry-After: 1`", "basalt_auth_grants_total"),
    bound("addresses of each rate limit", "16,384", "basalt_auth_rate_limit_addresses_limit", "basalt_auth_rate_limit_addresses", "the one seen longest ago is forgotten", "-"),
    bound("accounts with wrong passwords", "65,536", "basalt_auth_rate_limit_accounts_limit", "basalt_auth_rate_limit_accounts", "the one seen longest ago is forgotten", "-"),
    bound("buffers of uploads", "storage.upload_memory", "basalt_storage_buffer_bytes_limit", "basalt_storage_buffer_bytes", "a folder: smaller writes; S3: wait, after 30 s 503 `SlowDown`", "-"),
    bound("images that are transformed", "16 × storage.images.queue", "basalt_storage_images_limit", "basalt_storage_images", "429 `SlowDown`, `Retry-After: 1`", "basalt_http_requests_total"),
    bound("images of one client that wait to be transformed", "storage.images.queue", "-", "-", "429 `SlowDown`, `Retry-After: 1`; clients take turns", "basalt_http_requests_total"),
    bound("sources of images that are known to fail", "4096", "-", "-", "the least recently used are decoded again", "-"),
    bound("unfinished uploads of a client (TUS; S3: of the last day)", "64", "-", "-", "429 `SlowDown`", "basalt_http_requests_total"),
    bound("transformed images that are kept", "1 GiB", "basalt_storage_image_cache_bytes_limit", "basalt_storage_image_cache_bytes", "the least recently used are removed", "-"),
    bound("sockets that have joined a channel", "realtime.max_concurrent_users", "basalt_realtime_users_limit", "basalt_realtime_sockets", "connecting: 429; joining: `ConnectionRateLimitReached`", "basalt_realtime_joins_total"),
    bound("channels of a socket", "realtime.max_channels_per_client", "-", "basalt_realtime_channels", "`ChannelRateLimitReached`", "basalt_realtime_joins_total"),
    bound("joins", "realtime.max_joins_per_second", "-", "-", "connecting: 429; joining: `ClientJoinRateLimitReached`, and the socket is closed (1001)", "basalt_realtime_joins_total"),
    bound("one payload", "realtime.max_payload_size", "-", "-", "a broadcast: `payload_size_exceeded` or 422; a presence: the channel is closed", "-"),
    bound("one frame of a client", "5,000,000 bytes", "-", "-", "the socket is closed (1009)", "basalt_realtime_sockets_closed_total"),
    bound("frames that are not whole", "256 MiB, beyond 64 KiB each", "-", "basalt_realtime_receiving_bytes", "the socket is closed (1013)", "basalt_realtime_sockets_closed_total"),
    bound("what waits for a socket", "4 MiB, or one message", "-", "basalt_realtime_queued_bytes", "the socket is closed (1013); its client connects anew", "basalt_realtime_sockets_closed_total"),
    bound("presences of a socket, and of a topic", "16 MiB", "-", "-", "`track` is answered with `Too many presences`", "-"),
    bound("presences of this server's channels", "256 MiB", "-", "basalt_realtime_presence_bytes", "`track` is answered with `Too many presences`", "-"),
    bound("presence messages of a channel", "100 in 30 s", "-", "-", "the channel is closed", "-"),
    bound("messages for other servers", "4096", "-", "-", "they are dropped; presence is put right within seconds", "basalt_realtime_bus_dropped_total"),
    bound("mails on their way", "mail.connections", "-", "basalt_mail_waiting", "the next wait in the database", "-"),
    bound("connections to the admin and mailbox ports", "64 each", "-", "-", "as for those of clients", "basalt_http_connections_delayed_total"),
    bound("end of the server", "server.shutdown_timeout", "-", "-", "connections that are left are closed", "-"),
    bound("row changes that wait to be judged", "realtime.change_memory", "basalt_realtime_change_bytes_limit", "basalt_realtime_change_bytes", "channels that listen to the table get `phx_error` and join again", "basalt_realtime_resyncs_total"),
    bound("one row change", "64 MiB", "-", "-", "the stream begins anew behind it, and all channels with row changes join again", "basalt_realtime_resyncs_total"),
];
