import { queryOptions } from "@tanstack/react-query";
import { basalt, type Row } from "@/lib/basalt";
import { countDone, type Done, percentOf } from "@/lib/progress";
import { countOf, fetchAllRows } from "@/lib/rows";

type CountedTask = Pick<
  Row<"tasks">,
  "id" | "plan_id" | "priority_id" | "is_completed" | "completed_at" | "due_date" | "responsible_ids"
>;

// Of all plans at once: three small lists instead of three requests for each card. Their keys begin as those of the
// lists they count, so whatever changes a list refreshes its counts.

export const taskCountsQuery = () =>
  queryOptions({
    queryKey: ["tasks", "counts"],
    queryFn: ({ signal }) =>
      fetchAllRows<CountedTask>((from, to) =>
        basalt
          .from("tasks")
          .select("id, plan_id, priority_id, is_completed, completed_at, due_date, responsible_ids", countOf(from))
          .order("id")
          .range(from, to)
          .abortSignal(signal)
          .throwOnError(),
      ),
  });

export const priorityCountsQuery = () =>
  queryOptions({
    queryKey: ["priorities", "counts"],
    queryFn: ({ signal }) =>
      fetchAllRows<Pick<Row<"priorities">, "id" | "plan_id">>((from, to) =>
        basalt
          .from("priorities")
          .select("id, plan_id", countOf(from))
          .order("created_at")
          .order("id")
          .range(from, to)
          .abortSignal(signal)
          .throwOnError(),
      ),
  });

export const fileCountsQuery = () =>
  queryOptions({
    queryKey: ["plan_attachments", "counts"],
    queryFn: ({ signal }) =>
      fetchAllRows<Pick<Row<"plan_attachments">, "id" | "plan_id">>((from, to) =>
        basalt
          .from("plan_attachments")
          .select("id, plan_id", countOf(from))
          .order("id")
          .range(from, to)
          .abortSignal(signal)
          .throwOnError(),
      ),
  });

export interface PlanMetrics {
  /** How far each priority is, the oldest first. */
  columns: { key: string; percent: number }[];
  done: Done;
  percent: number;
  files: number;
}

export const noMetrics: PlanMetrics = { columns: [], done: { completed: 0, total: 0 }, percent: 0, files: 0 };

/** What the cards show, by plan id. */
export function metricsByPlan(
  tasks: CountedTask[],
  priorities: { id: string; plan_id: string }[],
  files: { plan_id: string }[],
): Map<string, PlanMetrics> {
  const tasksByPriority = Map.groupBy(tasks, (task) => task.priority_id);
  const tasksByPlan = Map.groupBy(tasks, (task) => task.plan_id);
  const prioritiesByPlan = Map.groupBy(priorities, (priority) => priority.plan_id);
  const filesByPlan = Map.groupBy(files, (file) => file.plan_id);
  const planIds = new Set([...tasksByPlan.keys(), ...prioritiesByPlan.keys(), ...filesByPlan.keys()]);
  return new Map(
    [...planIds].map((planId) => {
      const done = countDone(tasksByPlan.get(planId) ?? []);
      const columns = (prioritiesByPlan.get(planId) ?? []).map(({ id }) => ({
        key: id,
        percent: percentOf(countDone(tasksByPriority.get(id) ?? [])),
      }));
      return [planId, { columns, done, percent: percentOf(done), files: filesByPlan.get(planId)?.length ?? 0 }];
    }),
  );
}

export interface Summary {
  done: Done;
  overdue: number;
  dueThisWeek: number;
  /** Open tasks that the person is responsible for. */
  mine: number;
  /** Tasks completed in each of the last twelve weeks, the present one last. */
  weeks: number[];
}

const dayMs = 24 * 60 * 60 * 1000;

/** How all plans are going. `today` and due dates are days of the wall calendar, `YYYY-MM-DD`. */
export function summarise(tasks: CountedTask[], userId: string, today: string, now: number): Summary {
  const inAWeek = new Date(Date.parse(`${today}T00:00:00Z`) + 7 * dayMs).toISOString().slice(0, 10);
  const open = tasks.filter((task) => !task.is_completed && task.due_date !== null);
  const weeks = Array.from({ length: 12 }, () => 0);
  for (const { completed_at } of tasks) {
    if (completed_at === null) continue;
    const index = 11 - Math.floor((now - Date.parse(completed_at)) / (7 * dayMs));
    if (index in weeks) weeks[index] = (weeks[index] ?? 0) + 1;
  }
  return {
    done: countDone(tasks),
    overdue: open.filter(({ due_date }) => (due_date ?? "") < today).length,
    dueThisWeek: open.filter(({ due_date }) => (due_date ?? "") >= today && (due_date ?? "") <= inAWeek).length,
    mine: tasks.filter(({ is_completed, responsible_ids }) => !is_completed && responsible_ids.includes(userId)).length,
    weeks,
  };
}
