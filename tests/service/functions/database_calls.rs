//! Cron jobs, requests of `pg_net` and database webhooks reach the functions of this server.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::typescript::Project;

#[tokio::test]
async fn database_calls_functions() {
    let echo = "Deno.serve(async (request) => new Response(`${request.headers.get('x-from')} ${(await request.json()).type ?? ''}`))";
    let project = Project::new(&[("echo", echo)]);
    let server = project.server().start().await;
    let database = server.database();
    let url = server.url("/functions/v1/echo");
    let setup = format!(
        r#"create extension if not exists pg_net with schema extensions; create extension if not exists pg_cron;
        create table public.orders (id int);
        create trigger hook after insert on public.orders for each row
          execute function supabase_functions.http_request('{url}', 'POST', '{{"Content-type":"application/json","x-from":"hook"}}', '{{}}', '20000');
        insert into public.orders values (1);
        select net.http_post(url := '{url}', headers := '{{"x-from": "net"}}', timeout_milliseconds := 20000);
        select cron.schedule('call', '1 second', $$select net.http_post(url := '{url}', headers := '{{"x-from": "cron"}}', timeout_milliseconds := 20000)$$)"#
    );
    let _rows = database.sql(&setup).await;
    for content in ["hook INSERT", "net ", "cron "] {
        let count = format!(
            "select count(*) > 0 from net._http_response where status_code = 200 and content = '{content}'"
        );
        let started = Instant::now();
        while database.value(&count).await != "t" {
            assert!(started.elapsed() < Duration::from_secs(60), "no response {content:?}");
            sleep(Duration::from_millis(100)).await;
        }
    }
    let _rows = database.sql("select cron.unschedule('call')").await;
}
