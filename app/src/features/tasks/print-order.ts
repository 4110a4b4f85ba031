import type { Task } from "./queries";
import { isOverdue } from "./task-row";

/** For paper: overdue tasks, the longest first, then open ones, then those that are done; else as they come. */
export function inPrintOrder(tasks: Task[]) {
  const rank = (task: Task) => (task.is_completed ? 2 : isOverdue(task) ? 0 : 1);
  return [...tasks].sort(
    (one, other) =>
      rank(one) - rank(other) || (rank(one) === 0 ? (one.due_date ?? "").localeCompare(other.due_date ?? "") : 0),
  );
}
