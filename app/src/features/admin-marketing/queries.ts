import { queryOptions } from "@tanstack/react-query";
import { useChange } from "@/hooks/use-change";
import { basalt, type Row } from "@/lib/basalt";
import { requireRow } from "@/lib/stale-row";
import type { ContentValues, Section } from "./schema";

export type ContentRow = Row<"marketing_content">;

// The public pages read the same table under a key that begins alike.
const marketingKey = ["marketing"] as const;

/** One section's words; null where the app's own stand. */
export const sectionQuery = (section: Section) =>
  queryOptions({
    queryKey: [...marketingKey, "admin", section] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("marketing_content")
        .select("*")
        .eq("section", section)
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      return data;
    },
    meta: { errorTitle: "Failed to load marketing content." },
  });

export function useSaveSection(section: Section) {
  return useChange({
    done: "Marketing content updated",
    failed: "Failed to update marketing content.",
    refetches: [marketingKey],
    change: async ({ base, values }: { base: ContentRow | null; values: ContentValues }) => {
      const row = {
        title: values.title || null,
        subtitle: values.subtitle || null,
        description: values.description || null,
        primarybuttontext: values.primarybuttontext || null,
        secondarybuttontext: values.secondarybuttontext || null,
        imageurl: values.imageurl || null,
        htmlcontent: values.htmlcontent.trim() === "" ? null : values.htmlcontent,
        visible: values.visible,
        hide_for_subscribed: values.hide_for_subscribed,
      };
      // `reject_older_version` refuses to replace a newer version than this one. Where there was none, there must be none now.
      const version = base ? { updated_at: base.updated_at } : {};
      const { data } = await basalt
        .from("marketing_content")
        .upsert({ ...row, section, ...version }, { onConflict: "section", ignoreDuplicates: !base })
        .select("id")
        .maybeSingle()
        .throwOnError();
      requireRow(data);
    },
  });
}
