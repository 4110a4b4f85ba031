import { expect, test } from "vitest";
import { inDueOrder } from "./due-order";
import type { Task } from "./queries";

const task = (title: string, due_date: string | null) => ({ title, due_date }) as Task;

test("overdue tasks come first, those without a date last, equals keep their order", () => {
  const tasks = [
    task("none", null),
    task("late B", "2020-05-01"),
    task("next", "2999-01-01"),
    task("late A", "2019-01-01"),
  ];
  const sorted = inDueOrder([...tasks, task("none, too", null), task("late C", "2020-05-01")]);
  expect(sorted.map(({ title }) => title)).toEqual(["late A", "late B", "late C", "next", "none", "none, too"]);
});
