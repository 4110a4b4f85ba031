import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { codeOf } from "@/lib/errors";
import { invokeFunction } from "@/lib/functions";
import { peopleKey } from "@/lib/people";
import { planLimitsKey } from "@/lib/plan-limits";
import type { PlanRole } from "@/lib/plan-role";
import { deleteRow, updateRow } from "@/lib/plan-rows";
import { randomUuid } from "@/lib/random-uuid";
import { toast } from "@/lib/toast";
import { inviteUrl } from "./invitation";
import { memberKeys } from "./queries";
import { tellTeamChanged } from "./room";

const uniqueViolation = "23505";

interface InviteContext {
  planId: string;
  planTitle: string;
  inviterEmail: string;
}

/** Asks the server to mail the invitation. The server takes the texts from its own tables. */
async function mailInvitation({ planId, planTitle, inviterEmail }: InviteContext, member: Invitee) {
  const link = inviteUrl({ token: member.token ?? "", planId });
  const body = { email: member.email, planId, role: member.role, inviterEmail, planTitle, inviteUrl: link };
  await invokeFunction("invite-member", body, { failed: "The server gave no reason." });
}

interface Invitee {
  email: string;
  role: PlanRole;
  token: string | null;
}

/** Invites each address. Resolves to those that are members already. */
export function useInviteMembers(context: InviteContext) {
  const { planId } = context;
  return useChange({
    failed: "Error inviting member",
    refetches: [memberKeys.list(planId), memberKeys.mails(planId), planLimitsKey(planId)],
    change: async ({ emails, role }: { emails: string[]; role: PlanRole }) => {
      const known: string[] = [];
      const invited: string[] = [];
      try {
        for (const email of emails) {
          const token = await insertInvitation(planId, email, role);
          if (token === undefined) {
            known.push(email);
            continue;
          }
          invited.push(email);
          // The invitation stands, the list shows that its mail was not delivered, and its link can be copied.
          await mailInvitation(context, { email, role, token }).catch((error: unknown) =>
            console.warn("The invitation could not be mailed.", error),
          );
        }
      } finally {
        if (invited.length > 0) tellTeamChanged(planId);
      }
      if (invited.length > 0) {
        const who = invited.length === 1 ? `${invited[0]} has` : `${invited.length} people have`;
        toast.success("Invitation sent", { description: `${who} been invited to collaborate on this plan.` });
      }
      return known;
    },
  });
}

/** The new invitation's token; `undefined` when the address is a member already. */
async function insertInvitation(planId: string, email: string, role: PlanRole) {
  const known = await basalt.from("plan_members").select("id").eq("plan_id", planId).eq("email", email).throwOnError();
  if (known.data.length > 0) return undefined;
  const { data, error } = await basalt
    .from("plan_members")
    .insert({ plan_id: planId, email, role, invite_accepted: false, invite_token: randomUuid(), user_id: null })
    .select("invite_token")
    .single();
  // Written in other letters, or an invitation that this person may not see.
  if (codeOf(error) === uniqueViolation) return undefined;
  if (error) throw error;
  return data.invite_token;
}

/** Mails an open invitation another time. The server renews an expired one: new links, and another 14 days. */
export function useMailAgain(context: InviteContext) {
  return useChange({
    failed: "The invitation could not be mailed",
    refetches: [memberKeys.list(context.planId), memberKeys.mails(context.planId), planLimitsKey(context.planId)],
    change: async (member: Invitee) => {
      await mailInvitation(context, member);
      tellTeamChanged(context.planId);
      toast.success("Invitation sent", { description: `Another mail is on its way to ${member.email}.` });
    },
  });
}

export function useChangeRole(planId: string) {
  return useChange({
    failed: "Error updating role",
    refetches: [memberKeys.list(planId), peopleKey(planId), planLimitsKey(planId), ["plans"]],
    change: async ({ id, role }: { id: string; role: PlanRole }) => {
      await updateRow("plan_members", id, { role }, "member");
      tellTeamChanged(planId);
      toast.success(`Member role updated to ${role}`);
    },
  });
}

export function useRemoveMember(planId: string) {
  return useChange({
    done: "Member removed",
    failed: "Error removing member",
    refetches: [memberKeys.list(planId), peopleKey(planId), planLimitsKey(planId), ["plans"]],
    change: async (id: string) => {
      await deleteRow("plan_members", id, "member");
      tellTeamChanged(planId);
    },
  });
}
