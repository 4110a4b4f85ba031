import { beforeAll, describe, expect, test } from "vitest";
import { type Person, person, service, unique, visitor } from "../support/clients";

let ada: Person;
let bob: Person;
let note: number;
let comment: number;

beforeAll(async () => {
  [ada, bob] = await Promise.all([person(), person()]);
  const inserted = await ada.client
    .from("notes")
    .insert({ title: unique("secret"), body: "hers" })
    .select("id")
    .single();
  note = inserted.data?.id;
  const commented = await ada.client
    .from("note_comments")
    .insert({ note_id: note, body: "hers too" })
    .select("id")
    .single();
  comment = commented.data?.id;
});

describe("owner", () => {
  test("can read, update and comment", async () => {
    const { data } = await ada.client.from("notes").select("body, note_comments(body)").eq("id", note).single();
    expect(data).toEqual({ body: "hers", note_comments: [{ body: "hers too" }] });
    expect((await ada.client.from("notes").update({ rank: 1 }).eq("id", note).select("rank")).data).toEqual([
      { rank: 1 },
    ]);
  });

  test("cannot change the owner", async () => {
    const { error, status } = await ada.client.from("notes").update({ owner_id: bob.user.id }).eq("id", note);
    expect(status).toBe(403);
    expect(error).toMatchObject({
      code: "42501",
      message: 'new row violates row-level security policy for table "notes"',
    });
  });
});

describe("another user", () => {
  test("sees no rows by any request", async () => {
    expect((await bob.client.from("notes").select().eq("id", note)).data).toEqual([]);
    expect((await bob.client.from("notes").select("*", { count: "exact", head: true }).eq("id", note)).count).toBe(0);
    expect((await bob.client.from("notes").select().eq("id", note).single()).error?.code).toBe("PGRST116");
    expect((await bob.client.from("note_comments").select("body, notes(title)").eq("id", comment)).data).toEqual([]);
  });

  test("updates and deletes no rows, without an error", async () => {
    expect(await bob.client.from("notes").update({ title: "mine" }).eq("id", note).select()).toMatchObject({
      data: [],
      status: 200,
    });
    expect(await bob.client.from("notes").delete({ count: "exact" }).eq("id", note)).toMatchObject({
      count: 0,
      status: 204,
    });
    expect((await bob.client.from("notes").delete().eq("id", note).select().single()).error?.code).toBe("PGRST116");
    expect((await service().from("notes").select("body").eq("id", note).single()).data).toEqual({ body: "hers" });
  });

  test("cannot write rows of others", async () => {
    const forged = await bob.client.from("notes").insert({ title: "x", owner_id: ada.user.id });
    expect([forged.status, forged.error?.code]).toEqual([403, "42501"]);
    const beside = await bob.client.from("note_comments").insert({ note_id: note, body: "hello" });
    expect([beside.status, beside.error?.code]).toEqual([403, "42501"]);
  });
});

describe("anon", () => {
  test("with a grant but no policy sees no rows", async () => {
    expect(await visitor().from("notes").select()).toMatchObject({ data: [], error: null, status: 200 });
    expect((await visitor().from("notes").select("*", { count: "exact", head: true })).count).toBe(0);
  });

  test("without a grant gets 401", async () => {
    for (const refused of [
      await visitor().from("notes").insert({ title: "x" }),
      await visitor().from("notes").update({ title: "x" }).eq("id", note),
      await visitor().from("notes").delete().eq("id", note),
    ]) {
      expect([refused.status, refused.error?.code, refused.error?.message]).toEqual([
        401,
        "42501",
        "permission denied for table notes",
      ]);
    }
    expect((await visitor().from("note_comments").select()).status).toBe(401);
  });

  test("authenticated without a grant gets 403", async () => {
    const { error, status } = await bob.client.from("hidden").select();
    expect([status, error?.code, error?.message]).toEqual([403, "42501", "permission denied for table hidden"]);
  });
});

describe("service key", () => {
  test("bypasses policies but needs grants", async () => {
    expect((await service().from("notes").select("id").eq("id", note)).data).toEqual([{ id: note }]);
    const { error, status } = await service().from("hidden").select();
    expect([status, error?.code]).toEqual([403, "42501"]);
  });
});

describe("concurrency", () => {
  test("concurrent requests keep their own claims", async () => {
    const people = [ada, bob, ...(await Promise.all([person(), person()]))];
    const titles = await Promise.all(
      people.map(async ({ client }, index) => {
        const title = unique(`reader-${index}`);
        expect((await client.from("notes").insert({ title })).error).toBeNull();
        return title;
      }),
    );
    const rounds = Array.from({ length: 25 }, () =>
      people.map(async ({ client }, index) => {
        const { data, error } = await client.from("notes").select("title").like("title", "reader-%");
        expect(error).toBeNull();
        expect(data).toEqual([{ title: titles[index] }]);
      }),
    );
    const visits = Array.from({ length: 25 }, async () => {
      expect((await visitor().from("notes").select()).data).toEqual([]);
    });
    await Promise.all([...rounds.flat(), ...visits]);
  });
});
