import { describe, expect, test } from "vitest";
import { visitor } from "../support/clients";
import { rest } from "../support/http";

const basalt = visitor();
const samples = () => basalt.from("samples").select("id");

/** The ids of a query on `samples`, in order of id. */
async function ids(query: ReturnType<typeof samples>): Promise<number[]> {
  const { data, error } = await query.order("id");
  expect(error).toBeNull();
  return (data ?? []).map((row) => row.id);
}

describe("operators", () => {
  const cases: [string, ReturnType<typeof samples>, number[]][] = [
    ["eq", samples().eq("number", 10), [1]],
    ["neq drops nulls", samples().neq("number", 10), [2, 3, 4]],
    ["gt", samples().gt("number", 20), [3, 4]],
    ["gte", samples().gte("number", 20), [2, 3, 4]],
    ["lt", samples().lt("number", 20), [1]],
    ["lte", samples().lte("number", 20), [1, 2]],
    ["eq of an enum", samples().eq("mood", "sad"), [3]],
    ["eq of null is the text null", samples().filter("label", "eq", null), [5]],
    ["gte of a timestamp", samples().gte("happened_at", "2026-06-01T00:00:00.000Z"), [2]],
    ["an offset in a timestamp is kept", samples().eq("happened_at", "2026-06-01T02:00:00+02:00"), [2]],

    ["like", samples().like("label", "al%"), [1]],
    ["like with a star", samples().like("label", "al*"), [1]],
    ["like with an underscore", samples().like("label", "alph_"), [1]],
    ["ilike", samples().ilike("label", "al%"), [1, 3]],
    ["likeAllOf", samples().likeAllOf("label", ["al%", "%a"]), [1]],
    ["likeAnyOf", samples().likeAnyOf("label", ["al%", "be*"]), [1, 2]],
    ["ilikeAllOf", samples().ilikeAllOf("label", ["AL%", "%BET"]), [3]],
    ["ilikeAnyOf", samples().ilikeAnyOf("label", ["AL%", "BETA"]), [1, 2, 3]],
    ["match", samples().filter("label", "match", "^al"), [1]],
    ["imatch", samples().filter("label", "imatch", "^al"), [1, 3]],
    ["eq(any)", samples().filter("number", "eq(any)", "{10,30}"), [1, 3]],
    ["gt(all)", samples().filter("number", "gt(all)", "{10,20}"), [3, 4]],

    ["is null", samples().is("flag", null), [3]],
    ["is true", samples().is("flag", true), [1, 4]],
    ["is false", samples().is("flag", false), [2, 5]],
    ["is unknown", samples().filter("flag", "is", "unknown"), [3]],
    ["is not_null", samples().filter("flag", "is", "not_null"), [1, 2, 4, 5]],
    ["is NULL, in capitals", samples().filter("flag", "is", "NULL"), [3]],
    ["isdistinct keeps nulls", samples().filter("number", "isdistinct", "10"), [2, 3, 4, 5]],

    ["in", samples().in("number", [10, 30]), [1, 3]],
    ["in, texts", samples().in("label", ["alpha", "beta", "a,b"]), [1, 2]],
    ["in, nothing", samples().in("number", []), []],
    ["not in", samples().not("number", "in", "(10,20)"), [3, 4]],
    ["not in nothing", samples().not("number", "in", "()"), [1, 2, 3, 4, 5]],
    ["in, quoted element", samples().filter("label", "in", '(alpha,"with, comma (and) \\"quotes\\"")'), [1, 4]],
    ["not gt drops nulls", samples().not("number", "gt", 20), [1, 2]],
    ["not is null", samples().not("flag", "is", null), [1, 2, 4, 5]],
    ["match of an object", samples().match({ flag: true, number: 10 }), [1]],
    ["two filters on one column", samples().gt("number", 10).lt("number", 40), [2, 3]],

    ["cs, array", samples().contains("languages", ["en"]), [1, 2]],
    ["cs, object", samples().contains("data", { s: "x" }), [1]],
    ["cd, array", samples().containedBy("languages", ["en", "de", "fr"]), [1, 2, 3]],
    ["ov, array", samples().overlaps("numbers", [3]), [1, 2]],
    ["cs, range", samples().contains("span", "[6,7)"), [1, 2]],
    ["cd, range", samples().containedBy("span", "[0,12)"), [1]],
    ["ov, range", samples().overlaps("span", "[9,11)"), [1, 2]],
    ["sl", samples().rangeLt("span", "[10,20)"), [1]],
    ["sr", samples().rangeGt("span", "[1,16)"), [3]],
    ["nxl", samples().rangeGte("span", "[5,10)"), [2, 3]],
    ["nxr", samples().rangeLte("span", "[1,15)"), [1, 2]],
    ["adj", samples().rangeAdjacent("span", "[15,20)"), [2, 3]],

    ["fts", samples().textSearch("search", "fox"), [1, 3]],
    ["fts, two words", samples().textSearch("search", "fox & quick"), [1]],
    ["plfts", samples().textSearch("search", "lazy dog", { type: "plain" }), [2]],
    ["phfts", samples().textSearch("search", "quick brown", { type: "phrase" }), [1]],
    ["wfts", samples().textSearch("search", "fox -cat", { type: "websearch" }), [1]],
    ["fts with a configuration on text", samples().textSearch("body", "jumping", { config: "english" }), [1]],

    ["json text", samples().eq("data->>s", "x"), [1]],
    ["json path", samples().eq("data->a->>b", "2"), [2]],
    ["json comparison", samples().gt("data->a->b", 1), [2]],
    ["json string", samples().eq("data->s", '"y"'), [2]],
    ["json index", samples().eq("data->list->>0", "10"), [1]],
    ["json index from the end", samples().eq("data->list->>-1", "20"), [1]],
    ["json null is not a missing key", samples().is("data->a", null), [3, 4]],
    ["composite", samples().eq("location->>lat", "1.5"), [1]],
    ["array element", samples().eq("languages->>1", "de"), [1]],

    ["column with a blank", samples().eq("First Name", "Ann"), [1]],
    ["column with a comma, quoted", samples().eq('"odd,name"', "comma"), [1]],
    ["value with quotes, comma and parentheses", samples().eq("label", 'with, comma (and) "quotes"'), [4]],
  ];

  test.each(cases)("%s", async (_, query, expected) => {
    expect(await ids(query)).toEqual(expected);
  });
});

describe("logic", () => {
  const cases: [string, ReturnType<typeof samples>, number[]][] = [
    ["or", samples().or("number.eq.10,label.eq.beta"), [1, 2]],
    ["and inside or", samples().or("and(number.gte.20,number.lte.30),flag.is.null"), [2, 3]],
    ["not inside or", samples().or("not.and(id.gte.2,id.lte.5)"), [1]],
    ["negated operator", samples().or("id.eq.1,flag.not.is.null"), [1, 2, 4, 5]],
    ["quoted value", samples().or('label.eq."with, comma (and) \\"quotes\\"",id.eq.1'), [1, 4]],
    ["array, list and plain value", samples().or("languages.cs.{en,de},id.in.(3,4)"), [1, 3, 4]],
    ["quoted range", samples().or('span.cs."[6,7)",id.eq.5'), [1, 2, 5]],
    ["timestamp", samples().or("happened_at.gte.2026-06-01T00:00:00.000Z,id.eq.3"), [2, 3]],
    ["json path", samples().or("data->>s.eq.x,id.eq.3"), [1, 3]],
    ["two ors are combined with and", samples().or("id.eq.1,id.eq.2").or("flag.is.true,id.eq.3"), [1]],
  ];

  test.each(cases)("%s", async (_, query, expected) => {
    expect(await ids(query)).toEqual(expected);
  });

  test("top-level and, not.or", async () => {
    const not = await rest("samples", { select: "id", "not.or": "(id.eq.1,id.eq.2)", order: "id" });
    expect(not.json).toEqual([{ id: 3 }, { id: 4 }, { id: 5 }]);
    const and = await rest("samples", { select: "id", and: "(id.gt.1,or(flag.is.true,flag.is.null))", order: "id" });
    expect(and.json).toEqual([{ id: 3 }, { id: 4 }]);
  });
});

describe("order", () => {
  const order = async (query: PromiseLike<{ data: { id: number }[] | null; error: unknown }>) => {
    const { data, error } = await query;
    expect(error).toBeNull();
    return data?.map((row) => row.id);
  };

  test("ascending puts nulls last, descending first", async () => {
    expect(await order(samples().order("number"))).toEqual([1, 2, 3, 4, 5]);
    expect(await order(samples().order("number", { ascending: false }))).toEqual([5, 4, 3, 2, 1]);
  });

  test("nulls first and last", async () => {
    expect(await order(samples().order("number", { nullsFirst: true }))).toEqual([5, 1, 2, 3, 4]);
    expect(await order(samples().order("number", { ascending: false, nullsFirst: false }))).toEqual([4, 3, 2, 1, 5]);
  });

  test("several terms", async () => {
    const query = samples().order("flag", { nullsFirst: true }).order("number", { ascending: false });
    expect(await order(query)).toEqual([3, 5, 2, 4, 1]);
  });

  test("by JSON path", async () => {
    const query = samples().in("id", [1, 2, 3]).order("data->>s", { ascending: false, nullsFirst: false });
    expect(await order(query)).toEqual([2, 1, 3]);
  });
});

describe("columns", () => {
  const one = (columns: string) => basalt.from("samples").select(columns).eq("id", 1).single();

  test("select keeps the column order", async () => {
    const response = await rest("samples", { select: "label,id", id: "eq.1" });
    expect(Object.keys((response.json as object[])[0] ?? {})).toEqual(["label", "id"]);
  });

  test("no select, a star and an empty select are all columns", async () => {
    const all = await rest("people", { id: "eq.2" });
    expect(all.json).toEqual([{ id: 2, name: "Bob", manager_id: 1 }]);
    expect((await rest("people", { id: "eq.2", select: "*" })).json).toEqual(all.json);
    expect((await rest("people", { id: "eq.2", select: "" })).json).toEqual(all.json);
  });

  test("aliases and casts", async () => {
    const { data } = await one("name:label, text:number::text, exact:big::text");
    expect(data).toEqual({ name: "alpha", text: "10", exact: "9007199254740993" });
  });

  test("JSON paths are named by their last key", async () => {
    expect((await one("data->a->b")).data).toEqual({ b: 1 });
    expect((await one("data->>s")).data).toEqual({ s: "x" });
    expect((await one("data->list->0")).data).toEqual({ list: 10 });
    expect((await one("n:data->a->>b::int")).data).toEqual({ n: 1 });
    expect((await one("data->nope->>deeper")).data).toEqual({ deeper: null });
    expect((await one("location->>lat, languages->0")).data).toEqual({ lat: "1.5", languages: "en" });
  });

  test("quoted and unusual names", async () => {
    expect((await one('"First Name", "odd,name"')).data).toEqual({ "First Name": "Ann", "odd,name": "comma" });
  });

  test("count without parentheses counts", async () => {
    expect((await basalt.from("samples").select("count")).data).toEqual([{ count: 5 }]);
  });

  test("views can be read", async () => {
    const { data } = await basalt.from("open_tasks").select("id").order("id");
    expect(data).toEqual([{ id: 2 }, { id: 3 }, { id: 5 }, { id: 6 }]);
  });

  test("values match PostgreSQL's JSON", async () => {
    const { data } = await one(
      "amount, ratio, flag, mood, languages, numbers, span, days, happened_at, local_at, bytes, location",
    );
    expect(data).toEqual({
      amount: 12.5,
      ratio: 0.5,
      flag: true,
      mood: "happy",
      languages: ["en", "de"],
      numbers: [1, 2, 3],
      span: "[1,10)",
      days: "[2026-01-01,2026-02-01)",
      happened_at: "2026-01-02T03:04:05.6+00:00",
      local_at: "2026-01-02T03:04:05",
      bytes: "\\x00ff",
      location: { lat: 1.5, long: 2.5 },
    });
  });

  test("numbers keep their digits, json its text", async () => {
    const response = await rest("samples", { select: "big,amount,written", id: "eq.1" });
    expect(response.text).toContain('"big":9007199254740993');
    expect(response.text).toContain('"amount":12.50');
    expect(response.text).toContain('"written":{"z": 1, "a": 2}');
  });
});

describe("ranges and counts", () => {
  test("limit and range", async () => {
    expect((await samples().order("id").limit(2)).data).toEqual([{ id: 1 }, { id: 2 }]);
    expect((await samples().order("id").range(1, 2)).data).toEqual([{ id: 2 }, { id: 3 }]);
    expect((await samples().order("id").range(4, 9)).data).toEqual([{ id: 5 }]);
  });

  test("exact count ignores limit, respects filters", async () => {
    const all = await basalt.from("samples").select("id", { count: "exact" }).limit(2);
    expect([all.status, all.count, all.data?.length]).toEqual([206, 5, 2]);
    const some = await basalt.from("samples").select("id", { count: "exact" }).gt("number", 20);
    expect([some.status, some.count]).toEqual([200, 2]);
  });

  test("head returns only the count", async () => {
    const { count, data, status, error } = await basalt.from("samples").select("*", { count: "exact", head: true });
    expect({ count, data, status, error }).toEqual({ count: 5, data: null, status: 200, error: null });
    const none = await basalt.from("samples").select("*", { count: "exact", head: true }).eq("id", 99);
    expect(none.count).toBe(0);
  });

  test("planned and estimated counts are numbers", async () => {
    const planned = await basalt.from("samples").select("id", { count: "planned" });
    expect(planned.count).toBeTypeOf("number");
    expect(planned.count).not.toBeNaN();
    expect((await basalt.from("samples").select("id", { count: "estimated" })).count).toBe(5);
  });

  const range = async (parameters: Record<string, string>, headers: Record<string, string> = {}) => {
    const response = await rest("samples", { select: "id", order: "id", ...parameters }, { headers });
    return [response.status, response.headers.get("content-range")];
  };
  const exact = { prefer: "count=exact" };

  test("Content-Range has range and total", async () => {
    expect(await range({})).toEqual([200, "0-4/*"]);
    expect(await range({}, exact)).toEqual([200, "0-4/5"]);
    expect(await range({ limit: "2", offset: "1" })).toEqual([200, "1-2/*"]);
    expect(await range({ limit: "2", offset: "1" }, exact)).toEqual([206, "1-2/5"]);
    expect(await range({ limit: "9" }, exact)).toEqual([200, "0-4/5"]);
    expect(await range({ limit: "0" })).toEqual([200, "*/*"]);
    expect(await range({ limit: "0" }, exact)).toEqual([206, "*/5"]);
    expect(await range({ id: "eq.99" })).toEqual([200, "*/*"]);
    expect(await range({ id: "eq.99" }, exact)).toEqual([200, "*/0"]);
  });

  test("offset beyond the end is an error with a count", async () => {
    expect(await range({ offset: "5" })).toEqual([200, "*/*"]);
    expect(await range({ offset: "100" })).toEqual([200, "*/*"]);
    expect(await range({ offset: "5" }, exact)).toEqual([206, "*/5"]);
    const beyond = await rest("samples", { offset: "100" }, { headers: exact });
    expect([beyond.status, beyond.headers.get("content-range")]).toEqual([416, "*/5"]);
    expect(beyond.json).toEqual({
      code: "PGRST103",
      message: "Requested range not satisfiable",
      details: "An offset of 100 was requested, but there are only 5 rows.",
      hint: null,
    });
  });

  test("negative limit is an error, non-number is ignored", async () => {
    const negative = await rest("samples", { limit: "-1" });
    expect([negative.status, negative.json]).toEqual([
      416,
      {
        code: "PGRST103",
        message: "Requested range not satisfiable",
        details: "Limit should be greater than or equal to zero.",
        hint: null,
      },
    ]);
    expect(await range({ limit: "many" })).toEqual([200, "0-4/*"]);
    expect(await range({ offset: "-3" })).toEqual([200, "0-4/*"]);
  });
});

describe("single and maybeSingle", () => {
  test("one row is an object", async () => {
    const { data, error } = await samples().eq("id", 2).single();
    expect({ data, error }).toEqual({ data: { id: 2 }, error: null });
    expect((await samples().eq("id", 2).maybeSingle()).data).toEqual({ id: 2 });
  });

  test("no row", async () => {
    const { error, status } = await samples().eq("id", 99).single();
    expect(status).toBe(406);
    expect(error).toMatchObject({
      code: "PGRST116",
      details: "The result contains 0 rows",
      hint: null,
      message: "Cannot coerce the result to a single JSON object",
    });
    expect(await samples().eq("id", 99).maybeSingle()).toMatchObject({ data: null, error: null });
  });

  test("more than one row", async () => {
    const { error, status } = await samples().single();
    expect([status, error?.code, error?.details]).toEqual([406, "PGRST116", "The result contains 5 rows"]);
    expect((await samples().maybeSingle()).error?.code).toBe("PGRST116");
  });

  test("response has the singular type", async () => {
    const accept = "application/vnd.pgrst.object+json";
    const response = await rest("samples", { select: "id", id: "eq.1" }, { headers: { accept } });
    expect([response.headers.get("content-type"), response.text]).toEqual([`${accept}; charset=utf-8`, '{"id":1}']);
  });
});

describe("response headers", () => {
  test("read has type, profile, location and vary", async () => {
    const response = await rest(
      "samples",
      { select: "id,label", order: "id", limit: "1" },
      { headers: { prefer: "count=exact", "accept-profile": "public" } },
    );
    const headers = Object.fromEntries(
      ["content-type", "content-profile", "content-location", "preference-applied", "vary"].map((name) => [
        name,
        response.headers.get(name),
      ]),
    );
    expect(headers).toMatchObject({
      "content-type": "application/json; charset=utf-8",
      "content-profile": "public",
      "content-location": "/samples?limit=1&order=id&select=id%2Clabel",
      "preference-applied": "count=exact",
    });
    for (const name of ["Accept", "Prefer", "Range"]) expect(headers.vary).toContain(name);
  });

  test("HEAD has headers but no body", async () => {
    const response = await rest("samples", { select: "id" }, { method: "HEAD", headers: { prefer: "count=exact" } });
    expect([response.status, response.text, response.headers.get("content-range")]).toEqual([200, "", "0-4/5"]);
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
  });

  test("CORS exposes Content-Range", async () => {
    const response = await rest("samples", {}, { headers: { origin: "https://elsewhere.example" } });
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("access-control-expose-headers")).toMatch(/content-range/i);
  });

  test("preflight needs no key", async () => {
    const response = await rest(
      "samples",
      {},
      {
        method: "OPTIONS",
        key: null,
        headers: {
          origin: "https://elsewhere.example",
          "access-control-request-method": "PATCH",
          "access-control-request-headers": "apikey,x-retry-count",
        },
      },
    );
    expect(response.status).toBe(200);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("access-control-allow-methods")).toContain("PATCH");
    expect(response.headers.get("access-control-allow-headers")).toMatch(/apikey/i);
    expect(response.headers.get("access-control-allow-headers")).toMatch(/x-retry-count/i);
    expect(response.headers.get("access-control-max-age")).toBe("86400");
  });
});
