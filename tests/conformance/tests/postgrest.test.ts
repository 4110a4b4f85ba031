import { createClient, type PostgrestError, type SupabaseClient } from "@supabase/supabase-js";
import { beforeAll, describe, expect, test } from "vitest";
import { type Person, person, unique, visitor } from "../support/clients";
import { anonKey, url } from "../support/environment";
import { all, used } from "../support/recorder";

// Uses every method and option of postgrest-js at least once; the last test verifies that.

const basalt = visitor();
const samples = () => basalt.from("samples").select("id");
let ada: Person;
beforeAll(async () => {
  ada = await person();
});

interface Options {
  db?: { schema?: string; timeout?: number; retry?: boolean };
  global?: { fetch?: typeof fetch; headers?: Record<string, string> };
}

/** A signed-out client with the given settings. */
function configured(options: Options): SupabaseClient {
  const auth = { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false };
  // Without generated types the client's types know no schema names.
  return createClient(url, anonKey, { auth, ...options } as Parameters<typeof createClient>[2]);
}

/** A fetch that records requests and responses. */
function watched() {
  const calls: { method: string; headers: Headers; status: number }[] = [];
  const fetcher: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    calls.push({ method: init?.method ?? "GET", headers: new Headers(init?.headers), status: response.status });
    return response;
  };
  return { calls, fetcher };
}

/** Three settings of one scope, ordered by key. */
async function scope(): Promise<string> {
  const name = unique("scope");
  const rows = ["a", "b", "c"].map((key, index) => ({ scope: name, key, value: index }));
  const { error } = await ada.client.from("settings").insert(rows);
  expect(error).toBeNull();
  return name;
}

/** The client types this method only for clients that name a version of PostgREST. */
function maxAffected<T>(query: T, rows: number): T {
  return (query as { maxAffected(rows: number): T }).maxAffected(rows);
}

describe("filters", () => {
  const cases: [string, ReturnType<typeof samples>, number[]][] = [
    ["eq", samples().eq("number", 10), [1]],
    ["neq", samples().neq("number", 10), [2, 3, 4]],
    ["gt", samples().gt("number", 20), [3, 4]],
    ["gte", samples().gte("number", 20), [2, 3, 4]],
    ["lt", samples().lt("number", 20), [1]],
    ["lte", samples().lte("number", 20), [1, 2]],
    ["like", samples().like("label", "al%"), [1]],
    ["ilike", samples().ilike("label", "AL*"), [1, 3]],
    ["likeAllOf", samples().likeAllOf("label", ["al*", "*a"]), [1]],
    ["likeAnyOf", samples().likeAnyOf("label", ["al%", "be%"]), [1, 2]],
    ["ilikeAllOf", samples().ilikeAllOf("label", ["AL%", "%BET"]), [3]],
    ["ilikeAnyOf", samples().ilikeAnyOf("label", ["AL%", "BETA"]), [1, 2, 3]],
    ["likeAllOf nothing is everything that is there", samples().likeAllOf("label", []), [1, 2, 3, 4, 5]],
    ["likeAnyOf nothing is nothing", samples().likeAnyOf("label", []), []],
    ["regexMatch", samples().regexMatch("label", "^al.{3}$"), [1]],
    ["regexMatch leaves stars alone", samples().regexMatch("label", "^b.*a$"), [2]],
    ["regexIMatch", samples().regexIMatch("label", "^AL"), [1, 3]],
    ["is null", samples().is("flag", null), [3]],
    ["is true", samples().is("flag", true), [1, 4]],
    ["isDistinct", samples().isDistinct("number", 10), [2, 3, 4, 5]],
    ["isDistinct of null is of the text", samples().isDistinct("label", null), [1, 2, 3, 4]],
    ["in", samples().in("label", ["alpha", "beta", "a,b"]), [1, 2]],
    ["in, an element with reserved characters", samples().in("label", ["x(y)", "alpha"]), [1]],
    ["in nothing", samples().in("number", []), []],
    ["notIn drops nulls", samples().notIn("number", [10, 20]), [3, 4]],
    ["notIn, texts", samples().notIn("label", ["alpha", "a,b", "null"]), [2, 3, 4]],
    ["notIn nothing", samples().notIn("number", []), [1, 2, 3, 4, 5]],
    ["contains, array", samples().contains("languages", ["en"]), [1, 2]],
    ["contains, numbers", samples().contains("numbers", [1, 2]), [1]],
    ["contains, object", samples().contains("data", { a: { b: 1 } }), [1]],
    ["contains, range", samples().contains("span", "[6,7)"), [1, 2]],
    ["containedBy, array", samples().containedBy("languages", ["en", "fr"]), [2, 3]],
    ["containedBy, object", samples().containedBy("data", { a: null, b: 1 }), [3, 5]],
    ["containedBy, range", samples().containedBy("span", "[0,12)"), [1]],
    ["overlaps, array", samples().overlaps("numbers", [3, 9]), [1, 2]],
    ["overlaps, range", samples().overlaps("span", "[9,11)"), [1, 2]],
    ["rangeLt", samples().rangeLt("span", "[10,20)"), [1]],
    ["rangeGt", samples().rangeGt("span", "[1,16)"), [3]],
    ["rangeGte", samples().rangeGte("span", "[5,10)"), [2, 3]],
    ["rangeLte", samples().rangeLte("span", "[1,15)"), [1, 2]],
    ["rangeAdjacent", samples().rangeAdjacent("span", "[15,20)"), [2, 3]],
    ["rangeLt, dates", samples().rangeLt("days", "[2026-02-15,2026-03-01)"), [1]],
    ["textSearch", samples().textSearch("search", "fox & !cat"), [1]],
    ["textSearch, plain", samples().textSearch("search", "lazy dog", { type: "plain" }), [2]],
    ["textSearch, phrase", samples().textSearch("search", "quick brown", { type: "phrase" }), [1]],
    ["textSearch, websearch", samples().textSearch("search", "fox -cat", { type: "websearch" }), [1]],
    ["textSearch, config", samples().textSearch("body", "jumping", { config: "english" }), [1]],
    [
      "textSearch, config and type",
      samples().textSearch("body", "fox jumps", { config: "english", type: "plain" }),
      [1],
    ],
    ["match", samples().match({ flag: true, number: 10, label: undefined }), [1]],
    ["not", samples().not("number", "in", "(10,20)"), [3, 4]],
    ["not is", samples().not("flag", "is", null), [1, 2, 4, 5]],
    ["not like(any)", samples().not("label", "like(any)", "{al*,be*}"), [3, 4, 5]],
    ["or", samples().or("number.eq.10,and(number.gt.30,flag.is.true)"), [1, 4]],
    ["filter", samples().filter("data->>s", "eq", "y"), [2]],
  ];

  test.each(cases)("%s", async (_, query, expected) => {
    const { data, error } = await query.order("id");
    expect(error).toBeNull();
    expect(data?.map((row) => row.id)).toEqual(expected);
  });
});

describe("in an embed", () => {
  const clients = () => basalt.from("clients").select("id, projects(id)").order("id");
  const inner = (data: { projects: { id: number }[] }[] | null) =>
    data?.map((row) => row.projects.map((project) => project.id));

  test.each(["referencedTable", "foreignTable"] as const)("order, limit, range and or accept %s", async (option) => {
    const descending = { ascending: false, [option]: "projects" };
    expect(inner((await clients().order("id", descending)).data)).toEqual([[2, 1], [3], []]);
    const one = await clients()
      .order("id", { [option]: "projects" })
      .limit(1, { [option]: "projects" });
    expect(inner(one.data)).toEqual([[1], [3], []]);
    const second = await clients()
      .order("id", { [option]: "projects" })
      .range(1, 1, { [option]: "projects" });
    expect(inner(second.data)).toEqual([[2], [], []]);
    const either = await clients().or("id.eq.1,name.eq.Audit", { [option]: "projects" });
    expect(inner(either.data)).toEqual([[1], [3], []]);
  });

  test("nulls first and last", async () => {
    const first = { nullsFirst: true, referencedTable: "tasks" };
    const { data } = await basalt.from("projects").select("tasks(id)").eq("id", 2).order("priority", first).single();
    expect(data?.tasks).toEqual([{ id: 5 }, { id: 4 }]);
  });

  test("several orders are combined", async () => {
    const { data } = await basalt
      .from("tasks")
      .select("id")
      .order("done", { ascending: false })
      .order("priority", { nullsFirst: true });
    expect(
      data
        ?.slice(0, 3)
        .map((row) => row.id)
        .sort(),
    ).toEqual([1, 4, 5]);
  });
});

describe("response formats", () => {
  const two = () => basalt.from("people").select("id, name, manager_id").lte("id", 2).order("id");

  test("limit and range", async () => {
    expect((await samples().order("id").limit(2)).data).toEqual([{ id: 1 }, { id: 2 }]);
    expect((await samples().order("id").range(3, 9)).data).toEqual([{ id: 4 }, { id: 5 }]);
  });

  test("single and maybeSingle", async () => {
    expect((await samples().eq("id", 1).single()).data).toEqual({ id: 1 });
    expect((await samples().eq("id", 99).single()).error?.code).toBe("PGRST116");
    expect((await samples().eq("id", 99).maybeSingle()).data).toBeNull();
    const many = await samples().maybeSingle();
    expect([many.status, many.error?.code]).toEqual([406, "PGRST116"]);
  });

  test("csv", async () => {
    const { data, error } = await two().csv();
    expect({ data, error }).toEqual({ data: "id,name,manager_id\n1,Ada,\n2,Bob,1", error: null });
  });

  test("geojson, with PostGIS", async () => {
    const { data, error } = await two().geojson();
    if (error) {
      expect(error.code).toBe("42883");
    } else {
      expect(data).toMatchObject({ type: "FeatureCollection" });
    }
  });

  test("explain, as text", async () => {
    const { data, error } = await two().explain();
    expect(error).toBeNull();
    expect(data).toMatch(/^Aggregate .*\n/);
    expect(data).toContain("people");
    expect(data).not.toContain("actual time");
  });

  test("explain, with every option", async () => {
    const options = { analyze: true, verbose: true, settings: true, buffers: true, wal: true, format: "json" } as const;
    const { data, error } = await two().explain(options);
    expect(error).toBeNull();
    expect(data).toEqual([
      expect.objectContaining({ Plan: expect.objectContaining({ "Actual Rows": expect.anything() }) }),
    ]);
    expect(JSON.stringify(data)).toContain('"Output"');
  });

  test("explain of a single row", async () => {
    const query = samples().eq("id", 1);
    query.single();
    const { data } = await query.explain();
    expect(data).toMatch(/^Aggregate/);
  });

  test("stripNulls for rows and single", async () => {
    expect((await two().stripNulls()).data).toEqual([
      { id: 1, name: "Ada" },
      { id: 2, name: "Bob", manager_id: 1 },
    ]);
    expect((await two().eq("id", 1).single().stripNulls()).data).toEqual({ id: 1, name: "Ada" });
    expect(() => two().csv().stripNulls()).toThrow("csv");
  });

  test("returns and overrideTypes change nothing", async () => {
    const retyped = await samples().eq("id", 1).returns<{ id: string }[]>();
    expect(retyped.data).toEqual([{ id: 1 }]);
    const overridden = await samples().eq("id", 1).single().overrideTypes<{ id: string }>();
    expect(overridden.data).toEqual({ id: 1 });
  });

  test.each(["exact", "planned", "estimated"] as const)("count %s", async (count) => {
    const read = await basalt.from("samples").select("id", { count });
    expect(read.count).toBeTypeOf("number");
    expect(read.count).not.toBeNaN();
    const head = await basalt.from("samples").select("*", { count, head: true });
    expect([head.data, head.error]).toEqual([null, null]);
    expect(head.count).toBe(read.count);
  });
});

describe("writes", () => {
  test("insert counts and applies missing=default", async () => {
    const rows = (name: string) => [
      { scope: name, key: "a", revision: 4 },
      { scope: name, key: "b" },
    ];
    const bare = unique("scope");
    const refused = await ada.client.from("settings").insert(rows(bare));
    expect(refused.error?.code).toBe("23502");
    const inserted = await ada.client
      .from("settings")
      .insert(rows(bare), { count: "exact", defaultToNull: false })
      .select("key, revision")
      .order("key");
    expect([inserted.status, inserted.count, inserted.data]).toEqual([
      201,
      2,
      [
        { key: "a", revision: 4 },
        { key: "b", revision: 1 },
      ],
    ]);
  });

  test("upsert with all options", async () => {
    const name = await scope();
    const rows = [
      { scope: name, key: "a", revision: 9 },
      { scope: name, key: "new" },
    ];
    const options = { onConflict: "scope,key", count: "exact", defaultToNull: false } as const;
    const ignored = await ada.client
      .from("settings")
      .upsert(rows, { ...options, ignoreDuplicates: true })
      .select("key, revision");
    expect([ignored.status, ignored.count, ignored.data]).toEqual([201, 1, [{ key: "new", revision: 1 }]]);
    const merged = await ada.client.from("settings").upsert(rows, options).select("key, revision").order("key");
    expect([merged.status, merged.count]).toEqual([200, 2]);
    expect(merged.data).toEqual([
      { key: "a", revision: 9 },
      { key: "new", revision: 1 },
    ]);
  });

  test("update and delete count", async () => {
    const name = await scope();
    const changed = await ada.client.from("settings").update({ revision: 2 }, { count: "exact" }).eq("scope", name);
    expect([changed.status, changed.count, changed.data]).toEqual([204, 3, null]);
    const gone = await ada.client.from("settings").delete({ count: "exact" }).eq("scope", name).gt("key", "a");
    expect([gone.status, gone.count]).toEqual([204, 2]);
  });

  test("rollback returns rows and stores nothing", async () => {
    const name = unique("scope");
    const dry = await ada.client.from("settings").insert({ scope: name, key: "a" }).select("key").rollback();
    expect([dry.status, dry.data]).toEqual([201, [{ key: "a" }]]);
    expect((await ada.client.from("settings").select().eq("scope", name)).data).toEqual([]);
  });

  test("maxAffected rolls back", async () => {
    const name = await scope();
    const settings = () => ada.client.from("settings");
    const many = await maxAffected(settings().update({ revision: 2 }).eq("scope", name), 2);
    expect([many.status, many.error]).toMatchObject([
      400,
      { code: "PGRST124", details: "The query affects 3 rows", hint: null },
    ]);
    expect((await maxAffected(settings().delete().eq("scope", name), 1)).error?.code).toBe("PGRST124");
    const fits = await maxAffected(settings().update({ revision: 3 }).eq("scope", name).select("revision"), 3);
    expect(fits.data).toEqual([{ revision: 3 }, { revision: 3 }, { revision: 3 }]);
    const called = await maxAffected(ada.client.rpc("rename_settings", { of_scope: name }), 2);
    expect(called.error?.code).toBe("PGRST124");
    expect((await maxAffected(ada.client.rpc("greet"), 1)).error?.code).toBe("PGRST128");
    const kept = await settings().select("value").eq("scope", name).order("key");
    expect(kept.data).toEqual([{ value: 0 }, { value: 1 }, { value: 2 }]);
  });
});

describe("rpc", () => {
  test("get sends arguments in the URL", async () => {
    const { calls, fetcher } = watched();
    const client = configured({ global: { fetch: fetcher } });
    expect((await client.rpc("add", { a: 1, b: undefined }, { get: true })).data).toBe(11);
    expect((await client.rpc("sum_of", { numbers: [1, 2] }, { get: true })).data).toBe(3);
    expect((await client.rpc("projects_of", { client: 1 }, { get: true }).order("id").limit(1)).data).toMatchObject([
      { id: 1 },
    ]);
    expect(calls.map((call) => call.method)).toEqual(["GET", "GET", "GET"]);
  });

  test("head counts, by HEAD or POST", async () => {
    const { calls, fetcher } = watched();
    const client = configured({ global: { fetch: fetcher } });
    const plain = await client.rpc("projects_of", { client: 1 }, { head: true, count: "exact" });
    expect([plain.data, plain.count, plain.status]).toEqual([null, 2, 200]);
    const object = await client.rpc("echo", { payload: { a: 1 } }, { head: true, count: "exact" });
    expect([object.error, object.count]).toEqual([null, 1]);
    expect(calls.map((call) => call.method)).toEqual(["HEAD", "POST"]);
  });

  test("result can be selected and counted", async () => {
    const { data, count } = await basalt.rpc("task_totals", {}, { count: "exact" }).select("total").eq("project_id", 1);
    expect([data, count]).toEqual([[{ total: 3 }], 1]);
  });
});

describe("schemas", () => {
  test("schema() selects another schema", async () => {
    expect((await basalt.schema("other").from("items").select()).data).toEqual([{ id: 1, name: "elsewhere" }]);
    expect((await basalt.schema("other").rpc("place")).data).toBe("other");
    expect((await basalt.from("items").select()).error?.code).toBe("PGRST205");
    const elsewhere = configured({ db: { schema: "other" } });
    expect((await elsewhere.from("items").select("name").single()).data).toEqual({ name: "elsewhere" });
  });

  test("unexposed schema: error lists the exposed ones", async () => {
    const { error, status } = await basalt.schema("auth").from("users").select();
    expect([status, error]).toMatchObject([
      406,
      { code: "PGRST106", hint: "Only the following schemas are exposed: public, other" },
    ]);
  });

  test("getOpenApiSpec describes the client's schema", async () => {
    const { data, error, status } = await basalt.schema("public").getOpenApiSpec();
    expect([status, error]).toEqual([200, null]);
    expect(data).toMatchObject({ swagger: "2.0", paths: { "/samples": { get: {} }, "/rpc/add": { post: {} } } });
    const other = (await basalt.schema("other").getOpenApiSpec()).data as { paths?: object } | null;
    expect(Object.keys(other?.paths ?? {}).sort()).toEqual(["/", "/items", "/rpc/place"]);
  });
});

describe("headers, retries and aborts", () => {
  test("setHeader is sent", async () => {
    const { data } = await basalt.rpc("header_of", { name: "x-sent" }).setHeader("X-Sent", "so");
    expect(data).toBe("so");
  });

  test("client headers are sent", async () => {
    const client = configured({ global: { headers: { "X-Sent": "always" } } });
    expect((await client.rpc("header_of", { name: "x-sent" })).data).toBe("always");
  });

  test("retries after Retry-After", async () => {
    const { calls, fetcher } = watched();
    const client = configured({ global: { fetch: fetcher } });
    const { data, error } = await client.rpc("busy_until", { retries: 2 }, { get: true });
    expect([data, error]).toEqual([2, null]);
    expect(calls.map((call) => call.status)).toEqual([503, 503, 200]);
    expect(calls.map((call) => call.headers.get("x-retry-count"))).toEqual([null, "1", "2"]);
  });

  test("no retry if disabled or not idempotent", async () => {
    const { calls, fetcher } = watched();
    const client = configured({ global: { fetch: fetcher } });
    const once = await client.rpc("busy_until", { retries: 1 }, { get: true }).retry(false);
    expect([once.status, once.error]).toMatchObject([503, { code: "PT503", message: "Busy" }]);
    expect((await client.rpc("busy_until", { retries: 1 })).status).toBe(503);
    expect(calls.map((call) => call.method)).toEqual(["GET", "POST"]);
    const never = configured({ db: { retry: false } });
    expect((await never.rpc("busy_until", { retries: 1 }, { get: true })).status).toBe(503);
    const own = watched();
    await basalt.from("samples", { fetch: own.fetcher, retry: false }).select().eq("id", "x");
    expect(own.calls.map((call) => call.status)).toEqual([400]);
  });

  test("abortSignal aborts a request", async () => {
    const aborted = await basalt.rpc("sleep", { seconds: 2 }).abortSignal(AbortSignal.timeout(100));
    expect([aborted.data, aborted.status]).toEqual([null, 0]);
    expect(aborted.error?.message).toMatch(/TimeoutError|AbortError/);
    const already = await samples().abortSignal(AbortSignal.abort());
    expect(already.error?.hint).toBe("Request was aborted (timeout or manual cancellation)");
    const long = basalt.from("samples", { urlLengthLimit: 10 }).select().abortSignal(AbortSignal.abort());
    expect((await long).error?.hint).toContain("Your request URL is");
  });

  test("client timeout aborts a request", async () => {
    const hasty = configured({ db: { timeout: 100 } });
    const { error, status } = await hasty.rpc("sleep", { seconds: 2 });
    expect([status, error?.message]).toEqual([0, expect.stringMatching(/AbortError/)]);
  });

  test("throwOnError throws the full error", async () => {
    const failing = basalt.rpc("fail", { message: "no" }).throwOnError();
    const failure = await failing.then(
      () => undefined,
      (error: unknown) => error,
    );
    const fields = { code: "P0001", message: "no", details: "the detail", hint: "the hint" };
    expect(failure).toMatchObject({ name: "PostgrestError", ...fields });
    expect((failure as PostgrestError).toJSON()).toEqual({ name: "PostgrestError", ...fields });
    await expect(samples().eq("id", 99).single().throwOnError()).rejects.toMatchObject({ code: "PGRST116" });
    const { data } = await samples().eq("id", 1).throwOnError();
    expect(data).toEqual([{ id: 1 }]);
  });
});

test("every client method is covered", () => {
  expect(all.size).toBeGreaterThan(90);
  expect([...all].filter((entry) => !used.has(entry))).toEqual([]);
});
