import { expect, test } from "vitest";
import { countDone, percentOf } from "./progress";

test("zero of zero is zero percent", () => expect(percentOf(countDone([]))).toBe(0));

test.each([
  [1, 3, 33],
  [2, 3, 67],
  [1, 200, 1],
  [1, 201, 0],
  [199, 200, 100],
  [7, 7, 100],
])("%i of %i is %i %%", (completed, total, percent) => expect(percentOf({ completed, total })).toBe(percent));
