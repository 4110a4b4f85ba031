import type { QueryKey } from "@tanstack/react-query";
import { useChange } from "@/hooks/use-change";
import { updateSeen } from "@/lib/plan-rows";
import { toast } from "@/lib/toast";

interface Renaming {
  table: "plans" | "priorities" | "tasks";
  thing: "plan" | "priority" | "task";
  refetches: QueryKey[];
}

interface Rename {
  id: string;
  title: string;
  /** The title that the person has seen: another's is not written over. */
  seen: string;
}

/** Changes a title where it stands, and nothing else of its row. `false` when another person has changed it meanwhile. */
export function useRename({ table, thing, refetches }: Renaming) {
  const { mutateAsync } = useChange({
    failed: `Error updating ${thing}`,
    refetches,
    change: async ({ id, title, seen }: Rename) => {
      const saved = await updateSeen(table, { id, title: seen }, { title }, thing);
      if (saved) toast.success(`${thing.charAt(0).toUpperCase()}${thing.slice(1)} updated`);
      return saved;
    },
  });
  return mutateAsync;
}
