import { expect, test } from "vitest";
import { metricsByPlan, summarise } from "./metrics";

const task = (id: string, change: object = {}) => ({
  id,
  plan_id: "plan",
  priority_id: "one",
  is_completed: false,
  completed_at: null,
  due_date: null,
  responsible_ids: [],
  ...change,
});

test("counts only the plan's own rows", () => {
  const tasks = [task("a", { is_completed: true }), task("b"), task("c", { plan_id: "other", priority_id: "three" })];
  const priorities = [
    { id: "one", plan_id: "plan" },
    { id: "two", plan_id: "plan" },
    { id: "three", plan_id: "other" },
  ];
  const metrics = metricsByPlan(tasks, priorities, [{ plan_id: "plan" }]);
  expect(metrics.get("plan")).toEqual({
    columns: [
      { key: "one", percent: 50 },
      { key: "two", percent: 0 },
    ],
    done: { completed: 1, total: 2 },
    percent: 50,
    files: 1,
  });
  expect(metrics.get("other")?.done).toEqual({ completed: 0, total: 1 });
});

test("summary counts overdue, upcoming and done by week", () => {
  const now = Date.parse("2027-03-10T12:00:00Z");
  const tasks = [
    task("late", { due_date: "2027-03-09" }),
    task("today", { due_date: "2027-03-10" }),
    task("next week", { due_date: "2027-03-17" }),
    task("later", { due_date: "2027-03-18", responsible_ids: ["me", "you"] }),
    task("late, but done", { due_date: "2027-03-01", is_completed: true, completed_at: "2027-03-09T08:00:00Z" }),
    task("long done", { is_completed: true, responsible_ids: ["me"], completed_at: "2026-01-01T00:00:00Z" }),
  ];
  const summary = summarise(tasks, "me", "2027-03-10", now);
  expect(summary).toMatchObject({ overdue: 1, dueThisWeek: 2, mine: 1, done: { completed: 2, total: 6 } });
  expect(summary.weeks).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
});
