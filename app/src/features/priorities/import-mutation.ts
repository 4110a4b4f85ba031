import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { textToHtml } from "@/lib/html-text";
import { toast } from "@/lib/toast";
import type { ImportedPriority } from "./import-csv";
import { priorityKeys } from "./queries";

/** All rows in one request, which is one transaction: all of them or none. They come first, in the file's order. */
export function useImportPriorities(planId: string) {
  return useChange({
    failed: "Failed to import priorities",
    refetches: [priorityKeys.list(planId)],
    change: async (priorities: ImportedPriority[]) => {
      await basalt
        .from("priorities")
        .insert(
          priorities.map(({ title, description }) => ({
            plan_id: planId,
            title,
            description: textToHtml(description),
          })),
        )
        .throwOnError();
      const count = priorities.length;
      toast.success("Priorities imported", {
        description: count === 1 ? "1 priority was added to the plan." : `${count} priorities were added to the plan.`,
      });
      return true;
    },
  });
}
