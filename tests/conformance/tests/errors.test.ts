import { beforeAll, describe, expect, test } from "vitest";
import { type Person, person, service, unique, visitor } from "../support/clients";
import { type Call, rest } from "../support/http";

const basalt = visitor();
let ada: Person;
beforeAll(async () => {
  ada = await person();
});

describe("invalid requests", () => {
  const cases: [string, string, Record<string, string>, Call, number, Record<string, unknown>][] = [
    [
      "an unknown table",
      "nowhere",
      {},
      {},
      404,
      { code: "PGRST205", message: "Could not find the table 'public.nowhere' in the schema cache" },
    ],
    [
      "a misspelled table, with a hint",
      "project",
      {},
      {},
      404,
      {
        code: "PGRST205",
        details: null,
        hint: "Perhaps you meant the table 'public.projects'",
        message: "Could not find the table 'public.project' in the schema cache",
      },
    ],
    [
      "a path too deep",
      "samples/1",
      {},
      {},
      404,
      { code: "PGRST125", message: "Invalid path specified in request URL" },
    ],
    ["a trailing slash", "samples/", {}, {}, 404, { code: "PGRST125" }],
    [
      "a schema that is not exposed",
      "users",
      {},
      { headers: { "accept-profile": "auth" } },
      406,
      { code: "PGRST106", message: "Invalid schema: auth" },
    ],
    [
      "a method that is none",
      "samples",
      {},
      { method: "TRACE2" },
      405,
      { code: "PGRST117", message: "Unsupported HTTP method: TRACE2" },
    ],
    ["an unknown operator", "samples", { id: "noop.0" }, {}, 400, { code: "PGRST100" }],
    ["a filter without operator", "samples", { id: "1" }, {}, 400, { code: "PGRST100" }],
    ["a broken select", "samples", { select: "id,(" }, {}, 400, { code: "PGRST100" }],
    ["a broken order", "samples", { order: "id.up" }, {}, 400, { code: "PGRST100" }],
    ["an empty or", "samples", { or: "()" }, {}, 400, { code: "PGRST100" }],
    ["a broken or", "samples", { or: "(id.eq.1" }, {}, 400, { code: "PGRST100" }],
    ["is with something else", "samples", { flag: "is.maybe" }, {}, 400, { code: "PGRST100" }],
    ["an operator that takes no quantifier", "samples", { id: "neq(any).{1}" }, {}, 400, { code: "PGRST100" }],
    [
      "a media type nobody makes",
      "samples",
      {},
      { headers: { accept: "text/unknown" } },
      406,
      { code: "PGRST107", message: "None of these media types are available: text/unknown" },
    ],
    [
      "an unknown column",
      "samples",
      { nope: "eq.1" },
      {},
      400,
      { code: "42703", message: "column samples.nope does not exist" },
    ],
    ["an unknown column in select", "samples", { select: "nope" }, {}, 400, { code: "42703" }],
    ["a value of the wrong type", "samples", { id: "eq.one" }, {}, 400, { code: "22P02" }],
    ["an operator the type has not", "samples", { flag: "like.x*" }, {}, 404, { code: "42883" }],
  ];

  test.each(cases)("%s", async (_, path, parameters, options, status, body) => {
    const response = await rest(path, parameters, options);
    expect(response.json).toMatchObject(body);
    expect(response.status).toBe(status);
    // Every error has the same four keys and repeats its code in a header.
    expect(Object.keys(response.json as object).sort()).toEqual(["code", "details", "hint", "message"]);
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(response.headers.get("proxy-status")).toBe(`PostgREST; error=${body.code}`);
  });

  test("Accept */* returns JSON", async () => {
    const response = await rest("samples", { select: "id", id: "eq.1" }, { headers: { accept: "text/unknown, */*" } });
    expect([response.status, response.json]).toEqual([200, [{ id: 1 }]]);
  });
});

describe("bodies", () => {
  const post = (body: unknown, headers: Record<string, string> = {}, parameters: Record<string, string> = {}) =>
    rest("stock", parameters, { method: "POST", token: ada.session.access_token, body, headers });

  test("rejects malformed, uneven and unknown bodies", async () => {
    expect(await post("{")).toMatchObject({
      status: 400,
      json: { code: "PGRST102", message: "Empty or invalid json" },
    });
    expect(await post("")).toMatchObject({ status: 400, json: { code: "PGRST102", message: "Empty or invalid json" } });
    expect(await post([{ sku: "a" }, { quantity: 1 }])).toMatchObject({
      status: 400,
      json: { code: "PGRST102", message: "All object keys must match" },
    });
    expect(await post("x", { "content-type": "text/plain" })).toMatchObject({
      status: 400,
      json: { code: "PGRST102", message: "Content-Type not acceptable: text/plain" },
    });
  });

  test("rejects an unknown column", async () => {
    expect(await post({ sku: unique("sku"), nope: 1 })).toMatchObject({
      status: 400,
      json: { code: "PGRST204", message: "Could not find the 'nope' column of 'stock' in the schema cache" },
    });
    const { error } = await ada.client.from("stock").insert([{ nope: 1 }]);
    expect(error?.code).toBe("PGRST204");
  });

  test("PostgreSQL rejects invalid JSON with columns=", async () => {
    expect(await post("[{]", {}, { columns: "sku" })).toMatchObject({ status: 400, json: { code: "22P02" } });
  });

  test("DELETE without a body is accepted", async () => {
    const response = await rest(
      "stock",
      { sku: "eq.nobody" },
      {
        method: "DELETE",
        token: ada.session.access_token,
        headers: { "content-type": "application/json" },
      },
    );
    expect([response.status, response.text]).toEqual([204, ""]);
  });
});

describe("database errors", () => {
  test("unique violation: 409, key shown only without RLS", async () => {
    const sku = unique("sku");
    await ada.client.from("stock").insert({ sku });
    const { error, status } = await ada.client.from("stock").insert({ sku });
    expect(status).toBe(409);
    const body = {
      code: "23505",
      details: null,
      hint: null,
      message: 'duplicate key value violates unique constraint "stock_sku_key"',
    };
    expect(error).toMatchObject(body);
    const forService = await service().from("stock").insert({ sku });
    expect(forService.error).toMatchObject({ ...body, details: `Key (sku)=(${sku}) already exists.` });
  });

  test("foreign key violation: 409", async () => {
    const { error, status } = await ada.client.from("stock").insert({ sku: unique("sku"), client_id: 99 });
    expect([status, error?.code]).toEqual([409, "23503"]);
    const note = await ada.client.from("note_comments").insert({ note_id: -1, body: "x" });
    // The policy is evaluated before the key constraint.
    expect([note.status, note.error?.code]).toEqual([403, "42501"]);
  });

  test("check, not-null and type errors: 400", async () => {
    const check = await ada.client.from("stock").insert({ sku: unique("sku"), quantity: -1 });
    expect([check.status, check.error?.code]).toEqual([400, "23514"]);
    const missing = await ada.client.from("stock").insert({ quantity: 1 });
    expect([missing.status, missing.error?.code]).toEqual([400, "23502"]);
    const type = await ada.client.from("stock").insert({ sku: unique("sku"), quantity: "many" });
    expect([type.status, type.error?.code]).toEqual([400, "22P02"]);
  });

  test("trigger exception: 400 with its text", async () => {
    const { error, status } = await service().from("forbidden").insert({ id: 1 });
    expect(status).toBe(400);
    expect(error).toMatchObject({ code: "P0001", message: "this table takes no rows", details: null, hint: null });
  });

  test("anon statement times out after 3 s: 500", async () => {
    const start = performance.now();
    const { error, status } = await basalt.rpc("sleep", { seconds: 10 });
    expect(status).toBe(500);
    expect(error).toMatchObject({ code: "57014", message: "canceling statement due to statement timeout" });
    expect(performance.now() - start).toBeLessThan(9000);
  });
});

describe("preferences", () => {
  const get = (prefer: string) => rest("samples", { select: "id" }, { headers: { prefer } });

  test("unknown ones are ignored", async () => {
    const response = await get("return=foo, count=none, nonsense=1, count=exact");
    expect([response.status, response.headers.get("preference-applied")]).toEqual([200, "count=exact"]);
  });

  test("no header if none applies", async () => {
    expect((await get("nonsense=1")).headers.get("preference-applied")).toBeNull();
  });
});

describe("client", () => {
  test("throwOnError throws the server's error", async () => {
    await expect(basalt.from("nowhere").select().throwOnError()).rejects.toMatchObject({ code: "PGRST205" });
  });

  test("injected text remains a value", async () => {
    const nasty = `x'; drop table samples; --"\\ %_*()`;
    expect((await basalt.from("samples").select("id").eq("label", nasty)).data).toEqual([]);
    const { data } = await ada.client.from("notes").insert({ title: nasty }).select("title").single();
    expect(data).toEqual({ title: nasty });
    expect((await ada.client.from("notes").select("title").eq("title", nasty)).data).toEqual([{ title: nasty }]);
  });

  test("identifiers stay quoted", async () => {
    const { error, status } = await basalt.from("samples").select('id, "x"" from pg_authid; --"');
    expect(status).toBe(400);
    expect(["42703", "PGRST100"]).toContain(error?.code);
  });

  test("accepts a URL of 40 KB", async () => {
    const wanted = Array.from({ length: 1000 }, () => crypto.randomUUID());
    const { error, data } = await basalt
      .from("samples")
      .select("id")
      .in("label", [...wanted, "alpha"]);
    expect(error).toBeNull();
    expect(data).toEqual([{ id: 1 }]);
  });
});
