import { expect, test } from "vitest";
import { chartColumns } from "./chart-columns";

const columns = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    key: `${index}`,
    title: `Title ${index}`,
    percent: index % 2 ? 100 : 0,
  }));

test("few columns stay as they are", () => {
  expect(chartColumns(columns(40))).toEqual(columns(40));
});

test("many columns become averages of neighbours", () => {
  const shown = chartColumns(columns(500));
  expect(shown.length).toBeLessThanOrEqual(40);
  expect(shown[0]).toEqual({ key: "0", title: "Priorities 1 to 13", percent: 46 });
  expect(shown.at(-1)?.title).toBe("Priorities 495 to 500");
});
