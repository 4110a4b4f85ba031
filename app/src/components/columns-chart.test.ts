import { expect, test } from "vitest";
import { highest } from "./columns-chart";

const columns = (...percents: number[]) => percents.map((percent, index) => ({ key: String(index), percent }));

test("only a single highest column is the summit", () => {
  expect(highest(columns(20, 60, 40))).toBe("1");
  expect(highest(columns(60, 60, 40))).toBeNull();
  expect(highest(columns(0, 0))).toBeNull();
  expect(highest([])).toBeNull();
});
