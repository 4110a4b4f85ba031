import { expect, test } from "vitest";
import { fetchAllRows, pageSize } from "./rows";

test.each([0, 1, pageSize - 1, pageSize, pageSize + 1, 5 * pageSize])("reads %d rows in order", async (total) => {
  const rows = Array.from({ length: total }, (_, index) => index);
  let pending = 0;
  let most = 0;
  const read = await fetchAllRows(async (from, to) => {
    pending += 1;
    most = Math.max(most, pending);
    // Later pages are answered first.
    await new Promise((resolve) => setTimeout(resolve, from === 0 ? 1 : 10 - from / pageSize));
    pending -= 1;
    return { data: rows.slice(from, to + 1), count: from === 0 ? total : null };
  });
  expect(read).toEqual(rows);
  expect(most).toBe(Math.max(1, Math.ceil(total / pageSize) - 1));
});
