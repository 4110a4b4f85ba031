import { expect, test } from "vitest";
import { type Hit, matching, patternOf } from "./find-query";

test.each([
  ["hall", "%hall%"],
  ["find  hall", "%find%hall%"],
  ["100%", "%100\\%%"],
  ["a_b\\", "%a\\_b\\\\%"],
  ["2 * 3", "%2%_%3%"],
])("%s is looked for as %s", (text, pattern) => {
  expect(patternOf(text)).toBe(pattern);
});

test("words are found in any order, and a few of each kind are shown", () => {
  const hits = Array.from(
    { length: 9 },
    (_, index): Hit => ({ key: `${index}`, kind: "Plan", label: "Warm Meals", path: "" }),
  );
  expect(matching(hits, "meals warm")).toHaveLength(6);
  expect(matching(hits, "cold")).toEqual([]);
});
