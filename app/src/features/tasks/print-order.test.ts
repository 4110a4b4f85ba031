import { expect, test } from "vitest";
import { inPrintOrder } from "./print-order";
import type { Task } from "./queries";

const task = (id: string, due_date: string | null, is_completed = false) => ({ id, due_date, is_completed }) as Task;

test("overdue tasks come first, completed ones last", () => {
  const tasks = [
    task("done", "2020-01-01", true),
    task("open", null),
    task("late", "2020-02-01"),
    task("later", "2999-01-01"),
    task("latest", "2020-01-01"),
  ];
  expect(inPrintOrder(tasks).map(({ id }) => id)).toEqual(["latest", "late", "open", "later", "done"]);
});
