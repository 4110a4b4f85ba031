import { queryOptions } from "@tanstack/react-query";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { ownTimeZone } from "@/lib/dates";

/** The mails about a plan, as the database and their links name them. */
export const mailKinds = {
  digest: { column: "digest", name: "Monday digest" },
  reminder: { column: "reminders", name: "Reminders" },
  mention: { column: "mentions", name: "Mentions" },
} as const;
export type MailKind = keyof typeof mailKinds;
export type MailColumn = (typeof mailKinds)[MailKind]["column"];

export type PlanMails = Record<MailColumn, boolean> & { planId: string; title: string };

const key = ["mail-settings"] as const;

/** Which mails the person gets about each of their plans. */
export const planMailsQuery = (userId: string) =>
  queryOptions({
    queryKey: [...key, userId] as const,
    queryFn: async ({ signal }) => {
      const [plans, settings] = await Promise.all([
        basalt.from("plans").select("id, title").order("title").abortSignal(signal).throwOnError(),
        basalt.from("plan_mail_settings").select("*").eq("user_id", userId).abortSignal(signal).throwOnError(),
      ]);
      const byPlan = new Map(settings.data.map((row) => [row.plan_id, row]));
      return plans.data.map(({ id, title }): PlanMails => {
        const { digest = true, reminders = true, mentions = true } = byPlan.get(id) ?? {};
        return { planId: id, title, digest, reminders, mentions };
      });
    },
  });

export const timeZoneQuery = (userId: string) =>
  queryOptions({
    queryKey: [...key, userId, "time-zone"] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("person_settings")
        .select("time_zone")
        .eq("user_id", userId)
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      return data?.time_zone ?? null;
    },
  });

export function useSetPlanMails(userId: string) {
  return useChange({
    failed: "Error saving the mail settings",
    refetches: [key],
    change: async ({ planId, digest, reminders, mentions }: PlanMails) => {
      await basalt
        .from("plan_mail_settings")
        .upsert({ user_id: userId, plan_id: planId, digest, reminders, mentions })
        .throwOnError();
    },
  });
}

export function useSetTimeZone(userId: string) {
  return useChange({
    done: "Time zone saved",
    failed: "Error saving the time zone",
    refetches: [key],
    change: async (timeZone: string) => {
      await basalt.from("person_settings").upsert({ user_id: userId, time_zone: timeZone }).throwOnError();
    },
  });
}

/** Mails come in the morning of the person: notes where that is, unless they have chosen it. */
export async function noteTimeZone(userId: string) {
  await basalt
    .from("person_settings")
    .upsert({ user_id: userId, time_zone: ownTimeZone() }, { ignoreDuplicates: true });
}
