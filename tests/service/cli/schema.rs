//! `basalt policies …` and `basalt gen types …`.

use basalt_testkit::Basalt;

use super::basalt;

#[tokio::test]
async fn policies_can_be_applied_checked_and_tested() {
    let server = Basalt::builder().app().start().await;
    assert_eq!(basalt(&server, &["policies", "check"]).ok().out, "no problems found\n");
    let tested = basalt(&server, &["policies", "test"]).ok();
    assert!(tested.out.ends_with(" checks, 0 failed\n"), "{}", tested.out);

    server
        .database()
        .admin_sql(
            "grant select on plans to anon; create policy open on plans for select to anon using (true)",
        )
        .await;
    let checked = basalt(&server, &["policies", "check"]);
    assert_eq!(checked.code, 1);
    assert!(
        checked
            .out
            .contains("public.plans: only in the database, not in the policy file: grant SELECT to anon"),
        "{}",
        checked.out
    );
    let tested = basalt(&server, &["policies", "test"]);
    assert_eq!(tested.code, 1);
    assert!(tested.out.contains("read the plan: visitor is allowed but must not be"), "{}", tested.out);

    assert!(basalt(&server, &["policies", "apply"]).ok().out.contains(" policy files"));
    assert_eq!(basalt(&server, &["policies", "check"]).ok().out, "no problems found\n");
}

#[tokio::test]
async fn gen_types_prints_the_project_or_another_database() {
    let server = Basalt::builder().app().start().await;
    let types = basalt(&server, &["gen", "types", "typescript"]).ok().out;
    let known =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../app/src/lib/database.types.ts"))
            .unwrap();
    assert_eq!(types, known);
    let url = server.database().url();
    let other =
        basalt(&server, &["gen", "types", "typescript", "--db-url", &url, "--schema", "storage,public"])
            .ok()
            .out;
    assert!(
        other.contains("  storage: {\n") && other.contains("type DefaultSchema = Schemas[\"storage\"]"),
        "{other}"
    );
    basalt(&server, &["gen", "types", "typescript", "--schema", "nowhere"])
        .failed("schema nowhere does not exist in the database");
}
