//! The server's log: one event is one line, whatever users write, and it tells no secret.

use basalt_testkit::Basalt;
use http::Method;
use serde_json::json;

#[tokio::test]
async fn a_user_writes_no_line_of_the_log() {
    const FORGED: &str = "2026-11-22T00:00:00.000000Z ERROR forged";
    for format in ["text", "json"] {
        let builder = Basalt::builder().config("server.log_format", format).expect_log("");
        let server = builder.config("auth.mailer_autoconfirm", "true").start().await;
        server
            .sql(
                "create function public.refuse() returns trigger language plpgsql as $$
                 begin raise exception 'no seat for %', new.raw_user_meta_data->>'name'; end $$;
                 create trigger refuse before insert on auth.users
                   for each row execute function public.refuse();
                 create function public.say(what text) returns int language plpgsql as $$
                 begin raise sqlstate 'PT500' using message = what; end $$;
                 grant execute on function public.say to anon",
            )
            .await;
        let name = format!("a\n{FORGED}");
        let account = json!({ "email": "a@example.org", "password": "lovelace!", "data": { "name": name } });
        let request = server.request(Method::POST, "/auth/v1/signup").apikey(server.anon_key());
        request.json(&account).send().await.expect(500);
        let request = server.request(Method::POST, "/rest/v1/rpc/say").apikey(server.anon_key());
        request.json(&json!({ "what": name })).send().await.expect(500);
        let log: Vec<String> = server.log().into_iter().map(|line| line.raw).collect();
        assert_eq!(log.iter().filter(|line| line.contains("forged")).count(), 2, "{log:#?}");
        assert!(!log.iter().any(|line| line.starts_with(FORGED)), "{log:#?}");
    }
}
