import { toast } from "sonner";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { codeOf } from "@/lib/errors";
import type { PlanRole } from "@/lib/plan-role";
import { deleteRow, updateRow } from "@/lib/plan-rows";
import { inviteUrl } from "./invitation";
import { memberKeys } from "./queries";
import { tellTeamChanged } from "./room";

const uniqueViolation = "23505";

interface InviteContext {
  planId: string;
  planTitle: string;
  inviterEmail: string;
}

/** `null` when the address is a member already, else the invitation's link. */
export function useInviteMember({ planId, planTitle, inviterEmail }: InviteContext) {
  return useChange({
    failed: "Error inviting member",
    refetches: [memberKeys.list(planId)],
    change: async ({ email, role }: { email: string; role: PlanRole }) => {
      const known = await basalt
        .from("plan_members")
        .select("id")
        .eq("plan_id", planId)
        .eq("email", email)
        .throwOnError();
      if (known.data.length > 0) return null;
      const { data, error } = await basalt
        .from("plan_members")
        // The server makes the token: `crypto.randomUUID` is missing where the page came over plain HTTP.
        .insert({ plan_id: planId, email, role, invite_accepted: false, user_id: null })
        .select("invite_token")
        .single();
      // Written in other letters, or an invitation that this person may not see.
      if (codeOf(error) === uniqueViolation) return null;
      if (error) throw error;
      tellTeamChanged(planId);
      const link = inviteUrl({ token: data.invite_token ?? "", planId });
      const body = { email, planId, role, inviterEmail, planTitle, inviteUrl: link };
      const mail = await basalt.functions.invoke("invite-member", { body });
      // The invitation stands, and its link can be copied from the list.
      if (mail.error) console.warn("The invitation could not be mailed.", mail.error);
      toast.success("Invitation sent", { description: `${email} has been invited to collaborate on this plan.` });
      return link;
    },
  });
}

export function useChangeRole(planId: string) {
  return useChange({
    failed: "Error updating role",
    refetches: [memberKeys.list(planId), ["plans"]],
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
    refetches: [memberKeys.list(planId), ["plans"]],
    change: async (id: string) => {
      await deleteRow("plan_members", id, "member");
      tellTeamChanged(planId);
    },
  });
}
