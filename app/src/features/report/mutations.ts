import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { codeOf } from "@/lib/errors";
import { toast } from "@/lib/toast";
import { type ReportSettings, reportKeys } from "./queries";
import { columnsOf, type ReportSettingsValues, valuesOf } from "./schema";

const uniqueViolation = "23505";

interface Change {
  /** What the person has seen; null when nothing was saved. */
  base: ReportSettings | null;
  values: ReportSettingsValues;
}

/** `false` when another person saved it since `base`; nothing was written then. */
export function useSaveReport(planId: string) {
  return useChange({
    done: (saved) => void (saved && toast.success("Report saved")),
    failed: "Error saving the report",
    refetches: [reportKeys.settings(planId)],
    change: async ({ base, values }: Change) => {
      const columns = columnsOf(values);
      const { data, error } = base
        ? await basalt
            .from("plan_reports")
            .update(columns)
            .eq("plan_id", planId)
            .eq("updated_at", base.updated_at)
            .select("plan_id")
            .maybeSingle()
        : await basalt
            .from("plan_reports")
            .insert({ ...columns, plan_id: planId })
            .select("plan_id")
            .maybeSingle();
      if (error && codeOf(error) !== uniqueViolation) throw error;
      return data !== null && !error;
    },
  });
}

/** For how long a link works; null until it is revoked. */
export type ValidDays = 30 | 365 | null;

/** A link shows the saved report: one that was never saved is saved as it is offered, for this quarter. */
export function useCreateReportLink(planId: string) {
  return useChange({
    failed: "Error creating the link",
    refetches: [reportKeys.settings(planId), reportKeys.links(planId)],
    change: async ({ isSaved, validDays }: { isSaved: boolean; validDays: ValidDays }) => {
      if (!isSaved) {
        const { error } = await basalt.from("plan_reports").insert({ ...columnsOf(valuesOf(null)), plan_id: planId });
        if (error && codeOf(error) !== uniqueViolation) throw error;
      }
      await basalt.from("plan_report_links").insert({ plan_id: planId, valid_days: validDays }).throwOnError();
    },
    done: "Link created",
  });
}

export function useRevokeReportLink(planId: string) {
  return useChange({
    failed: "Error revoking the link",
    refetches: [reportKeys.links(planId)],
    change: async (id: string) => {
      await basalt.from("plan_report_links").delete().eq("id", id).throwOnError();
    },
    done: "Link revoked",
  });
}
