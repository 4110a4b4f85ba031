import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import { messageOf } from "@/lib/errors";
import { reordered } from "@/lib/order";
import { moveRow } from "@/lib/plan-rows";
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
    onMutate: async ({ id, beforeId }) => {
      // An answer that is under way does not know of this yet.
      await queryClient.cancelQueries({ queryKey: listKey });
      queryClient.setQueryData<{ id: string }[]>(listKey, (items) => items && reordered(items, id, beforeId));
    },
    onError: (error) => void toast.error(`Error updating ${thing}`, { description: messageOf(error) }),
    onSettled: () => {
      // While another is waiting, an answer would show its row where it was.
      if (queryClient.isMutating({ mutationKey }) > 1) return;
      return queryClient.invalidateQueries({ queryKey: listKey });
    },
  });
  return mutate;
}
