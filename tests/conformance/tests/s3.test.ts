import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketAclCommand,
  GetBucketLocationCommand,
  GetBucketVersioningCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListBucketsCommand,
  ListMultipartUploadsCommand,
  ListObjectsCommand,
  ListObjectsV2Command,
  ListObjectVersionsCommand,
  ListPartsCommand,
  type ObjectAttributes,
  PutObjectAclCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { createPresignedPost } from "@aws-sdk/s3-presigned-post";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { person, service, unique } from "../support/clients";
import { anonKey } from "../support/environment";
import { bytes, endpoint, pair, refusal, s3, s3As } from "../support/s3";

const client = s3();
const Bucket = unique("s3");

beforeAll(async () => {
  await client.send(new CreateBucketCommand({ Bucket }));
});

afterAll(async () => {
  for await (const page of paginateListObjectsV2({ client }, { Bucket })) {
    const Objects = (page.Contents ?? []).map(({ Key }) => ({ Key }));
    if (Objects.length > 0) await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
  }
  await client.send(new DeleteBucketCommand({ Bucket }));
});

const put = (Key: string, Body: string | Uint8Array = Key) => client.send(new PutObjectCommand({ Bucket, Key, Body }));
const text = async (Key: string) => {
  const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }));
  return await Body?.transformToString();
};
const md5 = (data: string | Uint8Array) => createHash("md5").update(data).digest("hex");
const missing = [404, "NoSuchKey", "Object not found"];

describe("buckets", () => {
  test("can be created, found, listed and deleted", async () => {
    const name = unique("bucket");
    await client.send(new CreateBucketCommand({ Bucket: name, ACL: "public-read" }));
    expect((await service().storage.getBucket(name)).data).toMatchObject({ id: name, public: true });
    const head = await client.send(new HeadBucketCommand({ Bucket: name }));
    expect([head.$metadata.httpStatusCode, head.BucketRegion]).toEqual([200, "us-east-1"]);
    const { Buckets } = await client.send(new ListBucketsCommand());
    expect(Buckets?.find((bucket) => bucket.Name === name)?.CreationDate).toBeInstanceOf(Date);
    expect(await refusal(client.send(new CreateBucketCommand({ Bucket: name })))).toEqual([
      409,
      "BucketAlreadyExists",
      "The resource already exists",
    ]);
    await client.send(new PutObjectCommand({ Bucket: name, Key: "a", Body: "a" }));
    expect(await refusal(client.send(new DeleteBucketCommand({ Bucket: name })))).toEqual([
      409,
      "ResourceNotEmpty",
      "The bucket you tried to delete is not empty",
    ]);
    await client.send(new DeleteObjectCommand({ Bucket: name, Key: "a" }));
    const gone = await client.send(new DeleteBucketCommand({ Bucket: name }));
    expect(gone.$metadata.httpStatusCode).toBe(204);
    expect((await refusal(client.send(new HeadBucketCommand({ Bucket: name }))))[0]).toBe(404);
    expect(await refusal(client.send(new ListObjectsV2Command({ Bucket: name })))).toEqual([
      404,
      "NoSuchBucket",
      "Bucket not found",
    ]);
  });

  test("report location and versioning", async () => {
    const { LocationConstraint } = await client.send(new GetBucketLocationCommand({ Bucket }));
    expect(LocationConstraint).toBe("us-east-1");
    expect((await client.send(new GetBucketVersioningCommand({ Bucket }))).Status).toBe("Suspended");
  });

  test("validate names", async () => {
    expect(await refusal(client.send(new CreateBucketCommand({ Bucket: "a#b" })))).toEqual([
      400,
      "InvalidBucketName",
      "Bucket name invalid",
    ]);
  });
});

describe("an object", () => {
  test("keeps content and metadata", async () => {
    const response = await client.send(
      new PutObjectCommand({
        Bucket,
        Key: "dir/a b.txt",
        Body: "hello",
        ContentType: "text/plain;charset=UTF-8",
        CacheControl: "max-age=60",
        Metadata: { color: "green", "with-dash": "1" },
      }),
    );
    expect(response.ETag).toBe(`"${md5("hello")}"`);
    expect(response.ChecksumCRC32).toBe("NhCmhg==");
    const got = await client.send(new GetObjectCommand({ Bucket, Key: "dir/a b.txt" }));
    expect(got).toMatchObject({
      ContentType: "text/plain;charset=UTF-8",
      CacheControl: "max-age=60",
      ContentLength: 5,
      ETag: `"${md5("hello")}"`,
      AcceptRanges: "bytes",
      Metadata: { color: "green", "with-dash": "1" },
    });
    expect(await got.Body?.transformToString()).toBe("hello");
    expect(got.LastModified).toBeInstanceOf(Date);
    const head = await client.send(new HeadObjectCommand({ Bucket, Key: "dir/a b.txt" }));
    expect(head).toMatchObject({ ContentLength: 5, ETag: got.ETag, Metadata: got.Metadata });
    const { data } = await service().storage.from(Bucket).download("dir/a b.txt");
    expect(await data?.text()).toBe("hello");
  });

  test("can be overwritten, with any key", async () => {
    for (const key of ["plain", "a b+c&d=e?f;g,h:i@j$k'l(m)n*o!p.q-r_s", "slash//slash/", "/lead"]) {
      await put(key, "one");
      await put(key, `two of ${key}`);
      expect(await text(key)).toBe(`two of ${key}`);
    }
    for (const key of ["a#b", "ü", "a~b", "a/../b"]) {
      expect(await refusal(put(key))).toEqual([400, "InvalidKey", `Invalid key: ${key}`]);
    }
  });

  test("supports ranges and conditions", async () => {
    await put("parts", "0123456789");
    const part = async (Range: string) => {
      const got = await client.send(new GetObjectCommand({ Bucket, Key: "parts", Range }));
      return [got.$metadata.httpStatusCode, got.ContentRange, await got.Body?.transformToString()];
    };
    expect(await part("bytes=0-3")).toEqual([206, "bytes 0-3/10", "0123"]);
    expect(await part("bytes=-2")).toEqual([206, "bytes 8-9/10", "89"]);
    expect(await part("bytes=8-99")).toEqual([206, "bytes 8-9/10", "89"]);
    expect(await refusal(part("bytes=10-"))).toEqual([416, "InvalidRange", "invalid range provided"]);
    const ETag = `"${md5("0123456789")}"`;
    const get = (conditions: object) => client.send(new GetObjectCommand({ Bucket, Key: "parts", ...conditions }));
    expect((await refusal(get({ IfNoneMatch: ETag })))[0]).toBe(304);
    expect((await refusal(get({ IfModifiedSince: new Date(Date.now() + 60_000) })))[0]).toBe(304);
    expect((await refusal(get({ IfMatch: '"other"' }))).slice(0, 2)).toEqual([412, "PreconditionFailed"]);
    expect((await get({ IfMatch: ETag })).$metadata.httpStatusCode).toBe(200);
    const named = await get({
      ResponseContentType: "image/png",
      ResponseContentDisposition: 'attachment; filename="x"',
    });
    expect([named.ContentType, named.ContentDisposition]).toEqual(["image/png", 'attachment; filename="x"']);
  });

  test("of size 0 can be a folder marker", async () => {
    await put("empty/", "");
    expect(await text("empty/.emptyFolderPlaceholder")).toBe("");
    expect(await refusal(text("empty/"))).toEqual(missing);
  });

  test("can be copied with or without metadata", async () => {
    await client.send(
      new PutObjectCommand({ Bucket, Key: "copy/source", Body: "x", ContentType: "a/b", Metadata: { a: "1" } }),
    );
    const CopySource = `${Bucket}/copy/source`;
    const copied = await client.send(new CopyObjectCommand({ Bucket, Key: "copy/as it is", CopySource }));
    expect(copied.CopyObjectResult?.ETag).toBe(`"${md5("x")}"`);
    const head = (Key: string) => client.send(new HeadObjectCommand({ Bucket, Key }));
    expect(await head("copy/as it is")).toMatchObject({ ContentType: "a/b", Metadata: { a: "1" } });
    await client.send(
      new CopyObjectCommand({
        Bucket,
        Key: "copy/replaced",
        CopySource: `/${CopySource}`,
        MetadataDirective: "REPLACE",
        ContentType: "c/d",
        Metadata: { b: "2" },
      }),
    );
    expect(await head("copy/replaced")).toMatchObject({ ContentType: "c/d", Metadata: { b: "2" } });
    const copy = (more: object) =>
      client.send(new CopyObjectCommand({ Bucket, Key: "copy/never", CopySource, ...more }));
    expect(await refusal(copy({ CopySource: `${Bucket}/none` }))).toEqual(missing);
    for (const more of [
      { CopySourceIfMatch: '"other"' },
      { CopySourceIfNoneMatch: `"${md5("x")}"` },
      { CopySourceIfUnmodifiedSince: new Date(0) },
    ]) {
      expect((await refusal(copy(more))).slice(0, 2)).toEqual([412, "PreconditionFailed"]);
    }
    expect(await refusal(text("copy/never"))).toEqual(missing);
  });

  test("can be deleted", async () => {
    await put("gone");
    for (const _ of [1, 2]) {
      const response = await client.send(new DeleteObjectCommand({ Bucket, Key: "gone" }));
      expect(response.$metadata.httpStatusCode).toBe(204);
    }
    expect(await refusal(text("gone"))).toEqual(missing);
    await Promise.all(["many/a", "many/b & c"].map((key) => put(key)));
    const Objects = ["many/a", "many/b & c", "many/none"].map((Key) => ({ Key }));
    const { Deleted, Errors } = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
    expect(Deleted?.map(({ Key }) => Key).sort()).toEqual(["many/a", "many/b & c", "many/none"]);
    expect(Errors).toBeUndefined();
    const quiet = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } }));
    expect(quiet.Deleted).toBeUndefined();
  });

  test("is not overwritten with If-None-Match", async () => {
    const IfNoneMatch = "*";
    const Key = "new/put";
    await client.send(new PutObjectCommand({ Bucket, Key, Body: "first", IfNoneMatch }));
    const taken = [412, "PreconditionFailed"];
    const again = client.send(new PutObjectCommand({ Bucket, Key, Body: "second", IfNoneMatch }));
    expect((await refusal(again)).slice(0, 2)).toEqual(taken);
    const CopySource = `${Bucket}/${Key}`;
    const copy = client.send(new CopyObjectCommand({ Bucket, Key, CopySource, IfNoneMatch }));
    expect((await refusal(copy)).slice(0, 2)).toEqual(taken);
    const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key }));
    const upload = { Bucket, Key, UploadId };
    const { ETag } = await client.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body: "third" }));
    const MultipartUpload = { Parts: [{ ETag, PartNumber: 1 }] };
    const complete = { ...upload, MultipartUpload };
    const completed = client.send(new CompleteMultipartUploadCommand({ ...complete, IfNoneMatch }));
    expect((await refusal(completed)).slice(0, 2)).toEqual(taken);
    expect(await text(Key)).toBe("first");
    // Unsupported conditions are ignored.
    for (const condition of [{ IfNoneMatch: '"x"' }, { IfMatch: '"x"' }]) {
      const put = client.send(new PutObjectCommand({ Bucket, Key, Body: "fourth", ...condition }));
      expect((await refusal(put)).slice(0, 2)).toEqual([501, "NotImplemented"]);
    }
    expect(await text(Key)).toBe("first");
    await client.send(new CompleteMultipartUploadCommand(complete));
    expect(await text(Key)).toBe("third");
  });

  test("has attributes", async () => {
    await put("attributes", "12345");
    const ask = (ObjectAttributes: ObjectAttributes[], Key = "attributes") =>
      client.send(new GetObjectAttributesCommand({ Bucket, Key, ObjectAttributes }));
    const all = await ask(["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]);
    expect(all).toMatchObject({ ETag: md5("12345"), ObjectSize: 5, StorageClass: "STANDARD" });
    expect(all.LastModified).toBeInstanceOf(Date);
    const one = await ask(["ObjectSize"]);
    expect([one.ObjectSize, one.ETag, one.StorageClass]).toEqual([5, undefined, undefined]);
    expect(await refusal(ask(["ETag"], "attributes/none"))).toEqual(missing);
    expect((await refusal(ask(["Owner" as ObjectAttributes]))).slice(0, 2)).toEqual([400, "InvalidArgument"]);
  });

  test("has one version", async () => {
    const keys = ["versions/a", "versions/b", "versions/dir/c"];
    for (const key of keys) await put(key);
    const Prefix = "versions/";
    const list = (more: object) => client.send(new ListObjectVersionsCommand({ Bucket, Prefix, ...more }));
    const all = await list({});
    expect(all.Versions?.map(({ Key, VersionId, IsLatest, Size }) => [Key, VersionId, IsLatest, Size])).toEqual(
      keys.map((key) => [key, "null", true, key.length]),
    );
    expect([all.IsTruncated, all.DeleteMarkers]).toEqual([false, undefined]);
    const folders = await list({ Delimiter: "/" });
    expect(folders.CommonPrefixes).toEqual([{ Prefix: "versions/dir/" }]);
    const first = await list({ MaxKeys: 1 });
    expect([first.IsTruncated, first.NextKeyMarker, first.NextVersionIdMarker]).toEqual([true, keys[0], "null"]);
    const rest = await list({ KeyMarker: first.NextKeyMarker, VersionIdMarker: first.NextVersionIdMarker });
    expect(rest.Versions?.map(({ Key }) => Key)).toEqual(keys.slice(1));
    // Tools that empty a bucket delete by version.
    const VersionId = "null";
    const got = await client.send(new GetObjectCommand({ Bucket, Key: "versions/a", VersionId }));
    expect(await got.Body?.transformToString()).toBe("versions/a");
    await client.send(new DeleteObjectCommand({ Bucket, Key: "versions/a", VersionId }));
    const Objects = keys.slice(1).map((Key) => ({ Key, VersionId }));
    await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
    expect((await list({})).Versions).toBeUndefined();
    const other = client.send(new GetObjectCommand({ Bucket, Key: "versions/a", VersionId: "1" }));
    expect((await refusal(other)).slice(0, 2)).toEqual([501, "NotImplemented"]);
  });

  test("has no tags", async () => {
    await put("untagged");
    expect((await client.send(new GetObjectTaggingCommand({ Bucket, Key: "untagged" }))).TagSet).toEqual([]);
  });
});

describe("integrity", () => {
  test.each(["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"] as const)("checksum %s", async (ChecksumAlgorithm) => {
    const Key = `checksum/${ChecksumAlgorithm}`;
    const response = await client.send(new PutObjectCommand({ Bucket, Key, Body: "checked", ChecksumAlgorithm }));
    expect(response[`Checksum${ChecksumAlgorithm}`]).toEqual(expect.any(String));
    expect(await text(Key)).toBe("checked");
  });

  test("mismatch stores nothing", async () => {
    const Key = "checksum/wrong";
    const wrong = (more: object) => client.send(new PutObjectCommand({ Bucket, Key, Body: "checked", ...more }));
    expect((await refusal(wrong({ ChecksumCRC32: "AAAAAA==" }))).slice(0, 2)).toEqual([400, "BadDigest"]);
    expect((await refusal(wrong({ ChecksumSHA256: "AAAA" }))).slice(0, 2)).toEqual([400, "BadDigest"]);
    expect((await refusal(wrong({ ContentMD5: "1B2M2Y8AsgTpgAmY7PhCfg==" }))).slice(0, 2)).toEqual([400, "BadDigest"]);
    expect((await refusal(wrong({ ContentMD5: "no" }))).slice(0, 2)).toEqual([400, "InvalidDigest"]);
    expect(await refusal(text(Key))).toEqual(missing);
  });

  test("streamed with a trailing checksum", async () => {
    const data = bytes(300_000);
    const Body = Readable.from([data.subarray(0, 70_000), data.subarray(70_000)]);
    await client.send(new PutObjectCommand({ Bucket, Key: "streamed", Body, ContentLength: data.length }));
    const got = await client.send(new GetObjectCommand({ Bucket, Key: "streamed" }));
    expect(md5((await got.Body?.transformToByteArray()) ?? "")).toBe(md5(data));
  });
});

describe("a list", () => {
  const keys = ["l/a.txt", "l/b/1", "l/b/2", "l/c & d", "l/e/f/g", "l/z"];

  beforeAll(async () => {
    await Promise.all(keys.map((key) => put(key)));
  });

  test("has all keys of a prefix in order", async () => {
    const all = await client.send(new ListObjectsV2Command({ Bucket, Prefix: "l/" }));
    expect(all.Contents?.map(({ Key }) => Key)).toEqual(keys);
    expect(all).toMatchObject({ Name: Bucket, Prefix: "l/", KeyCount: 6, MaxKeys: 1000, IsTruncated: false });
    expect(all.Contents?.[0]).toMatchObject({ ETag: `"${md5("l/a.txt")}"`, Size: 7, StorageClass: "STANDARD" });
    expect(all.Contents?.[0]?.LastModified).toBeInstanceOf(Date);
  });

  test.each([1, 2, 3, 4])("has pages of %i, a folder counts as one", async (MaxKeys) => {
    const found: unknown[] = [];
    let pages = 0;
    for await (const page of paginateListObjectsV2({ client }, { Bucket, Prefix: "l/", Delimiter: "/", MaxKeys })) {
      found.push(...(page.Contents ?? []).map(({ Key }) => Key), ...(page.CommonPrefixes ?? []).map((at) => at.Prefix));
      expect(page.KeyCount).toBeLessThanOrEqual(MaxKeys);
      pages += 1;
    }
    expect(found.sort()).toEqual(["l/a.txt", "l/b/", "l/c & d", "l/e/", "l/z"]);
    expect(pages).toBe(Math.ceil(5 / MaxKeys));
  });

  test("v1 continues from a marker", async () => {
    const found: unknown[] = [];
    let Marker: string | undefined;
    do {
      const page = await client.send(
        new ListObjectsCommand({ Bucket, Prefix: "l/", Delimiter: "/", MaxKeys: 2, Marker }),
      );
      found.push(...(page.Contents ?? []).map(({ Key }) => Key), ...(page.CommonPrefixes ?? []).map((at) => at.Prefix));
      Marker = page.IsTruncated ? page.NextMarker : undefined;
    } while (Marker);
    expect(found.sort()).toEqual(["l/a.txt", "l/b/", "l/c & d", "l/e/", "l/z"]);
  });

  test("supports StartAfter and URL encoding", async () => {
    const after = await client.send(new ListObjectsV2Command({ Bucket, Prefix: "l/", StartAfter: "l/b/2" }));
    expect(after.Contents?.map(({ Key }) => Key)).toEqual(["l/c & d", "l/e/f/g", "l/z"]);
    const encoded = await client.send(new ListObjectsV2Command({ Bucket, Prefix: "l/c", EncodingType: "url" }));
    expect([encoded.EncodingType, encoded.Contents?.[0]?.Key]).toEqual(["url", "l/c%20%26%20d"]);
    const none = await client.send(new ListObjectsV2Command({ Bucket, Prefix: "l/", MaxKeys: 0 }));
    expect([none.KeyCount, none.IsTruncated]).toEqual([0, false]);
    const other = await client.send(new ListObjectsV2Command({ Bucket, Prefix: "l/", Delimiter: "/f" }));
    expect(other.CommonPrefixes).toEqual([{ Prefix: "l/e/f" }]);
    const bad = client.send(new ListObjectsV2Command({ Bucket, ContinuationToken: "%" }));
    expect((await refusal(bad)).slice(0, 2)).toEqual([400, "InvalidArgument"]);
  });
});

describe("a multipart upload", () => {
  const begin = async (Key: string, more: object = {}) => {
    const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key, ...more }));
    return { Bucket, Key, UploadId };
  };

  test("joins parts by number", async () => {
    const upload = await begin("multi/three", { ContentType: "a/b", Metadata: { m: "1" } });
    const parts = ["three", "one", "two"].map((word) => word.repeat(1000));
    const numbers = [3, 1, 2];
    const sent = await Promise.all(
      parts.map((Body, index) => client.send(new UploadPartCommand({ ...upload, PartNumber: numbers[index], Body }))),
    );
    expect(sent[0]?.ETag).toBe(`"${md5("three".repeat(1000))}"`);
    const again = await client.send(new UploadPartCommand({ ...upload, PartNumber: 2, Body: "TWO" }));
    const listed = await client.send(new ListPartsCommand({ ...upload, MaxParts: 2 }));
    expect(listed.Parts?.map((part) => [part.PartNumber, part.Size])).toEqual([
      [1, 3000],
      [2, 3],
    ]);
    expect([listed.IsTruncated, listed.NextPartNumberMarker]).toEqual([true, "2"]);
    const uploads = await client.send(new ListMultipartUploadsCommand({ Bucket, Prefix: "multi/" }));
    expect(uploads.Uploads?.map(({ Key, UploadId }) => ({ Key, UploadId }))).toContainEqual({
      Key: upload.Key,
      UploadId: upload.UploadId,
    });
    const Parts = [
      { PartNumber: 1, ETag: sent[1]?.ETag },
      { PartNumber: 2, ETag: again.ETag },
      { PartNumber: 3, ETag: sent[0]?.ETag },
    ];
    const complete = (parts: object[]) =>
      client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts: parts } }));
    expect(await refusal(complete([{ ...Parts[0], ETag: '"x"' }]))).toEqual([
      400,
      "InvalidChecksum",
      "Invalid ETag for part 1",
    ]);
    expect((await refusal(complete([Parts[1] ?? {}, Parts[0] ?? {}])))[1]).toBe("InvalidPartOrder");
    expect((await refusal(complete([...Parts, { PartNumber: 4, ETag: '"x"' }])))[1]).toBe("InvalidPart");
    const done = await complete(Parts);
    const digests = ["one".repeat(1000), "TWO", "three".repeat(1000)].map((part) =>
      createHash("md5").update(part).digest(),
    );
    expect(done.ETag).toBe(`"${createHash("md5").update(Buffer.concat(digests)).digest("hex")}-3"`);
    expect(await text("multi/three")).toBe(`${"one".repeat(1000)}TWO${"three".repeat(1000)}`);
    const head = await client.send(new HeadObjectCommand({ Bucket, Key: "multi/three" }));
    expect(head).toMatchObject({ ContentType: "a/b", Metadata: { m: "1" }, ETag: done.ETag });
    expect(await refusal(complete(Parts))).toEqual([404, "NoSuchUpload", "Upload not found"]);
  });

  test("can have one part", async () => {
    const upload = await begin("multi/one");
    const { ETag } = await client.send(new UploadPartCommand({ ...upload, PartNumber: 7, Body: "only" }));
    const Parts = [{ PartNumber: 7, ETag }];
    await client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } }));
    expect(await text("multi/one")).toBe("only");
  });

  test("can copy parts of objects", async () => {
    await put("multi/source", "0123456789");
    const upload = await begin("multi/copied");
    const CopySource = `${Bucket}/multi/source`;
    const whole = await client.send(new UploadPartCopyCommand({ ...upload, PartNumber: 1, CopySource }));
    const some = await client.send(
      new UploadPartCopyCommand({ ...upload, PartNumber: 2, CopySource, CopySourceRange: "bytes=2-4" }),
    );
    const Parts = [whole, some].map(({ CopyPartResult }, index) => ({
      PartNumber: index + 1,
      ETag: CopyPartResult?.ETag,
    }));
    await client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } }));
    expect(await text("multi/copied")).toBe("0123456789234");
  });

  test("leaves nothing after abort", async () => {
    const upload = await begin("multi/aborted");
    await client.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body: "x" }));
    const aborted = await client.send(new AbortMultipartUploadCommand(upload));
    expect(aborted.$metadata.httpStatusCode).toBe(200);
    const gone = [404, "NoSuchUpload", "Upload not found"];
    expect(await refusal(client.send(new ListPartsCommand(upload)))).toEqual(gone);
    expect(await refusal(client.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body: "x" })))).toEqual(gone);
    expect(await refusal(client.send(new AbortMultipartUploadCommand(upload)))).toEqual(gone);
    expect(await refusal(text("multi/aborted"))).toEqual(missing);
  });

  // Objects of a hundred megabytes run nightly only.
  const megabytes = process.env.MODE === "nightly" ? 100 : 12;
  test(`streams ${megabytes} MB of unknown length`, { timeout: 300_000 }, async () => {
    const data = bytes(megabytes * 1_000_000);
    const pieces = function* () {
      for (let at = 0; at < data.length; at += 100_000) yield data.subarray(at, at + 100_000);
    };
    const upload = new Upload({ client, params: { Bucket, Key: "multi/large", Body: Readable.from(pieces()) } });
    const { ETag } = await upload.done();
    expect(ETag).toMatch(/^"[0-9a-f]{32}-\d+"$/);
    const got = await client.send(new GetObjectCommand({ Bucket, Key: "multi/large" }));
    expect(md5((await got.Body?.transformToByteArray()) ?? "")).toBe(md5(data));
  });
});

describe("a presigned URL", () => {
  test("works without other credentials", async () => {
    const Key = "presigned/a b";
    const write = await getSignedUrl(client, new PutObjectCommand({ Bucket, Key, Metadata: { by: "url" } }));
    const written = await fetch(write, { method: "PUT", body: "by address" });
    expect([written.status, await written.text()]).toEqual([200, ""]);
    const read = await getSignedUrl(client, new GetObjectCommand({ Bucket, Key }), { expiresIn: 60 });
    const got = await fetch(read);
    expect([got.status, got.headers.get("x-amz-meta-by"), await got.text()]).toEqual([200, "url", "by address"]);
    const other = await fetch(read, { method: "DELETE" });
    expect([other.status, await other.text()]).toEqual([403, expect.stringContaining("SignatureDoesNotMatch")]);
    const longer = await fetch(read.replace("X-Amz-Expires=60", "X-Amz-Expires=600"));
    expect(longer.status).toBe(403);
  });

  test("expires", async () => {
    const signingDate = new Date(Date.now() - 61_000);
    const command = new GetObjectCommand({ Bucket, Key: "presigned/late" });
    const late = await fetch(await getSignedUrl(client, command, { expiresIn: 60, signingDate }));
    expect([late.status, await late.text()]).toEqual([403, expect.stringContaining("Request has expired")]);
  });

  test("as a form enforces its policy", async () => {
    const { url, fields } = await createPresignedPost(client, {
      Bucket,
      // biome-ignore lint/suspicious/noTemplateCurlyInString: S3 puts the file's name there
      Key: "form/${filename}",
      Conditions: [
        ["content-length-range", 1, 20],
        ["starts-with", "$Content-Type", "text/"],
      ],
      Expires: 60,
    });
    const send = (changes: Record<string, string>, body: string, key = "form/a.txt") => {
      const form = new FormData();
      for (const [name, value] of Object.entries({ ...fields, "Content-Type": "text/plain", ...changes })) {
        form.append(name, value);
      }
      form.append("file", new Blob([body]), key.replace("form/", ""));
      return fetch(url, { method: "POST", body: form });
    };
    const stored = await send({}, "from a form");
    expect([stored.status, await stored.text()]).toEqual([200, ""]);
    const post = await createPresignedPost(client, {
      Bucket,
      Key: "form/signed",
      Fields: { success_action_status: "204" },
      Conditions: [["eq", "$success_action_status", "204"]],
    });
    const form = new FormData();
    for (const [name, value] of Object.entries(post.fields)) form.append(name, value);
    form.append("file", new Blob(["x"]));
    expect((await fetch(post.url, { method: "POST", body: form })).status).toBe(204);
    expect(await text("form/a.txt")).toBe("from a form");
    const refused = async (changes: Record<string, string>, body: string) => {
      const response = await send(changes, body, "form/refused");
      return [response.status, /<Code>(\w+)<\/Code>/.exec(await response.text())?.[1]];
    };
    expect(await refused({ "Content-Type": "image/png" }, "x")).toEqual([403, "AccessDenied"]);
    expect(await refused({ acl: "public-read" }, "x")).toEqual([403, "AccessDenied"]);
    expect(await refused({ Policy: Buffer.from("{}").toString("base64") }, "x")).toEqual([
      403,
      "SignatureDoesNotMatch",
    ]);
    expect(await refused({}, "x".repeat(21))).toEqual([400, "EntityTooLarge"]);
    expect(await refused({}, "")).toEqual([400, "EntityTooSmall"]);
    expect(await refusal(text("form/refused"))).toEqual(missing);
  });
});

describe("a user's token", () => {
  const Folders = unique("s3-folders");

  beforeAll(async () => {
    await client.send(new CreateBucketCommand({ Bucket: Folders }));
  });

  test("is limited by policies", async () => {
    const [ada, bob] = await Promise.all([person(), person()]);
    const [hers, his] = [s3As(ada.session.access_token), s3As(bob.session.access_token)];
    const nobody = s3As(anonKey);
    const at = { Bucket: Folders, Key: `${ada.user.id}/note` };
    await hers.send(new PutObjectCommand({ ...at, Body: "hers" }));
    await hers.send(new PutObjectCommand({ ...at, Body: "hers again" }));
    const { data } = await service().storage.from(at.Bucket).info(at.Key);
    expect(data?.size).toBe(10);
    const got = await hers.send(new GetObjectCommand(at));
    expect(await got.Body?.transformToString()).toBe("hers again");
    for (const stranger of [his, nobody]) {
      expect(await refusal(stranger.send(new GetObjectCommand(at)))).toEqual(missing);
      expect((await refusal(stranger.send(new HeadObjectCommand(at))))[0]).toBe(404);
      expect(await refusal(stranger.send(new PutObjectCommand({ ...at, Body: "theirs" })))).toEqual([
        403,
        "AccessDenied",
        "new row violates row-level security policy",
      ]);
      const own = { Bucket: at.Bucket, Key: `${bob.user.id}/copy`, CopySource: `${at.Bucket}/${at.Key}` };
      expect(await refusal(stranger.send(new CopyObjectCommand(own)))).toEqual(missing);
      const list = await stranger.send(new ListObjectsV2Command({ Bucket: at.Bucket, Prefix: `${ada.user.id}/` }));
      expect(list.KeyCount).toBe(0);
      expect((await refusal(stranger.send(new CreateMultipartUploadCommand(at))))[0]).toBe(403);
      expect((await stranger.send(new ListBucketsCommand())).Buckets ?? []).toEqual([]);
      await stranger.send(new DeleteObjectCommand(at));
    }
    expect((await hers.send(new HeadObjectCommand(at))).ContentLength).toBe(10);
    await hers.send(new DeleteObjectCommand(at));
    expect(await refusal(hers.send(new GetObjectCommand(at)))).toEqual(missing);
  });

  test("protects multipart uploads from other users", async () => {
    const [ada, bob] = await Promise.all([person(), person()]);
    const [hers, his] = [s3As(ada.session.access_token), s3As(bob.session.access_token)];
    const at = { Bucket: Folders, Key: `${ada.user.id}/large` };
    const { UploadId } = await hers.send(new CreateMultipartUploadCommand(at));
    const upload = { ...at, UploadId };
    const { ETag } = await hers.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body: "hers" }));
    const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] };
    for (const command of [
      new UploadPartCommand({ ...upload, PartNumber: 1, Body: "his" }),
      new ListPartsCommand(upload),
      new AbortMultipartUploadCommand(upload),
      new CompleteMultipartUploadCommand({ ...upload, MultipartUpload }),
    ]) {
      // biome-ignore lint/suspicious/noExplicitAny: the client's types tell each command apart
      expect((await refusal(his.send(command as any)))[0]).toBe(403);
    }
    await hers.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload }));
    expect((await hers.send(new HeadObjectCommand(at))).ContentLength).toBe(4);
  });

  test("must be valid", async () => {
    const ada = await person();
    const broken = `${ada.session.access_token.slice(0, -4)}AAAA`;
    expect((await refusal(s3As(broken).send(new ListBucketsCommand()))).slice(0, 2)).toEqual([403, "AccessDenied"]);
  });
});

describe("rejected", () => {
  test("wrong key, secret or region", async () => {
    const list = new ListBucketsCommand();
    expect(await refusal(s3({ ...pair, accessKeyId: "another" }).send(list))).toEqual([
      403,
      "AccessDenied",
      "Invalid Access Key",
    ]);
    const secret = s3({ ...pair, secretAccessKey: "another" }).send(list);
    expect(await refusal(secret)).toEqual([403, "SignatureDoesNotMatch", expect.stringContaining("does not match")]);
    expect((await refusal(s3(pair, "eu-west-1").send(list))).slice(0, 2)).toEqual([
      400,
      "AuthorizationHeaderMalformed",
    ]);
    for (const region of ["auto", "local"]) await s3(pair, region).send(list);
    const unsigned = await fetch(`${endpoint}/${Bucket}`);
    expect([unsigned.status, unsigned.headers.get("content-type"), await unsigned.text()]).toEqual([
      403,
      "application/xml",
      `<?xml version="1.0" encoding="UTF-8"?><Error><Resource>${Bucket}</Resource><Code>AccessDenied</Code><Message>Missing signature</Message></Error>`,
    ]);
  });

  test("unsupported operations change nothing", async () => {
    await put("kept", "kept");
    const acl = client.send(new PutObjectAclCommand({ Bucket, Key: "kept", ACL: "public-read" }));
    expect((await refusal(acl)).slice(0, 2)).toEqual([501, "NotImplemented"]);
    const bucketAcl = client.send(new GetBucketAclCommand({ Bucket }));
    expect((await refusal(bucketAcl)).slice(0, 2)).toEqual([501, "NotImplemented"]);
    expect(await text("kept")).toBe("kept");
  });
});
