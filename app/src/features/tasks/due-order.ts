import type { Task } from "./queries";

/** Overdue tasks and then what is due next come first, tasks without a date last, those of one day in their own order. */
export function inDueOrder(tasks: Task[]): Task[] {
  // A day as text sorts as the calendar does, and no text sorts behind "9999".
  const dayOf = ({ due_date }: Task) => due_date ?? "9999-99-99";
  return tasks.toSorted((one, other) => dayOf(one).localeCompare(dayOf(other)));
}
