import { expect, test } from "vitest";
import { formatUsd } from "./usd";

test.each([
  [0, "$0"],
  [20, "$20"],
  [19.5, "$19.50"],
  [1234.56, "$1,234.56"],
])("%d dollars are %s", (amount, text) => {
  expect(formatUsd(amount)).toBe(text);
});
