//! The metrics, grouped by area.

use basalt_core::metric::Kind::{Counter, Gauge, Histogram};
use basalt_core::metric::Shown::{Always, Happened};
use basalt_core::metric::{Labels, Metric};

const NONE: Labels = &[];
const SERVICE: Labels = &[("service", "rest, auth, storage, realtime, functions")];
const POOL: Labels = &[("pool", "rest, auth, storage, realtime, functions, system, extensions")];
const JOB: Labels = &[("kind", "job")];
const METHOD: Labels = &[("kind", "GET, POST, DELETE")];
const CLIENT_POOL: Labels = &[("pool", "rest, auth, realtime")];
const REQUEST_POOL: Labels = &[("pool", "rest, realtime")];
const BUCKET: Labels =
    &[("bucket", "token, verify, signup, anonymous, recover, resend, magiclink, otp, user")];
const KIND: Labels = &[("kind", "confirmation, invite, magic_link, recovery, …")];

const LEFT_BY: Labels = &[("kind", "row, intent")];

#[rustfmt::skip]
pub(super) static METRICS: &[Metric] = &[
    Metric::new("basalt_build_info", Gauge, &[("version", "of this server")], "1", Always, "The version of the running server.", "Two values across your servers: an upgrade is incomplete."),
    Metric::new("process_start_time_seconds", Gauge, NONE, "seconds", Always, "Start time of the server, as a Unix timestamp.", "Changes without an upgrade: the server was restarted; check its service manager."),
    Metric::new("process_resident_memory_bytes", Gauge, NONE, "bytes", Always, "Resident memory of the server (Linux only), excluding PostgreSQL.", "It grows with bodies and responses in flight and shrinks afterwards. Growth without traffic is a leak: please report it."),

    Metric::new("basalt_http_requests_total", Counter, &[("service", "rest, auth, storage, realtime, functions"), ("status", "1xx, 2xx, 3xx, 4xx, 5xx")], "requests", Always, "Requests answered. Preflights are not counted.", "5xx: the log has an entry with the request id for each. 4xx: a client changed, or requests are being tried by hand."),
    Metric::new("basalt_http_request_duration_seconds", Histogram, SERVICE, "seconds", Happened, "Time from the request headers to the response headers.", "With `basalt_pool_waiting` above 0: slow statements, or a small `database.pool_size`. Without: the server is short of CPU."),
    Metric::new("basalt_http_requests_in_flight", Gauge, NONE, "requests", Always, "Requests that services are processing.", "Near the limit, new requests are rejected. Find out what they wait for before raising `server.max_requests`."),
    Metric::new("basalt_http_requests_in_flight_limit", Gauge, NONE, "requests", Always, "`server.max_requests`.", ""),
    Metric::new("basalt_http_connections", Gauge, NONE, "connections", Always, "Client connections to the public port.", "Near the limit, new connections wait. Lower `server.idle_timeout`, or raise `server.max_connections`."),
    Metric::new("basalt_http_upgraded_connections", Gauge, NONE, "connections", Always, "Connections upgraded to WebSockets, on any port.", "Grows and never shrinks: clients disappear without closing; missed heartbeats close their sockets."),
    Metric::new("basalt_tls_certificate_expiry_seconds", Gauge, NONE, "seconds", Happened, "End of the validity of the certificate in use, as a Unix timestamp. With `server.tls_certificate` or `server.acme_domains`.", "Less than ten days away: it was not renewed; the log says why."),
    Metric::new("basalt_tls_handshake_failures_total", Counter, NONE, "connections", Always, "TLS handshakes that failed, on any port.", "Rises at once for all clients: the certificate has expired, or there is none yet."),
    Metric::new("basalt_http_connections_limit", Gauge, NONE, "connections", Always, "`server.max_connections`, or fewer if the limit on open files requires it.", "Lower than the setting: raise `ulimit -n` or `LimitNOFILE`."),
    Metric::new("basalt_http_connections_delayed_total", Counter, NONE, "connections", Always, "Connections that waited to be accepted, on any port.", "As for `basalt_http_connections`."),
    Metric::new("basalt_http_streams_limit", Gauge, NONE, "requests", Always, "`server.max_streams`: requests in flight on one HTTP/2 connection.", ""),
    Metric::new("basalt_http_header_bytes_limit", Gauge, NONE, "bytes", Always, "`server.max_header_bytes`: the longest head of a request.", ""),
    Metric::new("basalt_http_headers_limit", Gauge, NONE, "headers", Always, "`server.max_headers`: of one HTTP/1.1 request.", ""),
    Metric::new("basalt_http_body_bytes_in_flight", Gauge, NONE, "bytes", Always, "Memory held by large request bodies until PostgreSQL has received them.", "Near the limit, uploads are rejected. Send smaller batches, or raise `server.body_memory`."),
    Metric::new("basalt_http_body_bytes_in_flight_limit", Gauge, NONE, "bytes", Always, "`server.body_memory`.", ""),
    Metric::new("basalt_http_bodies_waiting", Gauge, NONE, "requests", Always, "Requests waiting for memory for their body.", "As for `basalt_http_body_bytes_in_flight`."),
    Metric::new("basalt_http_body_wait_seconds_limit", Gauge, NONE, "seconds", Always, "`server.body_wait`: how long they may wait.", ""),
    Metric::new("basalt_http_answer_bytes_in_flight", Gauge, NONE, "bytes", Always, "Memory held by large responses until clients have received them. It may exceed the limit: responses to writes are never rejected.", "Near the limit, reads are rejected. Clients read slowly, or request too much at once (`rest.max_rows`)."),
    Metric::new("basalt_http_answer_bytes_in_flight_limit", Gauge, NONE, "bytes", Always, "`server.answer_memory`.", ""),
    Metric::new("basalt_http_refused_total", Counter, &[("reason", "max_requests, body_memory, answer_memory, max_header_bytes")], "requests", Always, "Requests rejected because a limit was reached; `reason` names the setting. `max_header_bytes` covers both header limits on HTTP/1.1; on HTTP/2 the library rejects such requests and does not count them.", "max_header_bytes: a client with an oversized URL or cookie. Others: see the gauge of the same limit."),
    Metric::new("basalt_http_slow_clients_total", Counter, &[("what", "body, answer")], "clients", Always, "Clients disconnected because they sent their body or read their response too slowly.", "Bad networks, or an attempt to exhaust memory; your proxy's log has the addresses."),

    Metric::new("basalt_pool_connections", Gauge, POOL, "connections", Always, "Open connections to PostgreSQL.", "At the limit under load: expected."),
    Metric::new("basalt_pool_connections_limit", Gauge, POOL, "connections", Always, "Size of the pool: `database.pool_size`, or a value derived from it.", ""),
    Metric::new("basalt_pool_available", Gauge, POOL, "connections", Always, "Open connections that are not in use.", "0 for long: see `basalt_pool_waiting`."),
    Metric::new("basalt_pool_waiting", Gauge, POOL, "requests", Always, "Requests waiting for a connection.", "Above 0 for long: statements are slow (`pg_stat_activity`), or the pool is too small for the CPUs PostgreSQL has."),
    Metric::new("basalt_pool_waiting_clients", Gauge, POOL, "clients", Always, "Clients with requests waiting for a connection: users, and anonymous callers by role and network.", "1 while many requests wait: one client sends more than its share; others are still served."),
    Metric::new("basalt_pool_waiting_per_client_limit", Gauge, CLIENT_POOL, "requests", Always, "Requests of one client that may wait.", ""),
    Metric::new("basalt_pool_refused_total", Counter, POOL, "requests", Always, "Requests rejected because their client already had that many waiting.", "One client sends far more requests than it can be served; the access log has its address."),
    Metric::new("basalt_pool_wait_seconds_limit", Gauge, POOL, "seconds", Always, "`database.pool_timeout`: how long requests may wait.", ""),
    Metric::new("basalt_pool_timeouts_total", Counter, POOL, "requests", Always, "Requests rejected after waiting that long.", "As for `basalt_pool_waiting`."),
    Metric::new("basalt_pool_statements", Gauge, REQUEST_POOL, "statements", Always, "Prepared statements kept by all connections of the pool.", "Each uses memory in PostgreSQL."),
    Metric::new("basalt_pool_statements_limit", Gauge, REQUEST_POOL, "statements", Always, "`database.statement_cache`: the limit per connection. Multiply by `basalt_pool_connections` for the pool's maximum.", ""),
    Metric::new("basalt_pool_statement_lookups_total", Counter, &[("pool", "rest, realtime"), ("result", "hit, miss")], "statements", Always, "Statements run, by whether they were already prepared.", "Many misses after the first minutes: more distinct statements than `database.statement_cache` holds."),
    Metric::new("basalt_pool_statement_evictions_total", Counter, REQUEST_POOL, "statements", Always, "Prepared statements closed because the cache was full.", "Grows steadily: raise `database.statement_cache` if PostgreSQL has the memory."),
    Metric::new("basalt_pool_row_bytes_limit", Gauge, REQUEST_POOL, "bytes", Always, "`database.max_row_bytes`: the largest row, or response body.", ""),
    Metric::new("basalt_statements_cancelled_total", Counter, NONE, "statements", Happened, "Statements cancelled in PostgreSQL: the client disconnected, or the deadline passed.", "Clients with short timeouts, or slow statements."),
    Metric::new("basalt_transactions_repeated_total", Counter, &[("reason", "connection, stale, catalog, deadlock, login")], "transactions", Happened, "Uncommitted transactions that were retried. `connection`: lost before the transaction began; `stale`: a schema change invalidated a prepared statement; `catalog`: a schema change invalidated a cached plan; `deadlock`: a read was the deadlock victim; `login`: SET ROLE failed, perhaps because the role was recreated.", "connection: PostgreSQL or the network between restarts. login: tokens whose role the login was not granted. The others are normal during migrations."),

    Metric::new("basalt_rest_schema_cache_loads_total", Counter, &[("result", "ok, failed")], "loads", Happened, "Loads of the schema cache.", "failed: the log has the reason, and the old cache stays in use. Many ok: something changes the schema constantly."),
    Metric::new("basalt_rest_schema_cache_load_duration_seconds", Histogram, NONE, "seconds", Happened, "Duration of a schema cache load.", "Grows with the number of tables; requests are served during a load."),
    Metric::new("basalt_rest_schema_looks_total", Counter, &[("result", "ok, failed, refused")], "checks", Happened, "Checks for catalog changes, which unknown names trigger.", "Clients use misspelled names. refused: the limit on checks was reached; such requests are answered from the cache."),
    Metric::new("basalt_rest_schema_cache_relations", Gauge, NONE, "relations", Happened, "Tables and views in the schema cache.", "Fewer than expected: check `rest.schemas`."),
    Metric::new("basalt_rest_shapes", Gauge, NONE, "shapes", Always, "Request shapes whose plan and statements are cached.", ""),
    Metric::new("basalt_rest_shapes_limit", Gauge, NONE, "shapes", Always, "The limit on cached shapes.", ""),
    Metric::new("basalt_rest_shape_bytes", Gauge, NONE, "bytes", Always, "Approximate memory used by cached shapes.", ""),
    Metric::new("basalt_rest_shape_bytes_limit", Gauge, NONE, "bytes", Always, "`rest.shape_cache`.", ""),
    Metric::new("basalt_rest_shape_lookups_total", Counter, &[("result", "hit, miss")], "requests", Always, "Requests, by whether their shape was cached.", "Many misses: clients vary their requests; this costs CPU time only."),
    Metric::new("basalt_rest_shape_evictions_total", Counter, NONE, "shapes", Always, "Shapes evicted because the cache was full.", "Grows steadily: raise `rest.shape_cache`."),
    Metric::new("basalt_verified_tokens", Gauge, NONE, "tokens", Always, "Cached tokens whose signature is already verified.", ""),
    Metric::new("basalt_verified_tokens_limit", Gauge, NONE, "tokens", Always, "The limit on cached tokens.", ""),

    Metric::new("basalt_auth_grants_total", Counter, &[("grant", "password, refresh_token, pkce"), ("outcome", "ok, or the error code")], "requests", Happened, "Requests for tokens.", "Many `invalid_credentials`: an attempt to guess passwords."),
    Metric::new("basalt_auth_verifications_total", Counter, &[("type", "signup, recovery, magiclink, …"), ("outcome", "ok, or the error code")], "requests", Happened, "Codes and links submitted for verification.", "Many `otp_expired`: mail arrives late, or scanners open the links (`auth.mailer_confirm_links`)."),
    Metric::new("basalt_auth_codes_died_total", Counter, NONE, "codes", Happened, "Codes invalidated after too many wrong guesses.", "An attempt to guess codes."),
    Metric::new("basalt_auth_refresh_reuse_total", Counter, NONE, "sessions", Happened, "Sessions ended because an old refresh token was reused.", "A stolen token, or a client that keeps two copies of its session."),
    Metric::new("basalt_auth_rate_limited_total", Counter, &[("bucket", "those below, account, email_sent")], "requests", Happened, "Requests refused with 429.", "account: wrong passwords for one account. email_sent: `auth.rate_limit_email_sent`. Others: one address sends too many requests; behind a proxy, set `server.trusted_proxies`."),
    Metric::new("basalt_auth_rate_limit_addresses", Gauge, BUCKET, "addresses", Always, "Addresses tracked by a rate limit.", "At the limit: requests from very many addresses."),
    Metric::new("basalt_auth_rate_limit_addresses_limit", Gauge, BUCKET, "addresses", Always, "The limit on tracked addresses.", ""),
    Metric::new("basalt_auth_rate_limit_accounts", Gauge, NONE, "accounts", Always, "Accounts tracked because of wrong passwords.", "Grows fast: an attempt to guess passwords of many accounts."),
    Metric::new("basalt_auth_rate_limit_accounts_limit", Gauge, NONE, "accounts", Always, "The limit on tracked accounts.", ""),
    Metric::new("basalt_auth_password_hashes", Gauge, NONE, "hashes", Always, "Password hashes being computed or queued.", "Near the limit, sign-ins are rejected. Add CPUs, or use a cheaper hash (`auth.password_argon2_memory`)."),
    Metric::new("basalt_auth_password_hashes_limit", Gauge, NONE, "hashes", Always, "`auth.password_hash_concurrency` and `auth.password_hash_queue` together.", ""),
    Metric::new("basalt_auth_password_hash_seconds", Histogram, NONE, "seconds", Happened, "Time to compute one hash, excluding the time in the queue.", "The server is short of CPU."),
    Metric::new("basalt_auth_rehashed_total", Counter, NONE, "passwords", Happened, "Imported or outdated hashes replaced at sign-in.", ""),
    Metric::new("basalt_auth_breach_list_failures_total", Counter, NONE, "requests", Happened, "Failed requests to the service that lists breached passwords.", "Check `auth.password_hibp_url` and the network."),
    Metric::new("basalt_auth_cleaned_up_total", Counter, &[("table", "of the schema auth")], "rows", Happened, "Expired rows removed.", ""),
    Metric::new("basalt_auth_cleanup_failures_total", Counter, NONE, "clean-ups", Happened, "Clean-ups that failed.", "The log has the reason. Until it is fixed, tables in schema auth keep growing."),

    Metric::new("basalt_storage_buffer_bytes", Gauge, NONE, "bytes", Happened, "Memory that uploads use to buffer data on its way to disk or S3. Buffers up to 64 KiB are not counted.", "Near the limit, S3 uploads wait and file uploads are written in smaller pieces. Raise `storage.upload_memory`."),
    Metric::new("basalt_storage_buffer_bytes_limit", Gauge, NONE, "bytes", Happened, "`storage.upload_memory`.", ""),
    Metric::new("basalt_storage_images", Gauge, NONE, "images", Happened, "Images being transformed or queued.", "Near the limit, image requests are rejected: add CPUs, or upload smaller sources."),
    Metric::new("basalt_storage_images_limit", Gauge, NONE, "images", Happened, "Sixteen times `storage.images.queue`, plus the number of transformation threads.", ""),
    Metric::new("basalt_storage_image_seconds", Histogram, NONE, "seconds", Happened, "Time to transform one image, excluding the time in the queue.", "Sources are large: shrink images before uploading them."),
    Metric::new("basalt_storage_image_cache_bytes", Gauge, NONE, "bytes", Happened, "Size of the transformed images cached on disk; reported after the first request for one.", "At the limit, the least recently used images are removed."),
    Metric::new("basalt_storage_image_cache_bytes_limit", Gauge, NONE, "bytes", Happened, "1 GiB.", ""),
    Metric::new("basalt_storage_image_cache_lookups_total", Counter, &[("outcome", "hit, miss")], "lookups", Happened, "Lookups in the image cache. A queued request looks twice.", "Many misses at the limit: clients request too many sizes."),

    Metric::new("basalt_storage_blobs_deleted_total", Counter, LEFT_BY, "blobs", Happened, "Blobs deleted because their row is gone or their upload never finished.", ""),
    Metric::new("basalt_storage_blob_deletions_failed_total", Counter, LEFT_BY, "attempts", Happened, "Failed attempts to delete a blob.", "The log has the reason."),
    Metric::new("basalt_storage_blob_deletions_given_up_total", Counter, LEFT_BY, "blobs", Happened, "Deletions abandoned after more than a day of retries.", "As above. `basalt storage gc` deletes the remaining blobs."),
    Metric::new("basalt_storage_blob_deletions_waiting", Gauge, NONE, "blobs", Happened, "Blobs waiting to be deleted; each waits at least five minutes.", "Grows for hours: the disk or S3 is slow or unavailable."),
    Metric::new("basalt_storage_blob_deletions_given_up", Gauge, NONE, "blobs", Happened, "Blobs whose deletion was abandoned.", "As for `basalt_storage_blob_deletions_given_up_total`."),

    Metric::new("basalt_functions_requests_total", Counter, &[("function", "as registered"), ("status", "2xx, 3xx, 4xx, 5xx")], "requests", Happened, "Calls of each function.", "5xx: the log has an entry with the function's name for each."),
    Metric::new("basalt_functions_duration_seconds", Histogram, &[("function", "as registered")], "seconds", Happened, "Time from the call of a function to its response headers.", "Functions that call another server include its response time."),
    Metric::new("basalt_functions_refused_total", Counter, &[("function", "as registered")], "requests", Happened, "Calls rejected with 401, for functions that check tokens.", "Clients call without a key, or with an expired token."),
    Metric::new("basalt_functions_cold_start_seconds", Histogram, &[("function", "as registered")], "seconds", Happened, "Time from the start of a worker process until it accepts requests.", "Rises: the machine is short of CPU, or functions import more."),
    Metric::new("basalt_functions_queue_seconds", Histogram, &[("function", "as registered")], "seconds", Happened, "Time a request waited for a worker, including its start.", "Rises without cold starts: workers are busy; raise `functions.workers_per_function` or `functions.max_workers`."),
    Metric::new("basalt_functions_workers", Gauge, &[("function", "as registered")], "processes", Happened, "Worker processes of each function.", "The sum is at most `functions.max_workers`."),
    Metric::new("basalt_functions_worker_ends_total", Counter, &[("function", "as registered"), ("cause", "retired, crash, memory, cpu, wall_clock")], "processes", Happened, "Ended worker processes.", "Other causes than `retired`: the log has an entry for each."),
    Metric::new("basalt_functions_worker_memory_bytes", Gauge, &[("function", "as registered")], "bytes", Happened, "Resident memory of the workers of each function.", "Compare with `functions.memory_mb` for each worker."),
    Metric::new("basalt_functions_worker_cpu_milliseconds_total", Counter, &[("function", "as registered")], "milliseconds", Happened, "Processor time used by workers.", ""),
    Metric::new("basalt_functions_dropped_messages_total", Counter, &[("function", "as registered")], "messages", Happened, "Messages of functions that were not logged, because a worker may log 100 in 10 s.", "Log less."),

    Metric::new("basalt_mail_queued_total", Counter, KIND, "mails", Happened, "Mails queued for sending, or stored in the development mailbox.", ""),
    Metric::new("basalt_mail_sent_total", Counter, KIND, "mails", Happened, "Mails accepted by the mail server.", ""),
    Metric::new("basalt_mail_failed_total", Counter, KIND, "mails", Happened, "Failed attempts to send.", "The log has the mail server's reply."),
    Metric::new("basalt_mail_dead_total", Counter, KIND, "mails", Happened, "Mails abandoned after the last attempt.", "As above. `basalt mail list` shows them for the time of `mail.retention`; `basalt mail retry` sends them again."),
    Metric::new("basalt_mail_dropped_total", Counter, KIND, "mails", Happened, "Mails not sent because no mail server is configured.", "Set `mail.smtp_url` and `mail.from`."),
    Metric::new("basalt_mail_waiting", Gauge, NONE, "mails", Happened, "Mails waiting to be sent, if a mail server is configured.", "The mail server is slow or unavailable, or `mail.connections` is too low."),
    Metric::new("basalt_mail_dead", Gauge, NONE, "mails", Happened, "Abandoned mails that are still stored.", "As for `basalt_mail_dead_total`."),

    Metric::new("basalt_realtime_sockets", Gauge, NONE, "sockets", Always, "Open sockets of realtime clients.", "Sockets without a channel are closed after ten minutes."),
    Metric::new("basalt_realtime_users_limit", Gauge, NONE, "sockets", Always, "`realtime.max_concurrent_users`: sockets that have joined a channel.", ""),
    Metric::new("basalt_realtime_channels", Gauge, NONE, "channels", Always, "Joined channels of all sockets.", "Many per socket: a client joins channels and never leaves them."),
    Metric::new("basalt_realtime_joins_total", Counter, &[("outcome", "ok, or the error code")], "joins", Happened, "Joins answered.", "Unauthorized: policies on `realtime.messages` deny access. ClientJoinRateLimitReached: raise `realtime.max_joins_per_second`, or find the client that causes it."),
    Metric::new("basalt_realtime_renewals_total", Counter, &[("outcome", "kept, lost, failed")], "renewals", Happened, "Re-evaluations of the policies on `realtime.messages` for a joined private channel.", "failed: the database did not answer, or the pool of realtime is exhausted; clients join again. lost: the user's access was removed."),
    Metric::new("basalt_realtime_broadcasts_total", Counter, &[("source", "socket, http, database, bus")], "messages", Always, "Broadcasts, by source.", ""),
    Metric::new("basalt_realtime_deliveries_total", Counter, NONE, "messages", Always, "Broadcasts and row changes delivered to channels.", "Divided by broadcasts: the number of receivers per broadcast."),
    Metric::new("basalt_realtime_presences", Gauge, NONE, "channels", Always, "Channels that track presence, on all servers of the bus.", ""),
    Metric::new("basalt_realtime_presence_bytes", Gauge, NONE, "bytes", Always, "Memory used by presences of this server's channels.", "Near 256 MiB: clients track large states; further ones are rejected."),
    Metric::new("basalt_realtime_queued_bytes", Gauge, NONE, "bytes", Always, "Outgoing data that clients have not read yet. A broadcast counts once per receiver, though it is in memory only once.", "Grows: clients are slow, or the network is."),
    Metric::new("basalt_realtime_receiving_bytes", Gauge, NONE, "bytes", Always, "Memory held by partially received messages, beyond 64 KiB each.", "Near 256 MiB: clients send large messages slowly; further sockets are closed (1013)."),
    Metric::new("basalt_realtime_malformed_frames_total", Counter, NONE, "frames", Always, "Frames dropped because they are not valid messages.", "A client uses another protocol."),
    Metric::new("basalt_realtime_sockets_closed_total", Counter, &[("reason", "client, restart, idle, no_channel, joins, overflow, frame_size, protocol, busy")], "sockets", Happened, "Closed sockets, by reason.", "overflow: clients read more slowly than data arrives; they reconnect by themselves. idle: connections died without being closed."),
    Metric::new("basalt_realtime_bus_connected", Gauge, NONE, "connections", Always, "1 while connected to NATS; 0 otherwise, and without `realtime.nats_url`.", "0: clients of other servers receive nothing from this one until the connection is restored."),
    Metric::new("basalt_realtime_bus_nodes", Gauge, NONE, "servers", Always, "Other servers seen on the bus within the last few seconds.", "Fewer than expected: check NATS, and `realtime.nats_url` of the others."),
    Metric::new("basalt_realtime_bus_dropped_total", Counter, NONE, "messages", Always, "Messages for other servers dropped because NATS was unavailable or slow.", "As for `basalt_realtime_bus_connected`."),

    Metric::new("basalt_realtime_changes_received_total", Counter, NONE, "changes", Happened, "Row changes of published tables received from PostgreSQL, whether or not a client subscribes to them.", "Far above those batched: publish fewer tables."),
    Metric::new("basalt_realtime_changes_batched_total", Counter, NONE, "changes", Happened, "Row changes of tables that clients subscribe to.", "Divided by batches: the average batch size, which rises with load."),
    Metric::new("basalt_realtime_change_batches_total", Counter, NONE, "batches", Happened, "Batches in which policies are evaluated for row changes.", ""),
    Metric::new("basalt_realtime_changes_matched_total", Counter, NONE, "matches", Happened, "Bindings matched by a change, before policies are evaluated.", "Far above those delivered: clients subscribe to whole tables but may see few rows. Filters are cheaper."),
    Metric::new("basalt_realtime_changes_delivered_total", Counter, NONE, "changes", Happened, "Changes delivered to channels that may see them.", ""),
    Metric::new("basalt_realtime_visibility_seconds", Histogram, NONE, "seconds", Happened, "Time PostgreSQL takes to evaluate policies for one batch and one role.", "Long: policies lack an index."),
    Metric::new("basalt_realtime_subscriptions", Gauge, NONE, "channels", Happened, "Channels subscribed to row changes.", ""),
    Metric::new("basalt_realtime_change_bytes", Gauge, NONE, "bytes", Happened, "Size of row changes waiting for policy evaluation.", "Near the limit: policies are too slow for the rate of changes."),
    Metric::new("basalt_realtime_change_bytes_aside", Gauge, NONE, "bytes", Happened, "Size of row changes held back because an earlier change of the channel is undecided, or evaluated separately for a subscriber that exceeded its time budget.", "Near a quarter of `realtime.change_memory`: policies or filters of individual users are too slow."),
    Metric::new("basalt_realtime_change_bytes_limit", Gauge, NONE, "bytes", Always, "`realtime.change_memory`.", ""),
    Metric::new("basalt_realtime_slot_lag_bytes", Gauge, NONE, "bytes", Happened, "Write-ahead log retained by the replication slot, checked every 30 seconds.", "A long transaction, or a server that cannot keep up. Beyond `max_slot_wal_keep_size` PostgreSQL invalidates the slot, and clients rejoin."),
    Metric::new("basalt_realtime_resyncs_total", Counter, &[("reason", "stream, queue, database, policy, order, definition")], "times", Happened, "Times that channels were closed and had to rejoin because changes were missed.", "stream: the connection or the slot was lost; queue: raise `realtime.change_memory`, or make policies faster; database: it did not respond; policy: policies or filters of individual users are too slow; order: a channel held too many changes behind an undecided one; definition: a filtered column changed its type."),

    Metric::new("basalt_cron_runs_total", Counter, JOB, "runs", Happened, "Runs of cron jobs that ended, successful or not (`cron.job_run_details` tells).", ""),
    Metric::new("basalt_cron_runs_failed_total", Counter, JOB, "runs", Happened, "Runs of cron jobs that could not be made or recorded.", "The log has the reason: usually the database was unreachable."),
    Metric::new("basalt_cron_runs_lost_total", Counter, JOB, "runs", Happened, "Runs of cron jobs that were lost, for example because their server was killed. The job runs again at its next time.", "As above."),
    Metric::new("basalt_cron_jobs", Gauge, NONE, "jobs", Happened, "Active cron jobs.", ""),
    Metric::new("basalt_cron_jobs_unplanned", Gauge, NONE, "jobs", Happened, "Cron jobs without a next time.", "Above 0 for long: a schedule names a date that does not exist."),
    Metric::new("basalt_net_requests_total", Counter, METHOD, "requests", Happened, "Requests of `net.http_…` and database webhooks that ended, with a response or an error.", ""),
    Metric::new("basalt_net_recordings_failed_total", Counter, METHOD, "requests", Happened, "Responses that could not be recorded at once.", "The database was unreachable."),
    Metric::new("basalt_net_recordings_lost_total", Counter, METHOD, "requests", Happened, "Requests whose response was never recorded.", "As above."),
    Metric::new("basalt_net_requests_waiting", Gauge, NONE, "requests", Happened, "Requests queued or being sent.", "Grows: a host does not respond, or a trigger sends faster than the hosts answer. Raise `extensions.net_concurrency`."),
    Metric::new("basalt_net_requests_dead", Gauge, NONE, "requests", Happened, "Requests that were given up, kept for `extensions.net_retention`.", ""),
];
