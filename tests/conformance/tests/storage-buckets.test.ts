import { describe, expect, test } from "vitest";
import { person, service, unique, visitor } from "../support/clients";

const storage = service().storage;
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

describe("buckets", () => {
  test("create, get, update, empty and delete", async () => {
    const id = unique("bucket");
    expect(await storage.createBucket(id)).toEqual({ data: { name: id }, error: null });
    const made = {
      id,
      name: id,
      owner: "",
      public: false,
      file_size_limit: null,
      allowed_mime_types: null,
      created_at: time,
      updated_at: time,
    };
    expect(await storage.getBucket(id)).toEqual({ data: made, error: null });
    const settings = { public: true, fileSizeLimit: "1.5MB", allowedMimeTypes: ["image/*"] };
    const changed = await storage.updateBucket(id, settings);
    expect(changed).toEqual({ data: { message: "Successfully updated" }, error: null });
    const { data: listed } = await storage.listBuckets({ search: id, limit: 1, sortColumn: "name", sortOrder: "desc" });
    expect(listed).toEqual([
      { ...made, public: true, file_size_limit: 1_500_000, allowed_mime_types: ["image/*"], type: "STANDARD" },
    ]);
    const emptied = "Empty bucket has been queued. Completion may take up to an hour.";
    expect(await storage.emptyBucket(id)).toEqual({ data: { message: emptied }, error: null });
    expect(await storage.deleteBucket(id)).toEqual({ data: { message: "Successfully deleted" }, error: null });
    const gone = await storage.getBucket(id);
    expect(gone.error).toMatchObject({
      name: "StorageApiError",
      message: "Bucket not found",
      status: 400,
      statusCode: "404",
    });
  });

  test("errors have reasons", async () => {
    const id = unique("bucket");
    await storage.createBucket(id);
    const refusals = [
      [await storage.createBucket(id), "409", "The resource already exists"],
      [await storage.createBucket("a/b"), "400", "Bucket name invalid"],
      [
        await storage.createBucket(unique("b"), { public: false, fileSizeLimit: "9GB" }),
        "413",
        "The object exceeded the maximum allowed size",
      ],
      [
        await storage.createBucket(unique("b"), { public: false, allowedMimeTypes: ["image"] }),
        "415",
        "mime type image is not supported",
      ],
      [await storage.deleteBucket("listed"), "409", "The bucket you tried to delete is not empty"],
      [await visitor().storage.createBucket(unique("b")), "403", "new row violates row-level security policy"],
      [await visitor().storage.updateBucket(id, { public: true }), "404", "Bucket not found"],
      [await visitor().storage.deleteBucket(id), "404", "Bucket not found"],
    ] as const;
    for (const [{ data, error }, statusCode, message] of refusals) {
      expect(data).toBeNull();
      expect(error).toMatchObject({ statusCode, message, status: 400 });
    }
    const gated = await visitor().storage.emptyBucket(id);
    expect(gated.error).toMatchObject({ status: 403, statusCode: "403", message: "Access denied: Invalid role" });
    expect(await visitor().storage.listBuckets()).toEqual({ data: [], error: null });
    await storage.deleteBucket(id);
  });

  test("belong to their creator", async () => {
    const [ada, bob] = [await person(), await person()];
    const id = unique("bucket");
    await ada.client.storage.createBucket(id);
    expect((await ada.client.storage.getBucket(id)).data).toMatchObject({ id, owner: ada.user.id });
    expect((await ada.client.storage.listBuckets()).data).toHaveLength(1);
    expect((await bob.client.storage.getBucket(id)).error?.message).toBe("Bucket not found");
    expect((await bob.client.storage.listBuckets()).data).toEqual([]);
    expect((await ada.client.storage.deleteBucket(id)).error).toBeNull();
  });
});
