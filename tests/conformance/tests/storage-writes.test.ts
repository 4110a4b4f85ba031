import { beforeAll, describe, expect, test } from "vitest";
import { type Person, person, service, unique, visitor } from "../support/clients";

let ada: Person;
let bucket: string;
let other: string;

beforeAll(async () => {
  ada = await person();
  [bucket, other] = [unique("writes"), unique("writes")];
  const limits = { fileSizeLimit: 10, allowedMimeTypes: ["text/plain"] };
  expect((await service().storage.createBucket(bucket, { public: false })).error).toBeNull();
  expect((await service().storage.createBucket(other, { public: false, ...limits })).error).toBeNull();
});

const files = () => ada.client.storage.from(bucket);
const names = async (folder: string, from = bucket) =>
  ((await ada.client.storage.from(from).list(folder)).data ?? []).map((file) => file.name);
const row = async (folder: string, name: string) =>
  (await files().list(folder)).data?.find((file) => file.name === name);

describe("upload", () => {
  test("accepts every body type of the client", async () => {
    const folder = unique("kinds");
    const form = new FormData();
    form.append("file", new Blob(["form"], { type: "text/plain" }));
    const stream = new Blob(["stream"]).stream();
    const bodies = {
      blob: new Blob(["blob"], { type: "text/plain" }),
      file: new File(["file"], "another.txt", { type: "text/plain" }),
      form,
      buffer: Buffer.from("buffer"),
      bytes: new TextEncoder().encode("bytes").buffer,
      text: "text",
      stream,
    };
    for (const [name, body] of Object.entries(bodies)) {
      const { data, error } = await files().upload(`${folder}/${name}`, body, { duplex: "half" });
      expect(error).toBeNull();
      expect(data).toMatchObject({ path: `${folder}/${name}`, fullPath: `${bucket}/${folder}/${name}` });
      const stored = await row(folder, name);
      expect(stored?.id).toBe(data?.id);
      expect(stored?.metadata).toMatchObject({
        size: new Blob([name]).size,
        cacheControl: "max-age=3600",
        httpStatusCode: 200,
      });
    }
    const types = await Promise.all(
      ["blob", "text"].map(async (name) => (await row(folder, name))?.metadata?.mimetype),
    );
    expect(types).toEqual(["text/plain", "text/plain;charset=UTF-8"]);
  });

  test("stores its options", async () => {
    const path = `${unique("options")}/a b (1).txt`;
    const options = { contentType: "application/x-mine", cacheControl: "60", metadata: { a: { b: 1 } } };
    const raw = await files().upload(path, Buffer.from("x"), options);
    expect(raw.error).toBeNull();
    const [folder = "", name = ""] = path.split("/");
    expect((await row(folder, name))?.metadata).toMatchObject({
      mimetype: "application/x-mine",
      cacheControl: "max-age=60",
    });
    const form = await files().upload(`${folder}/form`, new Blob(["x"]), { ...options, upsert: true });
    expect(form.error).toBeNull();
    expect((await row(folder, "form"))?.metadata?.cacheControl).toBe("max-age=60");
  });

  test("needs upsert to overwrite", async () => {
    const path = `${unique("twice")}/k`;
    const first = await files().upload(path, "one");
    const second = await files().upload(path, "two");
    expect(second.data).toBeNull();
    expect(second.error).toMatchObject({
      message: "The resource already exists",
      status: 400,
      statusCode: "409",
    });
    const upsert = await files().upload(path, "three", { upsert: true });
    const update = await files().update(path, "four!");
    expect([upsert.data?.id, update.data?.id]).toEqual([first.data?.id, first.data?.id]);
    expect((await row(path.split("/")[0] ?? "", "k"))?.metadata?.size).toBe(5);
  });

  test("update creates a missing object", async () => {
    const path = `${unique("new")}/k`;
    expect((await files().update(path, "x")).data?.path).toBe(path);
  });

  test("reports errors", async () => {
    const strict = ada.client.storage.from(other);
    const large = await strict.upload("large", new Blob(["12345678901"], { type: "text/plain" }));
    expect(large.error).toMatchObject({
      message: "The object exceeded the maximum allowed size",
      statusCode: "413",
    });
    const image = await strict.upload("image", new Blob(["x"], { type: "image/png" }));
    expect(image.error).toMatchObject({
      message: "mime type image/png is not supported",
      statusCode: "415",
    });
    const plain = await strict.upload("plain", "x");
    expect(plain.error).toBeNull();
    const key = await files().upload("a~b", "x");
    expect(key.error).toMatchObject({ message: "Invalid key: a~b", statusCode: "400" });
    const nowhere = await ada.client.storage.from(unique("nowhere")).upload("k", "x");
    expect(nowhere.error).toMatchObject({ message: "Bucket not found", statusCode: "404" });
    const anonymous = await visitor().storage.from(bucket).upload("k", "x");
    expect(anonymous.error).toMatchObject({
      message: "new row violates row-level security policy",
      statusCode: "403",
    });
  });

  test("concurrent uploads create one object", async () => {
    const path = `${unique("race")}/k`;
    const all = await Promise.all(Array.from({ length: 16 }, (_, at) => files().upload(path, `content ${at}`)));
    expect(all.filter((response) => response.error === null)).toHaveLength(1);
  });
});

describe("signed upload URLs", () => {
  test("upload once as the signer", async () => {
    const path = `${unique("signed")}/a b.txt`;
    const signed = await files().createSignedUploadUrl(path);
    expect(signed.error).toBeNull();
    expect(signed.data?.path).toBe(path);
    const { token = "" } = signed.data ?? {};
    expect(new URL(signed.data?.signedUrl ?? "").searchParams.get("token")).toBe(token);
    const theirs = visitor().storage.from(bucket);
    const upload = await theirs.uploadToSignedUrl(path, token, new Blob(["x"], { type: "text/plain" }));
    expect(upload.error).toBeNull();
    expect(upload.data).toMatchObject({ path, fullPath: `${bucket}/${path}` });
    expect(await names(path.split("/")[0] ?? "")).toEqual(["a b.txt"]);
    const again = await theirs.uploadToSignedUrl(path, token, "y");
    expect(again.error).toMatchObject({ message: "The resource already exists", statusCode: "409" });
    const taken = await files().createSignedUploadUrl(path);
    expect(taken.error).toMatchObject({ message: "The resource already exists" });
    const replacing = await files().createSignedUploadUrl(path, { upsert: true });
    const replaced = await theirs.uploadToSignedUrl(path, replacing.data?.token ?? "", "y");
    expect(replaced.error).toBeNull();
    const elsewhere = await theirs.uploadToSignedUrl("elsewhere", token, "x");
    expect(elsewhere.error).toMatchObject({ message: "Invalid signature" });
  });
});

describe("move and copy", () => {
  test("move renames, also across buckets", async () => {
    const folder = unique("move");
    const { data: uploaded } = await files().upload(`${folder}/k`, "x");
    const moved = await files().move(`${folder}/k`, `${folder}/l`);
    expect(moved.data).toEqual({ message: "Successfully moved" });
    expect((await row(folder, "l"))?.id).toBe(uploaded?.id);
    const away = await files().move(`${folder}/l`, `${folder}/m`, { destinationBucket: other });
    expect(away.error).toBeNull();
    expect([await names(folder), await names(folder, other)]).toEqual([[], ["m"]]);
    const missing = await files().move(`${folder}/k`, `${folder}/n`);
    expect(missing.error).toMatchObject({ message: "Object not found", status: 400, statusCode: "404" });
  });

  test("copy creates another object", async () => {
    const folder = unique("copy");
    await files().upload(`${folder}/k`, "x");
    const copied = await files().copy(`${folder}/k`, `${folder}/a b`);
    expect(copied.data).toEqual({ path: `${bucket}/${folder}/a b` });
    const away = await files().copy(`${folder}/k`, `${folder}/k`, { destinationBucket: other });
    expect(away.error).toBeNull();
    expect([await names(folder), await names(folder, other)]).toEqual([["a b", "k"], ["k"]]);
    const taken = await files().copy(`${folder}/k`, `${folder}/a b`);
    expect(taken.error).toMatchObject({ message: "The resource already exists", statusCode: "409" });
  });
});

describe("remove", () => {
  test("returns the removed objects", async () => {
    const folder = unique("remove");
    for (const name of ["a", "b", "c"]) {
      await files().upload(`${folder}/${name}`, "x");
    }
    const { data, error } = await files().remove([`${folder}/a`, `${folder}/b`, `${folder}/absent`]);
    expect(error).toBeNull();
    expect(data?.map((file) => file.name).sort()).toEqual([`${folder}/a`, `${folder}/b`]);
    expect(data?.[0]).toMatchObject({ bucket_id: bucket, owner_id: ada.user.id, owner: ada.user.id });
    expect((await files().remove([folder])).data).toEqual([]);
    expect(await names(folder)).toEqual(["c"]);
  });
});
