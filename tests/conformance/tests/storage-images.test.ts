import { crc32, deflateSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { type Person, person, service, unique } from "../support/clients";

let ada: Person;
let open: string;
let closed: string;

/** A red PNG. */
function picture(width: number, height: number): Blob {
  const chunk = (name: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(name), data]);
    const framed = Buffer.alloc(body.length + 8);
    framed.writeUInt32BE(data.length);
    body.copy(framed, 4);
    framed.writeUInt32BE(crc32(body), body.length + 4);
    return framed;
  };
  const head = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0]);
  head.writeUInt32BE(width);
  head.writeUInt32BE(height, 4);
  const row = Buffer.concat([Buffer.alloc(1), Buffer.alloc(width * 3).fill(Buffer.from([230, 20, 20]))]);
  const rows = deflateSync(Buffer.concat(Array(height).fill(row)));
  const signature = Buffer.from("89504e470d0a1a0a", "hex");
  const parts = [signature, chunk("IHDR", head), chunk("IDAT", rows), chunk("IEND", Buffer.alloc(0))];
  return new Blob([Buffer.concat(parts)], { type: "image/png" });
}

/** Width and height of a PNG. */
async function size(image: Blob | null): Promise<[number, number]> {
  const bytes = Buffer.from((await image?.arrayBuffer()) ?? new ArrayBuffer(0));
  expect(bytes.toString("latin1", 1, 4)).toBe("PNG");
  return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
}

beforeAll(async () => {
  ada = await person();
  [open, closed] = [unique("writes"), unique("writes")];
  for (const [id, isPublic] of [
    [open, true],
    [closed, false],
  ] as const) {
    expect((await service().storage.createBucket(id, { public: isPublic })).error).toBeNull();
    expect((await ada.client.storage.from(id).upload("a.png", picture(40, 20))).error).toBeNull();
  }
});

describe("transform", () => {
  test("in downloads", async () => {
    const files = ada.client.storage.from(closed);
    const { data, error } = await files.download("a.png", { transform: { width: 10, height: 10 } });
    expect(error).toBeNull();
    expect(await size(data)).toEqual([10, 10]);
    const hidden = await (await person()).client.storage.from(closed).download("a.png", { transform: { width: 9 } });
    expect(hidden.error).not.toBeNull();
  });

  test("in public URLs", async () => {
    const transform = { width: 10, height: 10, resize: "contain", quality: 50, format: "origin" } as const;
    const { data } = ada.client.storage.from(open).getPublicUrl("a.png", { transform, download: "b.png" });
    expect(data.publicUrl).toContain("/render/image/public/");
    const response = await fetch(data.publicUrl);
    expect(await size(await response.blob())).toEqual([10, 5]);
    expect(response.headers.get("content-disposition")).toContain('filename="b.png"');
    const browser = await fetch(data.publicUrl.replace("format=origin", "x=y"), {
      headers: { accept: "image/avif,image/webp,*/*;q=0.8" },
    });
    expect(browser.headers.get("content-type")).toBe("image/webp");
  });

  test("in signed URLs, limited to the signed transform", async () => {
    const files = ada.client.storage.from(closed);
    const { data, error } = await files.createSignedUrl("a.png", 60, { transform: { width: 20, resize: "fill" } });
    expect(error).toBeNull();
    const url = data?.signedUrl ?? "";
    expect(url).toContain("/render/image/sign/");
    expect(await size(await (await fetch(`${url}&width=40`)).blob())).toEqual([20, 10]);
    expect((await fetch(url.replace("/render/image/", "/object/"))).status).toBe(400);
  });
});
