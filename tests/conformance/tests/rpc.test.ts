import { describe, expect, test } from "vitest";
import { person, service, unique, visitor } from "../support/clients";
import { rest } from "../support/http";

const basalt = visitor();

describe("result shapes", () => {
  const cases: [string, string, Record<string, unknown> | undefined, unknown][] = [
    ["a scalar", "add", { a: 1, b: 2 }, 3],
    ["a default", "add", { a: 1 }, 11],
    ["only defaults", "greet", undefined, "hello world"],
    ["a null", "null_text", undefined, null],
    ["an enum", "current_mood", undefined, "happy"],
    ["an array", "numbers_up_to", { upto: 3 }, [1, 2, 3]],
    ["a set of scalars", "each_number", { upto: 3 }, [1, 2, 3]],
    ["an empty set", "each_number", { upto: 0 }, []],
    ["json", "echo", { payload: { a: [1, { b: null }] } }, { a: [1, { b: null }] }],
    ["an array as argument", "sum_of", { numbers: [1, 2, 3] }, 6],
    ["out parameters", "split_number", { n: 4 }, { doubled: 8, squared: 16 }],
    ["a record", "pair", undefined, { a: 1, b: "x" }],
    [
      "a table of one column",
      "project_names",
      undefined,
      ["Website", "App", "Audit", "Internal"].map((name) => ({ name })),
    ],
  ];

  test.each(cases)("%s", async (_, name, parameters, expected) => {
    const { data, error, status } = await basalt.rpc(name, parameters);
    expect({ data, error, status }).toEqual({ data: expected, error: null, status: 200 });
  });

  test("a row is an object; no row has null members", async () => {
    const row = await basalt.rpc("project_by_id", { wanted: 4 });
    expect(row.data).toEqual({
      id: 4,
      name: "Internal",
      client_id: null,
      budget: 0,
      starts_on: "2025-12-31",
      owner_id: null,
      reviewer_id: null,
    });
    const none = await basalt.rpc("project_by_id", { wanted: 99 });
    expect(none.data).toMatchObject({ id: null, name: null });
  });

  test("void is 204 without a body", async () => {
    const { data, error, status } = await basalt.rpc("nothing");
    expect({ data, error, status }).toEqual({ data: null, error: null, status: 204 });
    const response = await rest("rpc/nothing", {}, { method: "POST", body: {} });
    expect([response.text, response.headers.get("content-type"), response.headers.get("content-length")]).toEqual([
      "",
      null,
      null,
    ]);
  });

  test("a scalar has a Content-Range of one row", async () => {
    const response = await rest("rpc/add", {}, { method: "POST", body: { a: 1, b: 2 } });
    expect([response.status, response.text, response.headers.get("content-range")]).toEqual([200, "3", "0-0/*"]);
  });
});

describe("sets of rows", () => {
  test("select, filter, order, limit", async () => {
    const { data, error } = await basalt
      .rpc("projects_of", { client: 1 })
      .select("id, name")
      .gt("budget", 0)
      .order("id", { ascending: false })
      .limit(1);
    expect(error).toBeNull();
    expect(data).toEqual([{ id: 2, name: "App" }]);
  });

  test("columns of RETURNS TABLE can be filtered", async () => {
    const { data } = await basalt.rpc("task_totals").gte("total", 2).order("project_id");
    expect(data).toEqual([
      { project_id: 1, total: 3 },
      { project_id: 2, total: 2 },
    ]);
  });

  test("embeds", async () => {
    const { data, error } = await basalt
      .rpc("projects_of", { client: 1 })
      .select("name, clients(name), tasks(id)")
      .order("id")
      .order("id", { referencedTable: "tasks" });
    expect(error).toBeNull();
    expect(data).toEqual([
      { name: "Website", clients: { name: "Acme" }, tasks: [{ id: 1 }, { id: 2 }, { id: 3 }] },
      { name: "App", clients: { name: "Acme" }, tasks: [{ id: 4 }, { id: 5 }] },
    ]);
  });

  test("counts", async () => {
    const { count, data } = await basalt.rpc("projects_of", { client: 1 }, { count: "exact" }).select("id").limit(1);
    expect([count, data]).toEqual([2, [expect.objectContaining({ id: expect.any(Number) })]]);
  });

  test("single", async () => {
    expect((await basalt.rpc("projects_of", { client: 2 }).select("id").single()).data).toEqual({ id: 3 });
    const { error, status } = await basalt.rpc("projects_of", { client: 1 }).select("id").single();
    expect([status, error?.code, error?.details]).toEqual([406, "PGRST116", "The result contains 2 rows"]);
    expect((await basalt.rpc("projects_of", { client: 3 }).select("id").maybeSingle()).data).toBeNull();
  });
});

describe("caller", () => {
  test("function sees role, claims and path", async () => {
    const { data } = await basalt.rpc("who_am_i");
    expect(data).toMatchObject({
      uid: null,
      role: "anon",
      current_user: "anon",
      method: "POST",
      path: "/rpc/who_am_i",
      has_apikey: false,
    });
  });

  test("user token gives authenticated with all claims", async () => {
    const ada = await person({ organization_name: "Acme" });
    const { data } = await ada.client.rpc("who_am_i");
    expect(data).toMatchObject({
      uid: ada.user.id,
      role: "authenticated",
      current_user: "authenticated",
      email: ada.email,
    });
    expect(data.claims).toMatchObject({
      sub: ada.user.id,
      aud: "authenticated",
      aal: "aal1",
      user_metadata: { organization_name: "Acme" },
      app_metadata: { provider: "email" },
    });
  });

  test("the service key is service_role", async () => {
    expect((await service().rpc("who_am_i")).data).toMatchObject({
      role: "service_role",
      current_user: "service_role",
      uid: null,
    });
  });

  test("EXECUTE privilege is required", async () => {
    const refused = await basalt.rpc("for_members_only");
    expect([refused.status, refused.error?.code]).toEqual([401, "42501"]);
    const ada = await person();
    expect((await ada.client.rpc("for_members_only")).data).toBe("welcome");
  });
});

describe("errors", () => {
  test("unknown function", async () => {
    const response = await rest("rpc/nowhere", {}, { method: "POST", body: {} });
    expect(response.status).toBe(404);
    expect(response.json).toMatchObject({
      code: "PGRST202",
      message: "Could not find the function public.nowhere without parameters in the schema cache",
      details:
        "Searched for the function public.nowhere without parameters or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache.",
    });
  });

  test("wrong number of parameters", async () => {
    const many = await rest("rpc/add", {}, { method: "POST", body: { zz: 2, a: 1 } });
    expect([many.status, many.json]).toEqual([
      404,
      {
        code: "PGRST202",
        message: "Could not find the function public.add(a, zz) in the schema cache",
        details:
          "Searched for the function public.add with parameters a, zz or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache.",
        hint: "Perhaps you meant to call the function public.add(a, b)",
      },
    ]);
    expect((await basalt.rpc("add", { b: 1 })).error?.code).toBe("PGRST202");
  });

  test("wrong argument type", async () => {
    const { error, status } = await basalt.rpc("add", { a: "one" });
    expect([status, error?.code]).toEqual([400, "22P02"]);
  });

  test("raised exception: 400 with all fields", async () => {
    const { error, status } = await basalt.rpc("fail", { message: "no more" });
    expect(status).toBe(400);
    expect(error).toMatchObject({ code: "P0001", message: "no more", details: "the detail", hint: "the hint" });
  });

  test("PT402 returns 402", async () => {
    const { error, status } = await basalt.rpc("fail_with_status");
    expect(status).toBe(402);
    expect(error).toMatchObject({
      code: "PT402",
      message: "Payment Required",
      details: "Quota exceeded",
      hint: "Upgrade",
    });
  });

  test("stable function is read-only", async () => {
    const { error, status } = await service().rpc("writes_though_stable");
    expect([status, error?.code]).toEqual([405, "25006"]);
  });

  test("volatile function writes once", async () => {
    const key = unique("rpc");
    const { data, error } = await service().rpc("add_setting", { scope: "conformance", key });
    expect({ data, error }).toEqual({ data: 1, error: null });
    expect((await service().rpc("add_setting", { scope: "conformance", key })).error?.code).toBe("23505");
  });

  test("other methods and invalid bodies", async () => {
    const remove = await rest("rpc/add", {}, { method: "DELETE" });
    expect([remove.status, remove.json]).toMatchObject([
      405,
      { code: "PGRST101", message: "Cannot use the DELETE method on RPC" },
    ]);
    const broken = await rest("rpc/add", {}, { method: "POST", body: "{" });
    expect([broken.status, broken.json]).toMatchObject([400, { code: "PGRST102" }]);
  });
});
