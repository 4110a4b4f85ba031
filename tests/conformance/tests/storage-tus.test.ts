import { createHash, randomBytes } from "node:crypto";
import { createClient } from "@supabase/supabase-js";
import { DetailedError, Upload, type UploadOptions } from "tus-js-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Person, person, service, unique } from "../support/clients";
import { anonKey, url } from "../support/environment";
import { Server } from "../support/server";

const chunkSize = 256 * 1024;
const endpoint = `${url}/storage/v1/upload/resumable`;

let ada: Person;
let bucket: string;

beforeAll(async () => {
  ada = await person();
  bucket = unique("writes-tus");
  expect((await service().storage.createBucket(bucket, { public: false })).error).toBeNull();
});

/** A browser's storage of upload URLs; two uploads that share it are two tabs of one browser. */
function urlStorage(): NonNullable<UploadOptions["urlStorage"]> {
  const kept = new Map<string, Parameters<NonNullable<UploadOptions["urlStorage"]>["addUpload"]>[1]>();
  return {
    findAllUploads: async () => [...kept.values()],
    findUploadsByFingerprint: async (fingerprint) =>
      [...kept].filter(([key]) => key.startsWith(fingerprint)).map(([, upload]) => upload),
    removeUpload: async (key) => void kept.delete(key),
    addUpload: async (fingerprint, upload) => {
      const key = `${fingerprint}::${kept.size}`;
      kept.set(key, { ...upload, urlStorageKey: key });
      return key;
    },
  };
}

function options(key: string, more: UploadOptions = {}): UploadOptions {
  return {
    endpoint,
    chunkSize,
    retryDelays: [0, 200, 500],
    headers: { authorization: `Bearer ${ada.session.access_token}`, apikey: anonKey },
    uploadDataDuringCreation: true,
    fingerprint: async () => key,
    metadata: { bucketName: bucket, objectName: key, contentType: "application/x-mine", cacheControl: "60" },
    ...more,
  };
}

/** Runs an upload; `until` may end it early. */
function run(file: Buffer, given: UploadOptions, prepare?: (upload: Upload) => Promise<void>) {
  return new Promise<Upload>((resolve, reject) => {
    const upload = new Upload(file, {
      ...given,
      onSuccess: () => resolve(upload),
      onError: reject,
    });
    void (prepare?.(upload) ?? Promise.resolve()).then(() => upload.start(), reject);
  });
}

/** Begins an upload and pauses it after its first chunks. */
function pausedAfter(chunks: number, file: Buffer, given: UploadOptions) {
  return new Promise<Upload>((resolve, reject) => {
    let done = 0;
    const upload = new Upload(file, {
      ...given,
      onError: reject,
      onSuccess: () => reject(new Error("it ended before it was paused")),
      onChunkComplete: () => {
        done += 1;
        if (done === chunks) void upload.abort().then(() => resolve(upload), reject);
      },
    });
    upload.start();
  });
}

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

async function stored(key: string, client = ada.client) {
  const { data, error } = await client.storage.from(bucket).download(key);
  expect(error).toBeNull();
  return sha256(new Uint8Array((await data?.arrayBuffer()) ?? new ArrayBuffer(0)));
}

describe("tus-js-client", () => {
  test("uploads in chunks", async () => {
    const key = unique("chunks");
    const file = randomBytes(5 * chunkSize + 17);
    const progress: number[] = [];
    await run(file, options(key, { onChunkComplete: (_size, accepted) => progress.push(accepted) }));
    expect(progress).toEqual([1, 2, 3, 4, 5].map((count) => count * chunkSize).concat(file.length));
    expect(await stored(key)).toBe(sha256(file));
    const { data } = await ada.client.storage.from(bucket).info(key);
    expect(data).toMatchObject({ contentType: "application/x-mine", size: file.length });
    expect(data?.cacheControl).toBe("max-age=60");
  });

  test("pauses and resumes", async () => {
    const key = unique("paused");
    const file = randomBytes(6 * chunkSize);
    const storage = urlStorage();
    await pausedAfter(2, file, options(key, { urlStorage: storage }));
    const firsts: number[] = [];
    await run(
      file,
      options(key, { urlStorage: storage, onProgress: (sent) => void firsts.push(sent) }),
      async (upload) => {
        const [previous] = await upload.findPreviousUploads();
        if (!previous) throw new Error("the upload is not remembered");
        upload.resumeFromPreviousUpload(previous);
      },
    );
    expect(firsts[0]).toBeGreaterThanOrEqual(2 * chunkSize);
    expect(await stored(key)).toBe(sha256(file));
  });

  test("continues in another tab", async () => {
    const key = unique("tabs");
    const file = randomBytes(40 * chunkSize);
    const storage = urlStorage();
    let other: Promise<Upload> | undefined;
    const first = new Promise<"done" | "gave up">((resolve) => {
      const upload = new Upload(file, {
        ...options(key, { urlStorage: storage, retryDelays: null }),
        onSuccess: () => resolve("done"),
        onError: () => resolve("gave up"),
        onChunkComplete: () => {
          other ??= run(file, options(key, { urlStorage: storage }), async (second) => {
            const [previous] = await second.findPreviousUploads();
            if (previous) second.resumeFromPreviousUpload(previous);
          });
        },
      });
      upload.start();
    });
    await first;
    await other?.catch(() => undefined);
    // Both write the same bytes, so the object is complete whichever of them finished.
    expect(await stored(key)).toBe(sha256(file));
  });

  test("reports the reason of a rejection", async () => {
    const limited = unique("limited");
    await service().storage.createBucket(limited, { public: false, fileSizeLimit: 10 });
    const tooLarge = run(
      randomBytes(11),
      options("k", { metadata: { bucketName: limited, objectName: "k" }, retryDelays: null }),
    );
    const error = await tooLarge.catch((error: unknown) => error);
    expect(error).toBeInstanceOf(DetailedError);
    expect((error as DetailedError).originalResponse?.getStatus()).toBe(413);
    expect((error as DetailedError).originalResponse?.getBody()).toBe("Maximum size exceeded\n");
  });

  test("defers the length and terminates uploads", async () => {
    const key = unique("deferred");
    const file = randomBytes(3 * chunkSize);
    await run(file, options(key, { uploadLengthDeferred: true }));
    expect(await stored(key)).toBe(sha256(file));
    const given = unique("given-up");
    const upload = await pausedAfter(1, file, options(given));
    await Upload.terminate(upload.url ?? "", options(given));
    const response = await fetch(upload.url ?? "", {
      method: "HEAD",
      headers: { ...options(given).headers, "tus-resumable": "1.0.0" },
    });
    expect(response.status).toBe(404);
  });

  test("uploads with a signed URL's token", async () => {
    const key = unique("signed");
    const signed = await ada.client.storage.from(bucket).createSignedUploadUrl(key);
    expect(signed.error).toBeNull();
    const file = randomBytes(2 * chunkSize);
    const headers = { "x-signature": signed.data?.token ?? "", apikey: anonKey };
    await run(file, options(key, { endpoint: `${endpoint}/sign`, headers }));
    expect(await stored(key)).toBe(sha256(file));
  });
});

describe("server killed between chunks", () => {
  let server: Server;
  beforeAll(async () => {
    server = await Server.start();
  }, 120_000);
  afterAll(() => server.stop());

  test("resumes at the offset", async () => {
    const admin = createClient(server.url, server.serviceKey, { auth: { persistSession: false } });
    expect((await admin.storage.createBucket(bucket, { public: false })).error).toBeNull();
    const key = unique("restart");
    const file = randomBytes(8 * chunkSize);
    let chunks = 0;
    const restarted: Promise<void>[] = [];
    const again = async () => {
      await server.kill();
      await server.startAgain();
    };
    await run(
      file,
      options(key, {
        endpoint: `${server.url}/storage/v1/upload/resumable`,
        headers: { authorization: `Bearer ${server.serviceKey}` },
        retryDelays: Array(60).fill(250),
        onChunkComplete: () => {
          chunks += 1;
          if (chunks === 2 || chunks === 5) restarted.push(again());
        },
      }),
    );
    await Promise.all(restarted);
    expect(restarted).toHaveLength(2);
    expect(await stored(key, admin)).toBe(sha256(file));
  }, 120_000);
});
