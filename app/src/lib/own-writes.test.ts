import { expect, test } from "vitest";
import { isOwnWrite, ownWrite } from "./own-writes";

const row = (id: string, updated_at: string) => ({ id, updated_at });

test("the event of an own write is recognised before and after the response", async () => {
  const response = Promise.withResolvers<{ data: ReturnType<typeof row> | null }>();
  const write = ownWrite("a", response.promise);
  expect(isOwnWrite(row("a", "2"))).toBe(true);
  expect(isOwnWrite(row("b", "2"))).toBe(false);
  response.resolve({ data: row("a", "2") });
  expect(await write).toEqual(row("a", "2"));
  expect(isOwnWrite(row("a", "2"))).toBe(true);
  expect(isOwnWrite(row("a", "3"))).toBe(false);
});

test("a move by another person, which keeps the version, is not taken for an own write", async () => {
  await ownWrite("m", Promise.resolve({ data: { ...row("m", "2"), position: 1 } }));
  expect(isOwnWrite({ ...row("m", "2"), position: 1 })).toBe(true);
  expect(isOwnWrite({ ...row("m", "2"), position: 1.5 })).toBe(false);
});

test("a write that changed nothing or failed leaves nothing behind", async () => {
  expect(await ownWrite("c", Promise.resolve({ data: null }))).toBeNull();
  await expect(ownWrite("c", Promise.reject(new Error("offline")))).rejects.toThrow("offline");
  expect(isOwnWrite(row("c", "1"))).toBe(false);
  expect(isOwnWrite({})).toBe(false);
});

test("only the latest writes are remembered", async () => {
  for (let index = 0; index <= 100; index += 1) await ownWrite("d", Promise.resolve({ data: row("d", `${index}`) }));
  expect(isOwnWrite(row("d", "0"))).toBe(false);
  expect(isOwnWrite(row("d", "1"))).toBe(true);
});
