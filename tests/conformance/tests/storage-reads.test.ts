import { beforeAll, describe, expect, test } from "vitest";
import { type Person, person, service, unique, visitor } from "../support/clients";

const text = "0123456789";
const secret = unique("reads-secret");
const open = unique("reads-open");
let ada: Person;
let bob: Person;

beforeAll(async () => {
  [ada, bob] = await Promise.all([person(), person()]);
  for (const [name, isPublic] of [
    [secret, false],
    [open, true],
  ] as const) {
    const made = await service().storage.createBucket(name, { public: isPublic });
    expect(made.error).toBeNull();
    const options = { contentType: "text/plain", cacheControl: "60", metadata: { colour: "blue" } };
    for (const path of ["a.txt", "dir/a b.txt"]) {
      const stored = await ada.client.storage
        .from(name)
        .upload(path, new Blob([text], { type: "text/plain" }), options);
      expect(stored.error).toBeNull();
    }
  }
});

describe("download", () => {
  test("returns bytes and type to the owner", async () => {
    for (const path of ["a.txt", "dir/a b.txt"]) {
      const { data, error } = await ada.client.storage.from(secret).download(path);
      expect(error).toBeNull();
      expect([await data?.text(), data?.type, data?.size]).toEqual([text, "text/plain", 10]);
    }
  });

  test("as a stream", async () => {
    const { data, error } = await ada.client.storage.from(secret).download("a.txt").asStream();
    expect(error).toBeNull();
    expect(await new Response(data).text()).toBe(text);
  });

  test("of a public bucket needs no key", async () => {
    const { data } = await visitor().storage.from(open).download("a.txt");
    expect(await data?.text()).toBe(text);
  });

  test("hides objects without access", async () => {
    for (const client of [bob.client, visitor()]) {
      const { data, error } = await client.storage.from(secret).download("a.txt");
      expect(data).toBeNull();
      expect(error).toMatchObject({ name: "StorageApiError", message: "Object not found", status: 400 });
    }
  });
});

describe("info and exists", () => {
  test("return metadata in camel case", async () => {
    const { data, error } = await ada.client.storage.from(secret).info("dir/a b.txt");
    expect(error).toBeNull();
    expect(data).toMatchObject({
      name: "dir/a b.txt",
      bucketId: secret,
      size: 10,
      contentType: "text/plain",
      cacheControl: "max-age=60",
      metadata: { colour: "blue" },
      etag: '"781e5e245d69b566979b86e28d23f2c7"',
    });
    expect(data?.createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(data?.lastModified).toMatch(/Z$/);
  });

  test("are false for missing objects", async () => {
    const missing = await ada.client.storage.from(secret).info("none");
    expect(missing).toMatchObject({
      data: null,
      error: { message: "Object not found", statusCode: "404", status: 400 },
    });
    expect((await ada.client.storage.from(secret).exists("a.txt")).data).toBe(true);
    expect((await ada.client.storage.from(secret).exists("none")).data).toBe(false);
    expect((await bob.client.storage.from(secret).exists("a.txt")).data).toBe(false);
    expect((await visitor().storage.from(open).exists("a.txt")).data).toBe(true);
  });
});

describe("getPublicUrl", () => {
  test("can be fetched without a key", async () => {
    const shown = await fetch(visitor().storage.from(open).getPublicUrl("dir/a b.txt").data.publicUrl);
    expect([shown.status, await shown.text(), shown.headers.get("cache-control")]).toEqual([200, text, "max-age=60"]);
    const cached = await fetch(visitor().storage.from(open).getPublicUrl("a.txt").data.publicUrl, {
      headers: { "if-none-match": shown.headers.get("etag") ?? "" },
    });
    expect(cached.status).toBe(304);
    const part = await fetch(visitor().storage.from(open).getPublicUrl("a.txt").data.publicUrl, {
      headers: { range: "bytes=2-4" },
    });
    expect([part.status, await part.text(), part.headers.get("content-range")]).toEqual([206, "234", "bytes 2-4/10"]);
  });

  test("sets the download name", async () => {
    for (const [download, expected] of [
      [true, "attachment;"],
      ["b.txt", "attachment; filename=\"b.txt\"; filename*=UTF-8''b.txt"],
    ] as const) {
      const { publicUrl } = visitor().storage.from(open).getPublicUrl("a.txt", { download }).data;
      expect((await fetch(publicUrl)).headers.get("content-disposition")).toBe(expected);
    }
  });

  test("of a private bucket fails", async () => {
    const refused = await fetch(ada.client.storage.from(secret).getPublicUrl("a.txt").data.publicUrl);
    expect(refused.status).toBe(400);
    expect(await refused.json()).toEqual({
      statusCode: "404",
      error: "Bucket not found",
      message: "Bucket not found",
      code: "NoSuchBucket",
    });
  });
});

describe("createSignedUrl", () => {
  test("gives access for a limited time", async () => {
    const { data, error } = await ada.client.storage.from(secret).createSignedUrl("dir/a b.txt", 60);
    expect(error).toBeNull();
    const response = await fetch(data?.signedUrl ?? "");
    expect([response.status, await response.text()]).toEqual([200, text]);
    expect(response.headers.get("expires")).toMatch(/GMT$/);
    const brief = await ada.client.storage.from(secret).createSignedUrl("a.txt", 1, { download: "b.txt" });
    const named = await fetch(brief.data?.signedUrl ?? "");
    expect(named.headers.get("content-disposition")).toBe("attachment; filename=\"b.txt\"; filename*=UTF-8''b.txt");
    await expect
      .poll(async () => (await fetch(brief.data?.signedUrl ?? "")).json().catch(() => null), { timeout: 20_000 })
      .toMatchObject({ error: "InvalidJWT", message: '"exp" claim timestamp check failed' });
  });

  test("requires read access", async () => {
    expect(await bob.client.storage.from(secret).createSignedUrl("a.txt", 60)).toMatchObject({
      data: null,
      error: { message: "Object not found", statusCode: "404" },
    });
  });

  test("of many objects has one result each", async () => {
    const { data, error } = await ada.client.storage
      .from(secret)
      .createSignedUrls(["a.txt", "none", "dir/a b.txt"], 60, { download: true });
    expect(error).toBeNull();
    expect(data?.map((item) => [item.path, item.error])).toEqual([
      ["a.txt", null],
      ["none", "Either the object does not exist or you do not have access to it"],
      ["dir/a b.txt", null],
    ]);
    for (const item of data ?? []) {
      if (item.error) {
        expect(item.signedUrl).toBeNull();
      } else {
        const response = await fetch(item.signedUrl ?? "");
        expect([response.status, response.headers.get("content-disposition")]).toEqual([200, "attachment;"]);
      }
    }
  });
});
