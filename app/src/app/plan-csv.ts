import type { Plan } from "@/features/plans/queries";
import type { Priority } from "@/features/priorities/queries";
import type { Task } from "@/features/tasks/queries";
import { saveFile, toCsv } from "@/lib/csv";
import { htmlToText } from "@/lib/html-text";

const headers = [
  "Priority",
  "Priority Description",
  "Focus Area",
  "Tactical Steps",
  "Measure of Success",
  "Due Date",
  "Responsible Party",
  "Status",
];

/** Gives the person the plan as a table: a row for each task, and one for each priority that has none. */
export function exportPlan(plan: Plan, priorities: Priority[], tasksOf: (priorityId: string) => Task[]) {
  const rows = priorities.flatMap((priority) => {
    const head = [priority.title, htmlToText(priority.description)];
    const tasks = tasksOf(priority.id);
    if (tasks.length === 0) return [[...head, "", "", "", "", "", ""]];
    return tasks.map((task) => [
      ...head,
      task.title,
      htmlToText(task.description),
      task.measure_success ?? "",
      task.due_date ?? "",
      task.responsible_party.join(", "),
      task.is_completed ? "Completed" : "To Do",
    ]);
  });
  const name = plan.title
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 80);
  saveFile(`${name || "plan"}.csv`, toCsv([headers, ...rows]));
}
