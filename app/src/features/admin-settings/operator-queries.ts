import { queryOptions } from "@tanstack/react-query";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { fieldsOf, textOf } from "@/lib/fields";
import { requireRow, staleIfTaken } from "@/lib/stale-row";
import type { Operator } from "./schema";

const key = "site_operator";
const settingsKey = ["app-settings"] as const;
// The terms and the privacy policy read the operator under this key.
const publicOperatorKey = ["site-operator"] as const;

export interface OperatorRow {
  updated_at: string;
  value: Operator;
}

/** Who runs the site; null while it is not set. */
export const operatorSettingQuery = () =>
  queryOptions({
    queryKey: [...settingsKey, key] as const,
    queryFn: async ({ signal }): Promise<OperatorRow | null> => {
      const { data } = await basalt
        .from("app_settings")
        .select("value, updated_at")
        .eq("key", key)
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      if (!data) return null;
      const fields = fieldsOf(data.value);
      const text = (name: keyof Operator) => textOf(fields, name) ?? "";
      return {
        updated_at: data.updated_at,
        value: { name: text("name"), address: text("address"), email: text("email") },
      };
    },
    meta: { errorTitle: "Failed to load settings." },
  });

export function useSaveOperator() {
  return useChange({
    done: "Operator saved",
    failed: "Failed to save operator.",
    refetches: [settingsKey, publicOperatorKey],
    change: async ({ base, values: value }: { base: OperatorRow | null; values: Operator }) => {
      if (!base) {
        await basalt.from("app_settings").insert({ key, value }).throwOnError().then(undefined, staleIfTaken);
        return;
      }
      const { data } = await basalt
        .from("app_settings")
        .update({ value })
        .eq("key", key)
        .eq("updated_at", base.updated_at)
        .select("key")
        .maybeSingle()
        .throwOnError();
      requireRow(data);
    },
  });
}
