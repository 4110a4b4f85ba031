export interface Done {
  completed: number;
  total: number;
}

/** How many of these tasks are completed. */
export function countDone(tasks: readonly { is_completed: boolean }[]): Done {
  return { completed: tasks.filter((task) => task.is_completed).length, total: tasks.length };
}

/** The rounded share of completed tasks; none of none is 0. */
export function percentOf({ completed, total }: Done) {
  return total === 0 ? 0 : Math.round((completed / total) * 100);
}
