import { expect, test } from "vitest";
import { arrange } from "./plan-order";
import type { Plan } from "./queries";

const plan = (title: string, change: Partial<Plan> = {}) =>
  ({ id: title, title, archived_at: null, estimated_end_date: null, ...change }) as Plan;
const plans = [
  plan("Outreach", { estimated_end_date: "2030-01-01" }),
  plan("Warm meals"),
  plan("Board", { estimated_end_date: "2029-01-01" }),
  plan("Old outreach", { archived_at: "2026-01-01T00:00:00Z" }),
];
const percents: Record<string, number> = { Outreach: 50, "Warm meals": 10, Board: 90 };
const titles = (change: Partial<Parameters<typeof arrange>[1]>) =>
  arrange(plans, { wanted: "", order: "newest", archived: false, percentOf: (id) => percents[id] ?? 0, ...change }).map(
    ({ title }) => title,
  );

test("plans are searched, sorted and shown apart from the archive", () => {
  expect(titles({})).toEqual(["Outreach", "Warm meals", "Board"]);
  expect(titles({ wanted: " OUT " })).toEqual(["Outreach"]);
  expect(titles({ archived: true })).toEqual(["Old outreach"]);
  expect(titles({ order: "title" })).toEqual(["Board", "Outreach", "Warm meals"]);
  expect(titles({ order: "end" })).toEqual(["Board", "Outreach", "Warm meals"]);
  expect(titles({ order: "progress" })).toEqual(["Warm meals", "Outreach", "Board"]);
});
