import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import { messageOf } from "@/lib/errors";
import { reordered } from "@/lib/order";
import { moveRow } from "@/lib/plan-rows";
import { fetchConfirmed, showAtOnce } from "@/lib/shown-at-once";
import { toast } from "@/lib/toast";

interface Moving {
  table: "priorities" | "tasks";
  thing: "priority" | "task";
  listKey: QueryKey;
}

interface Move {
  id: string;
  /** What it is put before; null to put it last. */
  beforeId: string | null;
}

/** Moves a row within its list: at once on the screen, undone there when the server refuses. */
export function useMove({ table, thing, listKey }: Moving) {
  const queryClient = useQueryClient();
  const mutationKey = [...listKey, "move"];
  const { mutate } = useMutation({
    mutationKey,
    // One after the other, in the order in which they were made.
    scope: { id: mutationKey.join() },
    mutationFn: ({ id, beforeId }: Move) => moveRow(table, id, beforeId, thing),
    onMutate: ({ id, beforeId }) =>
      showAtOnce<{ id: string }>(queryClient, listKey, (items) => reordered(items, id, beforeId)),
    onError: (error) => void toast.error(`Error updating ${thing}`, { description: messageOf(error) }),
    onSettled: () => fetchConfirmed(queryClient, listKey),
  });
  return mutate;
}
