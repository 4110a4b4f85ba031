import { beforeAll, describe, expect, test } from "vitest";
import { type Person, person, service, visitor } from "../support/clients";

let ada: Person;
beforeAll(async () => {
  ada = await person();
});

const bucket = () => ada.client.storage.from("listed");
const names = (entries: { name: string }[] | null | undefined) => (entries ?? []).map((entry) => entry.name);

describe("list", () => {
  test("one level, case-insensitive, with folders", async () => {
    const { data, error } = await bucket().list();
    expect(error).toBeNull();
    expect(names(data)).toEqual(["a.txt", "B.txt", "c_1.txt", "cx1.txt", "folder", "Folder2", "pub", "zed.txt"]);
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(data?.[0]).toEqual({
      name: "a.txt",
      id: expect.any(String),
      updated_at: time,
      created_at: "2026-01-01T00:00:00.000Z",
      last_accessed_at: time,
      metadata: { size: 1, mimetype: "text/plain" },
    });
    expect(data?.[4]).toEqual({
      name: "folder",
      id: null,
      updated_at: null,
      created_at: null,
      last_accessed_at: null,
      metadata: null,
    });
    expect(names((await bucket().list("FOLDER")).data)).toEqual(["a.txt", "sub"]);
  });

  test("pages, search and sort", async () => {
    expect(names((await bucket().list("", { limit: 2, offset: 3 })).data)).toEqual(["cx1.txt", "folder"]);
    expect(names((await bucket().list("", { search: "fol" })).data)).toEqual(["folder", "Folder2"]);
    expect(names((await bucket().list("", { search: "ed" })).data)).toEqual([]);
    const descending = await bucket().list("", { sortBy: { column: "name", order: "desc" } });
    const ascending = await bucket().list();
    expect(names(descending.data)).toEqual(names(ascending.data).reverse());
    const byDate = await bucket().list("", { sortBy: { column: "created_at", order: "asc" } });
    expect(names(byDate.data)).toEqual(["Folder2", "folder", "pub", "B.txt", "a.txt", "c_1.txt", "cx1.txt", "zed.txt"]);
  });

  test("shows only visible objects", async () => {
    expect(await visitor().storage.from("listed").list()).toEqual({ data: [], error: null });
    expect(await service().storage.from("no-such-bucket").list()).toEqual({ data: [], error: null });
    const refused = await bucket().list("", { limit: -1 });
    expect(refused.error).toMatchObject({ status: 400, statusCode: "400", message: "body/limit must be >= 1" });
  });
});

describe("listV2", () => {
  test("separates folders, with full names", async () => {
    const { data, error } = await bucket().listV2({ with_delimiter: true, prefix: "fol" });
    expect(error).toBeNull();
    expect(data).toMatchObject({ hasNext: false, objects: [], folders: [{ key: "folder", name: "folder/" }] });
    expect(data).not.toHaveProperty("nextCursor");
  });

  test.each([
    ["name", "asc", false],
    ["name", "desc", true],
    ["created_at", "asc", false],
    ["created_at", "desc", true],
    ["updated_at", "asc", true],
  ] as const)("pages by %s %s, folders: %s", async (column, order, with_delimiter) => {
    const sortBy = { column, order };
    const whole = await bucket().listV2({ with_delimiter, sortBy });
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const { data, error } = await bucket().listV2({ with_delimiter, sortBy, limit: 2, ...(cursor && { cursor }) });
      expect(error).toBeNull();
      expect((data?.folders.length ?? 0) + (data?.objects.length ?? 0)).toBeLessThanOrEqual(2);
      found.push(...names(data?.folders), ...names(data?.objects));
      cursor = data?.nextCursor;
    } while (cursor);
    expect(found.toSorted()).toEqual([...names(whole.data?.folders), ...names(whole.data?.objects)].toSorted());
    expect(found.length).toBe(with_delimiter ? 8 : 9);
  });

  test("rejects an invalid cursor", async () => {
    const { error } = await bucket().listV2({ cursor: "nonsense" });
    expect(error).toMatchObject({ statusCode: "400", message: "Invalid Parameter continuation token" });
  });
});
