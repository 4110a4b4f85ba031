import { expect, test } from "vitest";
import { followerOf, reordered } from "./order";

const items = ["a", "b", "c", "d"].map((id) => ({ id }));
const move = (moved: string, target: string, side: "before" | "after") =>
  reordered(items, moved, followerOf(items, moved, target, side))
    .map(({ id }) => id)
    .join("");

test.each([
  ["b", "a", "before", "bacd"],
  ["a", "b", "after", "bacd"],
  ["a", "d", "after", "bcda"],
  ["d", "a", "before", "dabc"],
  ["b", "d", "before", "acbd"],
  // Dropped where it was.
  ["b", "a", "after", "abcd"],
  ["b", "c", "before", "abcd"],
] as const)("%s dropped beside %s, %s it", (moved, target, side, order) => {
  expect(move(moved, target, side)).toBe(order);
});

test("an item that was deleted meanwhile moves nothing", () => {
  expect(reordered(items, "gone", "a")).toEqual(items);
});
