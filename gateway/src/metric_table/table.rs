//! The metrics, by what they are about.

use basalt_core::metric::Kind::{Counter, Gauge, Histogram};
use basalt_core::metric::Shown::{Always, Happened};
use basalt_core::metric::{Labels, Metric};

const NONE: Labels = &[];
const SERVICE: Labels = &[("service", "rest, auth, storage, realtime, functions")];
const POOL: Labels = &[("pool", "rest, auth, storage, realtime, functions, system")];
const CLIENT_POOL: Labels = &[("pool", "rest, auth, realtime")];
const REQUEST_POOL: Labels = &[("pool", "rest, realtime")];
const BUCKET: Labels =
    &[("bucket", "token, verify, signup, anonymous, recover, resend, magiclink, otp, user")];
const KIND: Labels = &[("kind", "confirmation, invite, magic_link, recovery, …")];

const LEFT_BY: Labels = &[("kind", "row, intent")];

/// All of them.
#[rustfmt::skip]
pub(super) static METRICS: &[Metric] = &[
    Metric::new("basalt_build_info", Gauge, &[("version", "of this server")], "1", Always, "Which version runs.", "Two values among your servers: an upgrade is half done."),
    Metric::new("process_start_time_seconds", Gauge, NONE, "seconds", Always, "When the server started, since 1970.", "Changes without an upgrade: it was killed; ask what runs it."),
    Metric::new("process_resident_memory_bytes", Gauge, NONE, "bytes", Always, "Memory of the server (on Linux), without PostgreSQL's.", "Grows with bodies and answers in flight, and shrinks after them. Without any: a leak, tell us."),

    Metric::new("basalt_http_requests_total", Counter, &[("service", "rest, auth, storage, realtime, functions"), ("status", "1xx, 2xx, 3xx, 4xx, 5xx")], "requests", Always, "Requests answered. Preflights are not counted.", "5xx: the log tells of each with its request id. 4xx: a client changed, or a person tries requests by hand."),
    Metric::new("basalt_http_request_duration_seconds", Histogram, SERVICE, "seconds", Happened, "From the head of a request to the head of its answer.", "With `basalt_pool_waiting` above 0: slow statements, or a small `database.pool_size`. Without: processors are short."),
    Metric::new("basalt_http_requests_in_flight", Gauge, NONE, "requests", Always, "Requests of services being answered.", "Near its limit, the next are refused. Look for what they wait for before you raise `server.max_requests`."),
    Metric::new("basalt_http_requests_in_flight_limit", Gauge, NONE, "requests", Always, "`server.max_requests`.", ""),
    Metric::new("basalt_http_connections", Gauge, NONE, "connections", Always, "Connections of clients to the public port.", "Near its limit, newcomers wait. Lower `server.idle_timeout`, or raise `server.max_connections`."),
    Metric::new("basalt_http_upgraded_connections", Gauge, NONE, "connections", Always, "Those of them that became websockets; on any port.", "Grows and never shrinks: clients leave without a word; the service's heartbeat ends them."),
    Metric::new("basalt_http_connections_limit", Gauge, NONE, "connections", Always, "`server.max_connections`, or what the system's limit of open files leaves of them.", "Lower than the setting: raise `ulimit -n` or `LimitNOFILE`."),
    Metric::new("basalt_http_connections_delayed_total", Counter, NONE, "connections", Always, "Connections that waited to be accepted, on any port.", "As for `basalt_http_connections`."),
    Metric::new("basalt_http_streams_limit", Gauge, NONE, "requests", Always, "`server.max_streams`: requests in flight on one HTTP/2 connection.", ""),
    Metric::new("basalt_http_header_bytes_limit", Gauge, NONE, "bytes", Always, "`server.max_header_bytes`: the longest head of a request.", ""),
    Metric::new("basalt_http_headers_limit", Gauge, NONE, "headers", Always, "`server.max_headers`: of one HTTP/1.1 request.", ""),
    Metric::new("basalt_http_body_bytes_in_flight", Gauge, NONE, "bytes", Always, "What large bodies of requests hold until PostgreSQL has them.", "Near its limit, uploads are refused. Smaller batches, or more `server.body_memory`."),
    Metric::new("basalt_http_body_bytes_in_flight_limit", Gauge, NONE, "bytes", Always, "`server.body_memory`.", ""),
    Metric::new("basalt_http_bodies_waiting", Gauge, NONE, "requests", Always, "Requests that wait for room for their body.", "As for `basalt_http_body_bytes_in_flight`."),
    Metric::new("basalt_http_body_wait_seconds_limit", Gauge, NONE, "seconds", Always, "`server.body_wait`: how long they may.", ""),
    Metric::new("basalt_http_answer_bytes_in_flight", Gauge, NONE, "bytes", Always, "What large answers hold until their clients have them. May pass the limit: answers of writes are never refused.", "Near its limit, reads are refused. Clients read slowly, or ask for too much at once (`rest.max_rows`)."),
    Metric::new("basalt_http_answer_bytes_in_flight_limit", Gauge, NONE, "bytes", Always, "`server.answer_memory`.", ""),
    Metric::new("basalt_http_refused_total", Counter, &[("reason", "max_requests, body_memory, answer_memory, max_header_bytes")], "requests", Always, "Requests refused for want of room; the reason is the setting. Heads are counted on HTTP/1.1, whether bytes or headers were too many; on HTTP/2 the library refuses them uncounted.", "max_header_bytes: a client with an endless URL or cookie. Others: see the gauge of the same bound."),
    Metric::new("basalt_http_slow_clients_total", Counter, &[("what", "body, answer")], "clients", Always, "Clients given up because they did not send their body, or not take their answer.", "Bad networks, or an attempt to exhaust memory: your proxy's log has the addresses."),

    Metric::new("basalt_pool_connections", Gauge, POOL, "connections", Always, "Open connections to PostgreSQL.", "At its limit under load: that is what a pool is for."),
    Metric::new("basalt_pool_connections_limit", Gauge, POOL, "connections", Always, "The most of them: `database.pool_size`, and what follows from it.", ""),
    Metric::new("basalt_pool_available", Gauge, POOL, "connections", Always, "Those that are open and not in use.", "0 for long: see `basalt_pool_waiting`."),
    Metric::new("basalt_pool_waiting", Gauge, POOL, "requests", Always, "Requests that wait for a connection.", "Above 0 for long: statements are slow (`pg_stat_activity`), or the pool is too small for PostgreSQL's processors."),
    Metric::new("basalt_pool_waiting_clients", Gauge, POOL, "clients", Always, "Clients with requests that wait for a connection: users, and visitors by role and network.", "1 while many requests wait: one client sends more than its share; the others are served meanwhile."),
    Metric::new("basalt_pool_waiting_per_client_limit", Gauge, CLIENT_POOL, "requests", Always, "Requests of one client that may wait.", ""),
    Metric::new("basalt_pool_refused_total", Counter, POOL, "requests", Always, "Requests refused because their client had that many waiting.", "One client sends far more than it waits for; the access log has its address."),
    Metric::new("basalt_pool_wait_seconds_limit", Gauge, POOL, "seconds", Always, "`database.pool_timeout`: how long they may.", ""),
    Metric::new("basalt_pool_timeouts_total", Counter, POOL, "requests", Always, "Requests refused after waiting as long as they may.", "As for `basalt_pool_waiting`."),
    Metric::new("basalt_pool_statements", Gauge, REQUEST_POOL, "statements", Always, "Prepared statements that all connections of the pool keep together.", "Each takes memory of PostgreSQL's."),
    Metric::new("basalt_pool_statements_limit", Gauge, REQUEST_POOL, "statements", Always, "`database.statement_cache`: of one connection. Times `basalt_pool_connections` is the most there can be.", ""),
    Metric::new("basalt_pool_statement_lookups_total", Counter, &[("pool", "rest, realtime"), ("result", "hit, miss")], "statements", Always, "Statements run, prepared already or prepared for it.", "Many misses after the first minutes: more kinds of requests than `database.statement_cache` holds."),
    Metric::new("basalt_pool_statement_evictions_total", Counter, REQUEST_POOL, "statements", Always, "Prepared statements closed because there were too many.", "Grows steadily: raise `database.statement_cache`, where PostgreSQL has the memory."),
    Metric::new("basalt_pool_row_bytes_limit", Gauge, REQUEST_POOL, "bytes", Always, "`database.max_row_bytes`: the largest row, or body of an answer.", ""),
    Metric::new("basalt_statements_cancelled_total", Counter, NONE, "statements", Happened, "Statements cancelled in PostgreSQL: their client left, or their deadline passed.", "Clients with short timeouts, or slow statements."),
    Metric::new("basalt_transactions_repeated_total", Counter, &[("reason", "connection, stale, catalog, deadlock, login")], "transactions", Happened, "Transactions run again, of which nothing was committed: the connection was lost before they began, a prepared statement was outrun by a change of the schema, one of PostgreSQL's plans was, a read ended a deadlock, or a role was refused that the login may have had before it was made anew.", "connection: PostgreSQL or the network between restarts. login: tokens whose role the login was not granted. The others come with migrations."),

    Metric::new("basalt_rest_schema_cache_loads_total", Counter, &[("result", "ok, failed")], "loads", Happened, "Loads of the schema cache.", "failed: the log says why, and the old cache stays in force. Many ok: something changes the schema all the time."),
    Metric::new("basalt_rest_schema_cache_load_duration_seconds", Histogram, NONE, "seconds", Happened, "How long a load took.", "Grows with the number of tables; requests are served meanwhile."),
    Metric::new("basalt_rest_schema_looks_total", Counter, &[("result", "ok, failed, refused")], "checks", Happened, "Checks for catalog changes, which unknown names trigger.", "Clients with misspelled names. refused: there have been too many; such requests are answered by what is known."),
    Metric::new("basalt_rest_schema_cache_relations", Gauge, NONE, "relations", Happened, "Tables and views that are known.", "Fewer than you have: see `rest.schemas`."),
    Metric::new("basalt_rest_shapes", Gauge, NONE, "shapes", Always, "Kinds of requests whose plan and statements are kept.", ""),
    Metric::new("basalt_rest_shapes_limit", Gauge, NONE, "shapes", Always, "The most there may be.", ""),
    Metric::new("basalt_rest_shape_bytes", Gauge, NONE, "bytes", Always, "Memory they take, about.", ""),
    Metric::new("basalt_rest_shape_bytes_limit", Gauge, NONE, "bytes", Always, "`rest.shape_cache`.", ""),
    Metric::new("basalt_rest_shape_lookups_total", Counter, &[("result", "hit, miss")], "requests", Always, "Requests of a kind that was known, or was not.", "Many misses: clients write requests in ever new ways, which costs processor time and nothing else."),
    Metric::new("basalt_rest_shape_evictions_total", Counter, NONE, "shapes", Always, "Kinds that went because there were too many.", "Grows steadily: raise `rest.shape_cache`."),
    Metric::new("basalt_verified_tokens", Gauge, NONE, "tokens", Always, "Tokens whose signature need not be checked again.", ""),
    Metric::new("basalt_verified_tokens_limit", Gauge, NONE, "tokens", Always, "The most that are remembered.", ""),

    Metric::new("basalt_auth_grants_total", Counter, &[("grant", "password, refresh_token, pkce"), ("outcome", "ok, or the error code")], "requests", Happened, "Requests for tokens.", "Many `invalid_credentials`: an attempt to guess passwords."),
    Metric::new("basalt_auth_verifications_total", Counter, &[("type", "signup, recovery, magiclink, …"), ("outcome", "ok, or the error code")], "requests", Happened, "Codes and links given back.", "Many `otp_expired`: mails come late, or scanners open links (`auth.mailer_confirm_links`)."),
    Metric::new("basalt_auth_codes_died_total", Counter, NONE, "codes", Happened, "Codes that died of wrong guesses.", "An attempt to guess codes."),
    Metric::new("basalt_auth_refresh_reuse_total", Counter, NONE, "sessions", Happened, "Sessions ended because an old refresh token came back late.", "A stolen token, or a client that keeps two copies of its session."),
    Metric::new("basalt_auth_rate_limited_total", Counter, &[("bucket", "those below, account, email_sent")], "requests", Happened, "Requests refused with 429.", "account: wrong passwords for one account. email_sent: `auth.rate_limit_email_sent`. Others: an address asks too often; behind a proxy, set `server.trusted_proxies`."),
    Metric::new("basalt_auth_rate_limit_addresses", Gauge, BUCKET, "addresses", Always, "Addresses that a limit remembers.", "At its limit: requests from very many addresses."),
    Metric::new("basalt_auth_rate_limit_addresses_limit", Gauge, BUCKET, "addresses", Always, "The most that it remembers.", ""),
    Metric::new("basalt_auth_rate_limit_accounts", Gauge, NONE, "accounts", Always, "Accounts with wrong passwords that are remembered.", "Grows fast: an attempt to guess passwords of many accounts."),
    Metric::new("basalt_auth_rate_limit_accounts_limit", Gauge, NONE, "accounts", Always, "The most that are.", ""),
    Metric::new("basalt_auth_password_hashes", Gauge, NONE, "hashes", Always, "Password hashes being computed or waiting for it.", "Near its limit, sign-ins are refused. More processors, or a cheaper hash (`auth.password_argon2_memory`)."),
    Metric::new("basalt_auth_password_hashes_limit", Gauge, NONE, "hashes", Always, "`auth.password_hash_concurrency` and `auth.password_hash_queue` together.", ""),
    Metric::new("basalt_auth_password_hash_seconds", Histogram, NONE, "seconds", Happened, "How long computing one took, without the wait.", "Processors are short."),
    Metric::new("basalt_auth_rehashed_total", Counter, NONE, "passwords", Happened, "Imported or outdated hashes replaced at sign-in.", ""),
    Metric::new("basalt_auth_breach_list_failures_total", Counter, NONE, "requests", Happened, "Times that the list of breached passwords did not answer.", "Look at `auth.password_hibp_url` and the way there."),
    Metric::new("basalt_auth_cleaned_up_total", Counter, &[("table", "of the schema auth")], "rows", Happened, "Expired rows removed.", ""),
    Metric::new("basalt_auth_cleanup_failures_total", Counter, NONE, "clean-ups", Happened, "Clean-ups that did not come to their end.", "The log says why; the tables of the schema auth grow meanwhile."),

    Metric::new("basalt_storage_buffer_bytes", Gauge, NONE, "bytes", Happened, "What uploads buffer on their way to the disk or to S3. Buffers up to 64 KiB are not counted.", "Near its limit: with S3, uploads wait; with a folder, they are written in smaller pieces. Raise `storage.upload_memory`."),
    Metric::new("basalt_storage_buffer_bytes_limit", Gauge, NONE, "bytes", Happened, "`storage.upload_memory`.", ""),
    Metric::new("basalt_storage_images", Gauge, NONE, "images", Happened, "Images being transformed or waiting for it.", "Near its limit, requests for images are refused: more processors, or smaller sources."),
    Metric::new("basalt_storage_images_limit", Gauge, NONE, "images", Happened, "Sixteen times `storage.images.queue`, and the threads that transform.", ""),
    Metric::new("basalt_storage_image_seconds", Histogram, NONE, "seconds", Happened, "How long transforming one took, without the wait.", "Sources are large: shrink pictures before you upload them."),
    Metric::new("basalt_storage_image_cache_bytes", Gauge, NONE, "bytes", Happened, "What the images take that were transformed and are kept on disk, since the first was asked for.", "At its limit: the least recently used go."),
    Metric::new("basalt_storage_image_cache_bytes_limit", Gauge, NONE, "bytes", Happened, "1 GiB.", ""),
    Metric::new("basalt_storage_image_cache_lookups_total", Counter, &[("outcome", "hit, miss")], "lookups", Happened, "Look-ups of kept images. One that waits for its turn looks twice.", "Many misses at the limit: clients ask for too many sizes."),

    Metric::new("basalt_storage_blobs_deleted_total", Counter, LEFT_BY, "blobs", Happened, "Bytes of objects deleted after their rows were gone, or which were never finished.", ""),
    Metric::new("basalt_storage_blob_deletions_failed_total", Counter, LEFT_BY, "attempts", Happened, "Attempts to delete that failed.", "The log says why."),
    Metric::new("basalt_storage_blob_deletions_given_up_total", Counter, LEFT_BY, "blobs", Happened, "Deletions given up after more than a day.", "As above. `basalt storage gc` deletes what is left."),
    Metric::new("basalt_storage_blob_deletions_waiting", Gauge, NONE, "blobs", Happened, "Blobs that wait to be deleted; each waits for five minutes at least.", "Grows for hours: the disk or S3 is slow or away."),
    Metric::new("basalt_storage_blob_deletions_given_up", Gauge, NONE, "blobs", Happened, "Blobs whose deletion was given up.", "As for `basalt_storage_blob_deletions_given_up_total`."),

    Metric::new("basalt_functions_requests_total", Counter, &[("function", "as registered"), ("status", "2xx, 3xx, 4xx, 5xx")], "requests", Happened, "Calls of each function.", "5xx: the log tells of each with the function's name."),
    Metric::new("basalt_functions_duration_seconds", Histogram, &[("function", "as registered")], "seconds", Happened, "From the call of a function to the head of its answer.", "Functions that call another server wait for it."),
    Metric::new("basalt_functions_refused_total", Counter, &[("function", "as registered")], "requests", Happened, "Calls refused with 401, for functions that check tokens.", "Clients call without a key, or with an expired token."),

    Metric::new("basalt_mail_queued_total", Counter, KIND, "mails", Happened, "Mails to be sent, or put into the development mailbox.", ""),
    Metric::new("basalt_mail_sent_total", Counter, KIND, "mails", Happened, "Mails that the mail server took.", ""),
    Metric::new("basalt_mail_failed_total", Counter, KIND, "mails", Happened, "Attempts that failed.", "The log has the mail server's words."),
    Metric::new("basalt_mail_dead_total", Counter, KIND, "mails", Happened, "Mails given up.", "As above. `basalt mail list` shows them while they are kept (`mail.retention`), `basalt mail retry` tries again."),
    Metric::new("basalt_mail_dropped_total", Counter, KIND, "mails", Happened, "Mails not sent because no mail server is configured.", "Set `mail.smtp_url` and `mail.from`."),
    Metric::new("basalt_mail_waiting", Gauge, NONE, "mails", Happened, "Mails that wait to be sent, where there is a mail server.", "It is slow or away; or raise `mail.connections`."),
    Metric::new("basalt_mail_dead", Gauge, NONE, "mails", Happened, "Mails given up that are still kept.", "As for `basalt_mail_dead_total`."),

    Metric::new("basalt_realtime_sockets", Gauge, NONE, "sockets", Always, "Sockets of realtime clients.", "Those without a channel are closed after ten minutes."),
    Metric::new("basalt_realtime_users_limit", Gauge, NONE, "sockets", Always, "`realtime.max_concurrent_users`: sockets that have joined a channel.", ""),
    Metric::new("basalt_realtime_channels", Gauge, NONE, "channels", Always, "Channels that are joined, of all sockets.", "Many for each socket: a client that joins and never leaves."),
    Metric::new("basalt_realtime_joins_total", Counter, &[("outcome", "ok, or the code of the refusal")], "joins", Happened, "Joins answered.", "Unauthorized: policies of `realtime.messages`. ClientJoinRateLimitReached: raise `realtime.max_joins_per_second`, or find the client."),
    Metric::new("basalt_realtime_renewals_total", Counter, &[("outcome", "kept, lost, failed")], "renewals", Happened, "Times that the policies of `realtime.messages` were evaluated again for a private channel in use.", "failed: the database did not answer, or the pool of realtime is exhausted; clients join again. lost: a user who was removed."),
    Metric::new("basalt_realtime_broadcasts_total", Counter, &[("source", "socket, http, database, bus")], "messages", Always, "Broadcasts, by where they came from.", ""),
    Metric::new("basalt_realtime_deliveries_total", Counter, NONE, "messages", Always, "Broadcasts and row changes handed to channels.", "Divided by broadcasts: how many listen."),
    Metric::new("basalt_realtime_presences", Gauge, NONE, "channels", Always, "Channels that track presence, on all servers of the bus.", ""),
    Metric::new("basalt_realtime_presence_bytes", Gauge, NONE, "bytes", Always, "What presences of this server's channels take.", "Near 256 MiB: clients that track much; the next is refused."),
    Metric::new("basalt_realtime_queued_bytes", Gauge, NONE, "bytes", Always, "What waits to be taken by clients. A broadcast counts once for each of them, though it is in memory once.", "Grows: clients are slow, or the network is."),
    Metric::new("basalt_realtime_receiving_bytes", Gauge, NONE, "bytes", Always, "What long messages that are not whole yet hold, beyond 64 KiB each.", "Near 256 MiB: clients that send large messages slowly; the next is closed (1013)."),
    Metric::new("basalt_realtime_malformed_frames_total", Counter, NONE, "frames", Always, "Frames dropped because they are no messages.", "A client that speaks another protocol."),
    Metric::new("basalt_realtime_sockets_closed_total", Counter, &[("reason", "client, restart, idle, no_channel, joins, overflow, frame_size, protocol, busy")], "sockets", Happened, "Sockets that have ended.", "overflow: clients that take less than they are sent; they come back by themselves. idle: connections that died without a word."),
    Metric::new("basalt_realtime_bus_connected", Gauge, NONE, "connections", Always, "1 while NATS is reached; 0 otherwise, and without `realtime.nats_url`.", "0: clients of other servers hear nothing from here until it is back."),
    Metric::new("basalt_realtime_bus_nodes", Gauge, NONE, "servers", Always, "Other servers that were heard on the bus within the last seconds.", "Fewer than there are: NATS, or `realtime.nats_url` of the others."),
    Metric::new("basalt_realtime_bus_dropped_total", Counter, NONE, "messages", Always, "Messages for other servers that were dropped because NATS was away or slow.", "As for `basalt_realtime_bus_connected`."),

    Metric::new("basalt_realtime_changes_received_total", Counter, NONE, "changes", Happened, "Row changes of published tables that PostgreSQL sent, whether or not a client listens.", "Far above those batched: publish fewer tables."),
    Metric::new("basalt_realtime_changes_batched_total", Counter, NONE, "changes", Happened, "Row changes of tables to which clients listen.", "Divided by batches: how many are judged together. It rises with the load."),
    Metric::new("basalt_realtime_change_batches_total", Counter, NONE, "batches", Happened, "Batches in which they are judged.", ""),
    Metric::new("basalt_realtime_changes_matched_total", Counter, NONE, "matches", Happened, "Bindings whose conditions a change met, before policies are asked.", "Far above those delivered: clients listen to whole tables of which they may see little. A filter costs less."),
    Metric::new("basalt_realtime_changes_delivered_total", Counter, NONE, "changes", Happened, "Changes handed to channels that may see them.", ""),
    Metric::new("basalt_realtime_visibility_seconds", Histogram, NONE, "seconds", Happened, "Time in which PostgreSQL says who may see the rows of a batch, for one role.", "Long: policies without an index to help them."),
    Metric::new("basalt_realtime_subscriptions", Gauge, NONE, "channels", Happened, "Channels that listen to row changes.", ""),
    Metric::new("basalt_realtime_change_bytes", Gauge, NONE, "bytes", Happened, "Row changes that waited to be judged when the last one came.", "Near the limit: policies are too slow for the rate of changes."),
    Metric::new("basalt_realtime_change_bytes_aside", Gauge, NONE, "bytes", Happened, "Row changes that were held when the last one was, because an earlier one of the channel was not decided, or evaluated aside for a subscriber that exceeded its time budget.", "Near a quarter of `realtime.change_memory`: policies or filters of single users are too slow."),
    Metric::new("basalt_realtime_change_bytes_limit", Gauge, NONE, "bytes", Always, "`realtime.change_memory`.", ""),
    Metric::new("basalt_realtime_slot_lag_bytes", Gauge, NONE, "bytes", Happened, "Write-ahead log that the replication slot holds back, looked at every 30 seconds.", "It grows: a long transaction, or a server that cannot keep up. Beyond `max_slot_wal_keep_size` PostgreSQL takes the slot away, and clients join again."),
    Metric::new("basalt_realtime_resyncs_total", Counter, &[("reason", "stream, queue, database, policy, order, definition")], "times", Happened, "Times that channels were sent away to join again, because changes were missed.", "stream: the connection or the slot was lost; queue: raise `realtime.change_memory`, or make policies faster; database: it did not answer; policy: policies or filters of single users are too slow; order: a channel held too many changes behind one that was not decided; definition: a filtered column has another type."),
];
