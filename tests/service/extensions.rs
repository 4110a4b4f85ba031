//! The extensions that real projects create (decision 0125): each is created and called as projects do, as the role
//! `postgres`. `cron.rs`, `net.rs` and `http.rs` test the server's part.

mod cron;
mod http;
mod net;

use std::time::Duration;

use basalt_testkit::{Basalt, TestDatabase};
use tokio::time::{Instant, sleep};

/// Runs statements with the search path that the role `postgres` has when it logs in.
async fn run(database: &TestDatabase, sql: &str) -> Vec<Vec<Option<String>>> {
    database.sql(&format!("set search_path = \"$user\", public, extensions; {sql}")).await
}

/// The first column of the only row.
async fn value(database: &TestDatabase, sql: &str) -> String {
    let rows = run(database, sql).await;
    rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten().unwrap_or_default()
}

/// Waits until a query as `postgres` gives this value.
async fn until(database: &TestDatabase, sql: &str, expected: &str) {
    let start = Instant::now();
    loop {
        let found = value(database, sql).await;
        if found == expected {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{sql}: {found}, expected {expected}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// The message of the error that `statement` raises as `postgres`.
async fn error(database: &TestDatabase, statement: &str) -> String {
    let sql = format!(
        "create or replace function public.failure(statement text) returns text language plpgsql as $f$
         begin execute statement; return 'no error';
         exception when others then return sqlstate || ' ' || sqlerrm; end $f$;
         select public.failure($s${statement}$s$)"
    );
    value(database, &sql).await
}

#[tokio::test]
async fn preinstalled_extensions_are_present() {
    let server = Basalt::start().await;
    let database = server.database();
    let installed = value(
        database,
        "select string_agg(format('%s in %s', extname, extnamespace::regnamespace), ', ' order by extname)
         from pg_extension where extname <> 'plpgsql'",
    )
    .await;
    let expected = "pg_stat_statements in extensions, pgcrypto in extensions, supabase_vault in extensions, uuid-ossp in extensions";
    assert_eq!(installed, expected);
    assert_eq!(
        value(database, "select count(*) > 0 from pg_stat_statements").await,
        "t",
        "the library is loaded"
    );
    assert_eq!(value(database, "select length(uuid_generate_v4()::text)").await, "36");
    // Schemas come with their extensions.
    let schemas = "select string_agg(nspname, ' ') from pg_namespace
      where nspname in ('cron', 'net', 'pgmq', 'graphql', 'graphql_public', 'pgsodium')";
    assert_eq!(value(database, schemas).await, "");
}

#[tokio::test]
async fn every_extension_can_be_created_by_postgres() {
    let server = Basalt::start().await;
    let database = server.database();
    // As in migrations and dumps: with and without a schema, quoted or not.
    let statements = [
        "create extension if not exists pg_cron with schema extensions",
        "create extension if not exists \"pg_net\" with schema \"extensions\"",
        "create extension if not exists supabase_vault with schema vault",
        "create extension if not exists pgmq",
        "create extension if not exists pgjwt with schema extensions",
        "create extension if not exists http with schema public",
        "create extension if not exists pg_graphql with schema graphql",
        "create extension if not exists pgsodium",
        "create extension if not exists pg_tle with schema pgtle",
        "create extension if not exists hypopg with schema extensions",
        "create extension if not exists index_advisor with schema extensions",
        "create extension if not exists plpgsql_check",
        "create extension if not exists wrappers with schema extensions",
        "create extension if not exists pgaudit",
        "create extension if not exists pg_trgm with schema extensions",
        "create extension if not exists citext",
        "create extension if not exists unaccent with schema public",
        "create extension if not exists btree_gin",
        "create extension if not exists moddatetime schema extensions",
        "create extension if not exists dblink with schema extensions",
        "create extension if not exists postgres_fdw",
    ];
    for statement in statements {
        assert_eq!(error(database, statement).await, "no error", "{statement}");
        assert_eq!(error(database, statement).await, "no error", "a second time: {statement}");
    }
    let available = "select count(*) from pg_available_extensions where name in ('pg_cron', 'pg_net', 'pgmq') and installed_version is not null";
    assert_eq!(value(database, available).await, "3");
    let missing = error(database, "create extension postgis").await;
    assert!(missing.contains("extension \"postgis\" is not available"), "{missing}");
}

#[tokio::test]
async fn schema_clause_with_the_extensions_own_schema_is_accepted() {
    let server = Basalt::start().await;
    let database = server.database();
    for (extension, schema) in
        [("pg_cron", "cron"), ("pg_net", "net"), ("pgmq", "pgmq"), ("pg_graphql", "graphql")]
    {
        let statement = format!("create extension {extension} with schema {schema}");
        assert_eq!(error(database, &statement).await, "no error", "{statement}");
    }
    // One in the wrong place is refused as before.
    assert!(error(database, "create extension pgjwt with schema nowhere").await.starts_with("3F000"));
}

#[tokio::test]
async fn contrib_functions_work_where_projects_put_them() {
    let server = Basalt::start().await;
    let database = server.database();
    let setup = "create extension moddatetime schema extensions;
      create extension pg_trgm with schema extensions;
      create table notes (id int, title text, updated_at timestamptz default '2020-01-01');
      create trigger touch before update on notes for each row execute procedure extensions.moddatetime(updated_at);
      insert into notes values (1, 'hello');
      update notes set title = 'hallo'";
    let _rows = run(database, setup).await;
    assert_eq!(value(database, "select updated_at > '2021-01-01' from notes").await, "t");
    assert_eq!(value(database, "select extensions.similarity('hello', 'hallo') > 0.1").await, "t");
}

#[tokio::test]
async fn pgjwt_signs_and_verifies() {
    let server = Basalt::start().await;
    let database = server.database();
    let _rows = run(database, "create extension pgjwt with schema extensions").await;
    // The example of RFC 7519 readers know: HS256 with the secret `secret`.
    let token = value(database, "select extensions.sign('{\"sub\":\"1\"}', 'secret')").await;
    let mac = value(
        database,
        "select rtrim(translate(encode(extensions.hmac('eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0', 'secret', 'sha256'), 'base64'), '+/', '-_'), '=')",
    )
    .await;
    assert_eq!(token, format!("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.{mac}"));
    let verify = |secret: &str| format!("select valid from extensions.verify('{token}', '{secret}')");
    assert_eq!(value(database, &verify("secret")).await, "t");
    assert_eq!(value(database, &verify("other")).await, "f");
    let expired =
        "select valid from extensions.verify(extensions.sign('{\"exp\":1}', 's', 'HS512'), 's', 'HS512')";
    assert_eq!(value(database, expired).await, "f");
    let unknown = error(database, "select extensions.sign('{}', 's', 'RS256')").await;
    assert!(unknown.contains("is not supported"), "{unknown}");
}

#[tokio::test]
async fn vault_keeps_secrets_encrypted_and_to_its_roles() {
    let server = Basalt::start().await;
    let database = server.database();
    // Without `create extension`: every project has it.
    let id = value(database, "select vault.create_secret('s3cret-ä', 'api_key', 'of the mailer')").await;
    let decrypted = "(select decrypted_secret from vault.decrypted_secrets where name = 'api_key' limit 1)";
    assert_eq!(value(database, &format!("select {decrypted}")).await, "s3cret-ä");
    assert_eq!(value(database, "select secret like '%s3cret%' from vault.secrets").await, "f");
    let _rows = run(database, &format!("select vault.update_secret('{id}', 'another')")).await;
    assert_eq!(value(database, &format!("select {decrypted}")).await, "another");
    assert_eq!(value(database, "select description from vault.decrypted_secrets").await, "of the mailer");
    assert!(error(database, "select vault.create_secret('x', 'api_key')").await.starts_with("23505"));
    // The usual wrapper: a security definer function of `postgres`.
    let wrapper = format!(
        "create function api_key() returns text language sql security definer set search_path = '' as $$ select {decrypted} $$;
         grant execute on function api_key() to anon"
    );
    let _rows = run(database, &wrapper).await;
    assert_eq!(value(database, "set role anon; select public.api_key()").await, "another");
    for statement in [
        "select * from vault.decrypted_secrets",
        "select vault.basalt_decrypt('x')",
        "select vault.basalt_key()",
    ] {
        let refused = error(database, &format!("set local role anon; {statement}")).await;
        assert!(refused.starts_with("42501"), "{statement}: {refused}");
    }
    assert!(error(database, "select vault.basalt_key()").await.starts_with("42501"), "postgres gets no key");
    assert_eq!(value(database, &format!("set role service_role; select {decrypted}")).await, "another");
}

#[tokio::test]
async fn pgmq_hides_messages_until_their_timeout() {
    let server = Basalt::start().await;
    let database = server.database();
    let _rows =
        run(database, "create extension pgmq; select pgmq.create('jobs'); select pgmq.create('jobs')").await;
    let send = "select pgmq.send('jobs', jsonb_build_object('n', n)) from generate_series(1, 3) n";
    assert_eq!(run(database, send).await.len(), 3);
    // Two readers at once see different messages.
    let read = "select string_agg(message ->> 'n', ' ') from pgmq.read('jobs', 30, 2)";
    assert_eq!(value(database, read).await, "1 2");
    assert_eq!(value(database, read).await, "3");
    assert_eq!(value(database, read).await, "");
    assert_eq!(value(database, "select pgmq.delete('jobs', 1::bigint)").await, "t");
    assert_eq!(value(database, "select pgmq.delete('jobs', 1::bigint)").await, "f");
    assert_eq!(value(database, "select pgmq.archive('jobs', 2::bigint)").await, "t");
    assert_eq!(value(database, "select count(*) from pgmq.a_jobs").await, "1");
    let _rows = run(database, "select * from pgmq.set_vt('jobs', 3, 0)").await;
    assert_eq!(value(database, "select read_ct from pgmq.read('jobs', 30, 10)").await, "2");
    assert_eq!(
        value(database, "select msg_id from pgmq.send('jobs', '{\"later\": true}', 3600) as msg_id").await,
        "4"
    );
    assert_eq!(value(database, "select queue_visible_length from pgmq.metrics('jobs')").await, "0");
    assert_eq!(value(database, "select pgmq.purge_queue('jobs')").await, "2");
    assert_eq!(value(database, "select string_agg(queue_name, ' ') from pgmq.list_queues()").await, "jobs");
    assert_eq!(value(database, "select pgmq.drop_queue('jobs')").await, "t");
    assert!(error(database, "select pgmq.create('a; drop table x')").await.starts_with("22023"));
}

#[tokio::test]
async fn graphql_answers_with_an_error_in_its_own_form() {
    let server = Basalt::start().await;
    let database = server.database();
    let _rows = run(database, "create extension pg_graphql with schema graphql").await;
    let answer =
        value(database, "select graphql_public.graphql(query := '{ a }') -> 'errors' -> 0 ->> 'message'")
            .await;
    assert_eq!(answer, "GraphQL is not available on this server; use the REST API");
}

#[tokio::test]
async fn pgvector_searches_through_an_index() {
    let server = Basalt::start().await;
    let database = server.database();
    let available = "select count(*) from pg_available_extensions where name = 'vector'";
    assert_eq!(
        value(database, available).await,
        "1",
        "pgvector is missing: run `cargo xtask service`, which downloads it"
    );
    let setup = "create extension if not exists vector with schema extensions;
      create table documents (id int primary key, embedding extensions.vector(3));
      insert into documents select n, format('[%s,%s,1]', n, 100 - n)::extensions.vector from generate_series(1, 100) n;
      create index on documents using hnsw (embedding vector_cosine_ops) with (m = 8, ef_construction = 32);
      create index on documents using ivfflat (embedding vector_l2_ops) with (lists = 4);
      create function match_documents(query extensions.vector(3), n int) returns setof int
      language sql stable as $$ select id from public.documents order by embedding OPERATOR(extensions.<=>) query limit n $$;
      grant select on documents to anon";
    let _rows = run(database, setup).await;
    assert_eq!(value(database, "select match_documents('[50,50,1]', 1)").await, "50");
    assert_eq!(
        value(database, "select avg(embedding)::text from documents where id < 3").await,
        "[1.5,98.5,1]"
    );
}

/// A project file of a Supabase project runs as `postgres` with a superuser's rights (DESIGN section 12).
#[tokio::test]
async fn extension_of_an_elevated_file_belongs_to_the_server() {
    let server = Basalt::start().await;
    let database = server.database();
    let file = "begin; alter role postgres superuser; set local session authorization postgres;
      create extension pg_net with schema extensions; create extension pg_cron with schema cron; create extension pgmq;
      select cron.schedule('job', '0 3 * * *', 'select 1'), pgmq.create('queue');
      create table public.mine (id int);
      set local session authorization supabase_admin; alter role postgres nosuperuser; commit";
    let _rows = database.admin_sql(file).await;
    let owners =
        "select string_agg(format('%s %s', tablename, tableowner), ', ' order by tablename) from pg_tables
      where tablename in ('job', '_http_response', 'q_queue', 'mine')";
    let expected = "_http_response supabase_admin, job supabase_admin, mine postgres, q_queue postgres";
    assert_eq!(value(database, owners).await, expected);
    assert_eq!(error(database, "select net.http_get('http://example.com')").await, "no error");
    assert_eq!(error(database, "select cron.unschedule('job')").await, "no error");
}
