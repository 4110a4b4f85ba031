import { beforeAll, describe, expect, test } from "vitest";
import { type Person, person, service, unique, visitor } from "../support/clients";
import { rest } from "../support/http";

let ada: Person;
beforeAll(async () => {
  ada = await person();
});

/** Adds notes owned by Ada and returns their ids. */
async function notes(...rows: Record<string, unknown>[]): Promise<number[]> {
  const { data, error } = await ada.client.from("notes").insert(rows).select("id");
  expect(error).toBeNull();
  return (data ?? []).map((row) => row.id);
}

describe("insert", () => {
  test("without select: 201 without a body", async () => {
    const { data, error, status } = await ada.client.from("notes").insert({ title: "plain" });
    expect({ data, error, status }).toEqual({ data: null, error: null, status: 201 });
  });

  test("with select: the stored row with defaults", async () => {
    const { data, error, status } = await ada.client.from("notes").insert({ title: "shown" }).select();
    expect([status, error]).toEqual([201, null]);
    expect(data).toHaveLength(1);
    expect(data?.[0]).toMatchObject({
      title: "shown",
      owner_id: ada.user.id,
      rank: 7,
      labels: [],
      body: null,
      meta: null,
    });
  });

  test("select and single shape the result", async () => {
    const { data } = await ada.client.from("notes").insert({ title: "one", rank: 3 }).select("title, rank").single();
    expect(data).toEqual({ title: "one", rank: 3 });
  });

  test("every type accepts JSON and text", async () => {
    const { data, error } = await ada.client
      .from("notes")
      .insert({ title: "types", rank: "42", labels: ["a", 'b"c', "d,e"], meta: { deep: [1, null, { x: "ü" }] } })
      .select("rank, labels, meta")
      .single();
    expect(error).toBeNull();
    expect(data).toEqual({ rank: 42, labels: ["a", 'b"c', "d,e"], meta: { deep: [1, null, { x: "ü" }] } });
    const literal = await ada.client
      .from("notes")
      .insert({ title: "literal", labels: "{x,y}" })
      .select("labels")
      .single();
    expect(literal.data).toEqual({ labels: ["x", "y"] });
  });

  test("bulk: missing keys are null or default", async () => {
    const nulls = await ada.client
      .from("notes")
      .insert([{ title: "a", rank: 1 }, { title: "b" }])
      .select("title, rank");
    expect(nulls.data).toEqual([
      { title: "a", rank: 1 },
      { title: "b", rank: null },
    ]);
    const defaults = await ada.client
      .from("notes")
      .insert([{ title: "a", rank: null }, { title: "b" }], { defaultToNull: false })
      .select("title, rank");
    expect(defaults.error).toBeNull();
    expect(defaults.data).toEqual([
      { title: "a", rank: null },
      { title: "b", rank: 7 },
    ]);
  });

  test("bulk is atomic", async () => {
    const title = unique("atomic");
    const { error } = await ada.client.from("notes").insert([{ title }, { title, rank: "not a number" }]);
    expect(error?.code).toBe("22P02");
    expect((await ada.client.from("notes").select().eq("title", title)).data).toEqual([]);
  });

  test("empty insert succeeds", async () => {
    const { data, error, status } = await ada.client.from("notes").insert([]).select();
    expect({ data, error, status }).toEqual({ data: [], error: null, status: 201 });
  });

  test("row with only defaults", async () => {
    const { error } = await ada.client.from("notes").insert({});
    expect(error?.code).toBe("23502");
  });

  test("result can embed", async () => {
    const [note] = await notes({ title: "with comments" });
    const { data, error } = await ada.client
      .from("note_comments")
      .insert({ note_id: note, body: "first" })
      .select("body, notes(title)")
      .single();
    expect(error).toBeNull();
    expect(data).toEqual({ body: "first", notes: { title: "with comments" } });
  });

  test("columns with unusual names", async () => {
    const sku = unique("sku");
    const { data } = await ada.client
      .from("stock")
      .insert([{ sku, "Shelf Mark": "A-1" }])
      .select('sku, "Shelf Mark"')
      .single();
    expect(data).toEqual({ sku, "Shelf Mark": "A-1" });
  });

  test("count", async () => {
    const { count } = await ada.client.from("notes").insert([{ title: "x" }, { title: "y" }], { count: "exact" });
    expect(count).toBe(2);
  });

  test("insert privilege is enough without select", async () => {
    const text = unique("suggestion");
    expect(await visitor().from("suggestions").insert({ text })).toMatchObject({ status: 201, error: null });
    expect((await service().from("suggestions").select("text").eq("text", text)).data).toEqual([{ text }]);
    const shown = await visitor()
      .from("suggestions")
      .insert({ text: unique("suggestion") })
      .select();
    expect([shown.status, shown.error?.code]).toEqual([401, "42501"]);
  });

  test("headers of each return preference", async () => {
    const post = (prefer: string, body: unknown) =>
      rest("notes", {}, { method: "POST", token: ada.session.access_token, headers: { prefer }, body });
    const minimal = await post("return=minimal", { title: "m" });
    expect([minimal.status, minimal.text]).toEqual([201, ""]);
    expect([minimal.headers.get("content-length"), minimal.headers.get("content-type")]).toEqual(["0", null]);
    expect([minimal.headers.get("content-range"), minimal.headers.get("preference-applied")]).toEqual([
      "*/*",
      "return=minimal",
    ]);

    const headersOnly = await post("return=headers-only", { title: "h" });
    expect([headersOnly.status, headersOnly.text]).toEqual([201, ""]);
    expect(headersOnly.headers.get("location")).toMatch(/^\/notes\?id=eq\.\d+$/);

    const full = await post("return=representation, count=exact", { title: "r" });
    expect(full.headers.get("content-range")).toBe("*/1");
    expect(full.headers.get("preference-applied")).toBe("return=representation, count=exact");
    expect(full.headers.get("location")).toBeNull();
    expect(full.json).toMatchObject([{ title: "r" }]);
  });
});

describe("update", () => {
  test("changes the filtered rows", async () => {
    const [one, two] = await notes({ title: "u1" }, { title: "u2" });
    const { data, error, status } = await ada.client.from("notes").update({ rank: 1 }).eq("id", one);
    expect({ data, error, status }).toEqual({ data: null, error: null, status: 204 });
    const after = await ada.client.from("notes").select("title, rank").in("id", [one, two]).order("title");
    expect(after.data).toEqual([
      { title: "u1", rank: 1 },
      { title: "u2", rank: 7 },
    ]);
  });

  test("with select: the new rows with embeds", async () => {
    const [note] = await notes({ title: "before" });
    await ada.client.from("note_comments").insert({ note_id: note, body: "c" });
    const { data, status } = await ada.client
      .from("notes")
      .update({ title: "after", meta: { a: 1 }, body: null })
      .eq("id", note)
      .select("title, meta, note_comments(body)");
    expect(status).toBe(200);
    expect(data).toEqual([{ title: "after", meta: { a: 1 }, note_comments: [{ body: "c" }] }]);
  });

  test("of no rows succeeds", async () => {
    expect(await ada.client.from("notes").update({ rank: 1 }).eq("id", -1).select()).toMatchObject({
      data: [],
      status: 200,
    });
    expect(await ada.client.from("notes").update({ rank: 1 }).eq("id", -1)).toMatchObject({ error: null, status: 204 });
  });

  test("empty change succeeds", async () => {
    const [note] = await notes({ title: "kept", rank: 5 });
    expect(await ada.client.from("notes").update({}).eq("id", note)).toMatchObject({ error: null, status: 204 });
    expect((await ada.client.from("notes").select("title, rank").eq("id", note).single()).data).toEqual({
      title: "kept",
      rank: 5,
    });
  });

  test("single rolls back unless one row matches", async () => {
    const title = unique("single");
    await notes({ title }, { title });
    const many = await ada.client.from("notes").update({ rank: 99 }).eq("title", title).select().single();
    expect([many.status, many.error?.code, many.error?.details]).toEqual([
      406,
      "PGRST116",
      "The result contains 2 rows",
    ]);
    expect((await ada.client.from("notes").select("rank").eq("title", title).eq("rank", 99)).data).toEqual([]);
    const none = await ada.client.from("notes").update({ rank: 99 }).eq("id", -1).select().single();
    expect([none.status, none.error?.code]).toEqual([406, "PGRST116"]);
  });

  test("counts and Content-Range", async () => {
    const title = unique("counted");
    await notes({ title }, { title });
    const { count } = await ada.client.from("notes").update({ rank: 1 }, { count: "exact" }).eq("title", title);
    expect(count).toBe(2);
    const patch = (filter: string, prefer: string) =>
      rest(
        "notes",
        { title: filter },
        {
          method: "PATCH",
          token: ada.session.access_token,
          headers: { prefer },
          body: { rank: 2 },
        },
      );
    expect((await patch(`eq.${title}`, "return=minimal")).headers.get("content-range")).toBe("0-1/*");
    expect((await patch(`eq.${title}`, "count=exact")).headers.get("content-range")).toBe("0-1/2");
    const none = await patch("eq.nobody has this", "count=exact");
    expect([none.status, none.headers.get("content-range"), none.headers.get("content-type")]).toEqual([
      204,
      "*/0",
      null,
    ]);
  });

  test("without a filter is rejected", async () => {
    const { error, status } = await ada.client.from("notes").update({ rank: 1 });
    expect([status, error?.code, error?.message]).toEqual([400, "21000", "UPDATE requires a WHERE clause"]);
  });
});

describe("delete", () => {
  test("removes the filtered rows", async () => {
    const [one, two] = await notes({ title: "d1" }, { title: "d2" });
    expect(await ada.client.from("notes").delete().eq("id", one)).toMatchObject({
      data: null,
      error: null,
      status: 204,
    });
    expect((await ada.client.from("notes").select("id").in("id", [one, two])).data).toEqual([{ id: two }]);
  });

  test("with select: the deleted rows", async () => {
    const [note] = await notes({ title: "gone" });
    const { data, status } = await ada.client.from("notes").delete().eq("id", note).select("title");
    expect([status, data]).toEqual([200, [{ title: "gone" }]]);
  });

  test("of no rows succeeds with count 0", async () => {
    const { error, count, status } = await ada.client.from("notes").delete({ count: "exact" }).eq("id", -1);
    expect({ error, count, status }).toEqual({ error: null, count: 0, status: 204 });
  });

  test("counts", async () => {
    const title = unique("deleted");
    await notes({ title }, { title });
    expect((await ada.client.from("notes").delete({ count: "exact" }).eq("title", title)).count).toBe(2);
  });

  test("single rolls back on several rows", async () => {
    const title = unique("kept");
    await notes({ title }, { title });
    const { status, error } = await ada.client.from("notes").delete().eq("title", title).select().single();
    expect([status, error?.code]).toEqual([406, "PGRST116"]);
    expect((await ada.client.from("notes").select("id").eq("title", title)).data).toHaveLength(2);
  });

  test("without a filter is rejected", async () => {
    const { error, status } = await ada.client.from("notes").delete();
    expect([status, error?.code, error?.message]).toEqual([400, "21000", "DELETE requires a WHERE clause"]);
  });
});
