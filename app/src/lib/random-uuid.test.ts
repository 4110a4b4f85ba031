import { expect, test } from "vitest";
import * as z from "zod/mini";
import { randomUuid } from "./random-uuid";

test("makes different UUIDs of version 4", () => {
  const made = Array.from({ length: 100 }, randomUuid);
  expect(new Set(made).size).toBe(100);
  for (const uuid of made) expect(z.uuidv4().safeParse(uuid).success).toBe(true);
});
