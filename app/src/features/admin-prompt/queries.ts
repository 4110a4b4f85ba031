import { queryOptions } from "@tanstack/react-query";
import { useChange } from "@/hooks/use-change";
import { basalt, type Row } from "@/lib/basalt";
import { requireRow, staleIfTaken } from "@/lib/stale-row";
import { linesOf, type PromptFormValues } from "./schema";

export type PromptRow = Row<"subscription_prompt">;

// The prompt itself reads the same row under a key that begins alike.
const promptKey = ["subscription-prompt"] as const;

/** The one row; null while there is none. */
export const adminPromptQuery = () =>
  queryOptions({
    queryKey: [...promptKey, "admin"] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("subscription_prompt")
        .select("*")
        .limit(1)
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      return data;
    },
    meta: { errorTitle: "Failed to load subscription prompt content." },
  });

export function useSavePrompt() {
  return useChange({
    done: "Subscription prompt saved",
    failed: "Failed to save subscription prompt content.",
    refetches: [promptKey],
    change: async ({ base, values }: { base: PromptRow | null; values: PromptFormValues }) => {
      const row = {
        title: values.title,
        subtitle: values.subtitle || null,
        image_url: values.imageUrl || null,
        features: linesOf(values.features),
        primary_button_text: values.primaryButtonText,
        secondary_button_text: values.secondaryButtonText,
        delay_seconds: values.delaySeconds,
      };
      if (!base) {
        await basalt.from("subscription_prompt").insert(row).throwOnError().then(undefined, staleIfTaken);
        return;
      }
      const { data } = await basalt
        .from("subscription_prompt")
        .update(row)
        .eq("id", base.id)
        .eq("updated_at", base.updated_at)
        .select("id")
        .maybeSingle()
        .throwOnError();
      requireRow(data);
    },
  });
}
