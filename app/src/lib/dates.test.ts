import { afterEach, expect, test, vi } from "vitest";
import { formatAge, formatDay, isRealDay, today } from "./dates";

afterEach(() => vi.useRealTimers());

test("a day is the same in every time zone", () => {
  expect(formatDay("2027-01-31")).toBe("Jan 31, 2027");
  expect(formatDay("2027-09-01T12:00:00+00:00")).toBe("Sep 1, 2027");
});

test.each([
  [10, "less than a minute ago"],
  [60, "1 minute ago"],
  [59 * 60, "59 minutes ago"],
  [60 * 60, "1 hour ago"],
  [26 * 3600, "1 day ago"],
  [29 * 86_400, "29 days ago"],
  [31 * 86_400, "1 month ago"],
  [364 * 86_400, "1 year ago"],
  [800 * 86_400, "2 years ago"],
])("%i seconds are %s", (seconds, age) => {
  expect(formatAge(new Date(Date.now() - seconds * 1000).toISOString())).toBe(age);
});

test("rejects days that do not exist", () => {
  expect(["2028-02-29", "2027-02-29", "2027-13-01", "2027-1-1", ""].map(isRealDay)).toEqual([
    true,
    false,
    false,
    false,
    false,
  ]);
});

test("today is in the local time zone", () => {
  vi.useFakeTimers({ now: new Date(2027, 0, 5, 0, 30) });
  expect(today()).toBe("2027-01-05");
});
