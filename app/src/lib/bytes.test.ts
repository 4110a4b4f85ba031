import { expect, test } from "vitest";
import { formatBytes } from "./bytes";

test.each([
  [0, "0 B"],
  [1023, "1,023 B"],
  [1024, "1 KB"],
  [1_572_864, "1.5 MB"],
  [52_428_800, "50 MB"],
  [2 ** 51, "2,048 TB"],
])("%d bytes are %s", (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});
