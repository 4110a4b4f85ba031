import { describe, expect, it } from "vitest";
import { periodOf, presetOf } from "./periods";

describe("periodOf", () => {
  it.each([
    ["this-quarter", "2027-01-01", "2027-03-31"],
    ["last-quarter", "2026-10-01", "2026-12-31"],
    ["this-year", "2027-01-01", "2027-12-31"],
    ["last-year", "2026-01-01", "2026-12-31"],
  ] as const)("%s in February", (preset, firstDay, lastDay) => {
    expect(periodOf(preset, new Date(2027, 1, 28))).toEqual({ firstDay, lastDay });
  });

  it("ends a quarter on a day that its last month has", () => {
    expect(periodOf("this-quarter", new Date(2027, 5, 30, 23, 59))).toEqual({
      firstDay: "2027-04-01",
      lastDay: "2027-06-30",
    });
  });
});

describe("presetOf", () => {
  it("finds the preset of a period, and none for other dates", () => {
    const now = new Date(2027, 1, 28);
    expect(presetOf({ firstDay: "2026-10-01", lastDay: "2026-12-31" }, now)).toBe("last-quarter");
    expect(presetOf({ firstDay: "2026-10-02", lastDay: "2026-12-31" }, now)).toBeNull();
  });
});
