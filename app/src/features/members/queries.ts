import { queryOptions } from "@tanstack/react-query";
import { basalt, type Row } from "@/lib/basalt";
import { type PlanRole, planRoles, toPlanRole } from "@/lib/plan-role";

export type Member = Omit<Row<"plan_members">, "role"> & { role: PlanRole };

export const memberKeys = {
  all: ["members"] as const,
  list: (planId: string) => [...memberKeys.all, "list", planId] as const,
  mails: (planId: string) => [...memberKeys.all, "mails", planId] as const,
};

/** Members and open invitations as far as this person may see them: owners first, then managers, then viewers. */
export const memberListQuery = (planId: string) =>
  queryOptions({
    queryKey: memberKeys.list(planId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("plan_members")
        .select("*")
        .eq("plan_id", planId)
        .order("created_at")
        .abortSignal(signal)
        .throwOnError();
      const members: Member[] = data.map((member) => ({ ...member, role: toPlanRole(member.role) }));
      return members.sort((one, other) => planRoles.indexOf(one.role) - planRoles.indexOf(other.role));
    },
    meta: { errorTitle: "Error fetching members" },
  });

const mailStates = ["sending", "waiting", "sent", "failed"] as const;
export type MailState = (typeof mailStates)[number];

const underway: (MailState | undefined)[] = ["sending", "waiting"];

/** How the mails of a plan's open invitations fared, by member; for those who may invite. */
export const invitationMailQuery = (planId: string) =>
  queryOptions({
    queryKey: memberKeys.mails(planId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt.rpc("get_invitation_mails", { plan: planId }).abortSignal(signal).throwOnError();
      return new Map(data.map(({ member_id: id, state }) => [id, mailStates.find((known) => known === state)]));
    },
    // The outbox sends no change messages, so a mail on its way is polled.
    refetchInterval: ({ state }) =>
      [...(state.data?.values() ?? [])].some((mail) => underway.includes(mail)) ? 10_000 : false,
  });
