import { infiniteQueryOptions } from "@tanstack/react-query";
import { basalt } from "@/lib/basalt";
import { today } from "@/lib/dates";

export const shows = ["mine", "overdue", "week"] as const;
export type Show = (typeof shows)[number];

const pageSize = 100;
const dayMs = 24 * 60 * 60 * 1000;

/** Open tasks of all plans, the earliest due first. */
export const openTasksQuery = (show: Show, userId: string) =>
  infiniteQueryOptions({
    queryKey: ["tasks", "open", show, userId] as const,
    queryFn: async ({ signal, pageParam }) => {
      const day = today();
      const inAWeek = new Date(Date.parse(`${day}T00:00:00Z`) + 7 * dayMs).toISOString().slice(0, 10);
      const open = basalt
        .from("tasks")
        .select("id, title, due_date, plan_id, responsible_party, plans(title)")
        .eq("is_completed", false);
      const shown = {
        mine: () => open.contains("responsible_ids", [userId]),
        overdue: () => open.lt("due_date", day),
        week: () => open.gte("due_date", day).lte("due_date", inAWeek),
      }[show]();
      const { data } = await shown
        .order("due_date", { nullsFirst: false })
        .order("id")
        .range(pageParam, pageParam + pageSize - 1)
        .abortSignal(signal)
        .throwOnError();
      return data;
    },
    initialPageParam: 0,
    getNextPageParam: (last, _pages, offset) => (last.length === pageSize ? offset + pageSize : null),
    // A task that was completed between two pages moves the others.
    select: ({ pages }) => [...new Map(pages.flat().map((task) => [task.id, task])).values()],
    meta: { errorTitle: "Error fetching tasks" },
  });
