import { expect, test, vi } from "vitest";
import { beginUnsaved, held, holdRow, holdRows, holdValue } from "./held";

const [one, two, three] = [{ id: "1" }, { id: "2" }, { id: "3" }];

test("rows that go while something is unsaved keep their places", async () => {
  expect(holdRows([one, two], [two])).toEqual([two]);
  const saved = beginUnsaved();
  expect(holdRows([one, two], [three, two])).toEqual([one, three, two]);
  expect(holdRows([one, two], [])).toEqual([one, two]);
  expect(holdRow(one, null)).toBe(one);
  expect(holdRow(one, { id: "1", title: "new" })).toEqual({ id: "1", title: "new" });
  expect(holdValue("manager", "viewer")).toBe("manager");
  expect([held.isHolding(), held.has("1"), held.has("3")]).toEqual([true, false, false]);
  expect(holdRow(two, null)).toBe(two);
  expect(held.has("2")).toBe(true);

  const changed = vi.fn();
  const unwatch = held.watch(changed);
  saved();
  expect(changed).toHaveBeenCalledOnce();
  expect(held.isHolding()).toBe(false);
  expect(holdRows([one, two], [two])).toEqual([two]);
  expect(holdRow(one, null)).toBeNull();
  expect(holdValue("manager", "viewer")).toBe("viewer");
  unwatch();
});

test("nothing is held where nothing went", () => {
  const saved = beginUnsaved();
  const before = [one, two];
  expect(holdRows(before, [{ id: "1" }, { id: "2" }])).toBe(before);
  expect(holdRow(undefined, null)).toBeNull();
  expect(held.isHolding()).toBe(false);
  saved();
});
