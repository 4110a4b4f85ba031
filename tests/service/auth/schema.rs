//! Schema `auth` as users' SQL sees it (auth.md §4).

use super::*;

fn cell(text: &str) -> Vec<Vec<Option<String>>> {
    vec![vec![Some(text.to_owned())]]
}

#[tokio::test]
async fn tables_have_expected_columns_and_rls() {
    let server = shared().await;
    let tables = server
        .sql(
            "select c.relname || ' ' || count(*) || case when c.relrowsecurity then '' else ' open' end
             from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
             where c.relnamespace = 'auth'::regnamespace and c.relkind = 'r'
             group by c.oid, c.relname, c.relrowsecurity order by c.relname",
        )
        .await;
    let tables: Vec<String> = tables.into_iter().flatten().flatten().collect();
    assert_eq!(
        tables,
        [
            "audit_log_entries 5",
            "custom_oauth_providers 25",
            "flow_state 17",
            "identities 9",
            "instances 5",
            "mfa_amr_claims 5",
            "mfa_challenges 7",
            "mfa_factors 13",
            "oauth_authorizations 17",
            "oauth_client_states 4",
            "oauth_clients 13",
            "oauth_consents 6",
            "one_time_tokens 7",
            "refresh_tokens 9",
            "saml_providers 9",
            "saml_relay_states 8",
            "schema_migrations 1",
            "sessions 15",
            "sso_domains 5",
            "sso_providers 5",
            "users 35",
            "webauthn_challenges 6",
            "webauthn_credentials 14",
        ]
    );
    let owners =
        "select distinct pg_get_userbyid(relowner) from pg_class where relnamespace = 'auth'::regnamespace";
    assert_eq!(server.sql(owners).await, cell("supabase_auth_admin"));
    let policies = "select count(*) from pg_policies where schemaname = 'auth'";
    assert_eq!(server.sql(policies).await, cell("0"));
}

#[tokio::test]
async fn claim_functions_treat_empty_setting_as_absent() {
    let server = shared().await;
    let seen = "select coalesce(auth.uid()::text, '-') || ' ' || coalesce(auth.role(), '-') || ' ' ||
                  coalesce(auth.email(), '-') || ' ' || coalesce(auth.jwt()::text, '-')";
    for (settings, expected) in [
        ("select 1", "- - - -"),
        ("set request.jwt.claims = ''", "- - - -"),
        (
            "set request.jwt.claims = '{\"sub\": \"11111111-2222-4333-8444-555555555555\", \"role\": \"anon\", \"email\": \"a\"}'",
            "11111111-2222-4333-8444-555555555555 anon a \
             {\"sub\": \"11111111-2222-4333-8444-555555555555\", \"role\": \"anon\", \"email\": \"a\"}",
        ),
        (
            "set request.jwt.claims = '{\"sub\": \"\", \"role\": \"\"}'",
            "- - - {\"sub\": \"\", \"role\": \"\"}",
        ),
        (
            "set request.jwt.claim.sub = '11111111-2222-4333-8444-555555555555'; set request.jwt.claim.role = 'x'",
            "11111111-2222-4333-8444-555555555555 x - -",
        ),
    ] {
        assert_eq!(
            server.sql(&format!("{settings}; set role anon; {seen}")).await,
            cell(expected),
            "{settings}"
        );
    }
}

#[tokio::test]
async fn api_roles_have_no_rights_but_postgres_has() {
    let server = shared().await;
    let rights = "select string_agg(r || ' ' || has_schema_privilege(r, 'auth', 'usage') || ' ' ||
                    has_schema_privilege(r, 'auth', 'create') || ' ' || coalesce((
                      select string_agg(c.relname, ',') from pg_class c where c.relnamespace = 'auth'::regnamespace
                        and c.relkind = 'r' and has_any_column_privilege(r, c.oid, 'select')), 'none'), '; ')
                  from unnest(array['anon', 'authenticated', 'service_role']) as r";
    assert_eq!(
        server.sql(rights).await,
        cell("anon true false none; authenticated true false none; service_role true false none")
    );
    let all = "select bool_and(has_table_privilege('postgres', c.oid, p || ' with grant option'))
               from pg_class c, unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) as p
               where c.relnamespace = 'auth'::regnamespace and c.relkind = 'r'";
    assert_eq!(server.sql(all).await, cell("t"));
    assert_eq!(server.sql("select has_schema_privilege('postgres', 'auth', 'create')").await, cell("f"));
}

#[tokio::test]
async fn deleting_a_user_cascades() {
    let server = shared().await;
    let user = server.sign_up(&fresh("ada")).await;
    let _rows = server.sql(&format!("delete from auth.users where id = '{}'", user.id)).await;
    let left = format!(
        "select (select count(*) from auth.identities where user_id = '{id}')
           + (select count(*) from auth.sessions where user_id = '{id}')
           + (select count(*) from auth.mfa_amr_claims where session_id = '{session}')",
        id = user.id,
        session = text(&claims(&user.access_token), "/session_id")
    );
    assert_eq!(server.sql(&left).await, cell("0"));
}
