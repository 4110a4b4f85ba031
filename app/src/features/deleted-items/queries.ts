import { queryOptions } from "@tanstack/react-query";
import { deletedItemsKey } from "@/hooks/use-restore-item";
import { basalt } from "@/lib/basalt";

export interface DeletedItem {
  id: string;
  kind: "priority" | "task";
  title: string;
  tasks: number;
  comments: number;
  /** Of a task. */
  priority_id: string | null;
  /** A task whose priority is gone has to wait for it. */
  is_restorable: boolean;
  deleted_at: string;
  deleted_for_good_at: string;
  /** Null once the account is deleted. */
  deleted_by: string | null;
}

/** What was deleted from a plan and can be restored, the newest first. */
export const deletedItemsQuery = (planId: string) =>
  queryOptions({
    queryKey: deletedItemsKey(planId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt.rpc("get_deleted_plan_items", { plan: planId }).abortSignal(signal).throwOnError();
      // The generator takes every column of a function for filled, and a checked text for any.
      return data as DeletedItem[];
    },
    staleTime: 0,
  });
