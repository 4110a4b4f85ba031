import type { Plan } from "./queries";

/** Fewer plans than this are found by looking at them. */
export const plansForFinder = 8;

export const orders = {
  newest: "Newest first",
  title: "Title",
  end: "End date",
  progress: "Least progress",
} as const;
export type PlanOrder = keyof typeof orders;

interface Arrangement {
  /** Part of a title. */
  wanted: string;
  order: PlanOrder;
  archived: boolean;
  percentOf: (planId: string) => number;
}

/** The plans to show, in this order. `plans` come newest first. */
export function arrange(plans: Plan[], { wanted, order, archived, percentOf }: Arrangement): Plan[] {
  const text = wanted.trim().toLocaleLowerCase();
  const shown = plans.filter(
    (plan) => (plan.archived_at !== null) === archived && plan.title.toLocaleLowerCase().includes(text),
  );
  const end = (plan: Plan) => plan.estimated_end_date ?? "9999-99-99";
  switch (order) {
    case "newest":
      return shown;
    case "title":
      return shown.sort((one, other) => one.title.localeCompare(other.title));
    case "end":
      return shown.sort((one, other) => end(one).localeCompare(end(other)));
    case "progress":
      return shown.sort((one, other) => percentOf(one.id) - percentOf(other.id));
  }
}
