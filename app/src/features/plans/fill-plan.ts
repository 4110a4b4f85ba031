import { basalt } from "@/lib/basalt";
import { today } from "@/lib/dates";
import { prioritiesOf, type TemplateId } from "./templates";

const dayMs = 24 * 60 * 60 * 1000;

/** The day of the calendar that is so many days away. */
export function dayFromToday(days: number) {
  return new Date(Date.parse(`${today()}T00:00:00Z`) + days * dayMs).toISOString().slice(0, 10);
}

/** Adds a template's priorities and tasks to a new plan, in two requests. */
export async function fillPlan(planId: string, template: TemplateId) {
  const priorities = prioritiesOf(template);
  const added = await basalt
    .from("priorities")
    .insert(priorities.map(({ title, description }) => ({ title, description, plan_id: planId })))
    .select("id, title")
    .throwOnError();
  const ids = new Map(added.data.map(({ id, title }) => [title, id]));
  const tasks = priorities.flatMap(({ title, tasks }) => {
    const priorityId = ids.get(title);
    return priorityId ? tasks.map((task) => ({ priorityId, task })) : [];
  });
  await basalt
    .from("tasks")
    .insert(
      tasks.map(({ priorityId, task }) => ({
        priority_id: priorityId,
        title: task.title,
        description: task.description ?? null,
        measure_success: task.measure ?? null,
        due_date: task.due === undefined ? null : dayFromToday(task.due),
        responsible_party: task.by ?? [],
        is_completed: task.done ?? false,
      })),
    )
    .throwOnError();
}
