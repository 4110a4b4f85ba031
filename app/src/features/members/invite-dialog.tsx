import { zodResolver } from "@hookform/resolvers/zod";
import { useForm } from "react-hook-form";
import * as z from "zod/mini";
import { FormField } from "@/components/form-field";
import { Dialog, DialogContent, DialogForm } from "@/components/ui/dialog";
import { Input } from "@/components/ui/input";
import { Select } from "@/components/ui/select";
import { type PlanRole, planRoles } from "@/lib/plan-role";
import { useInviteMember } from "./mutations";
import { roleRights } from "./role-rights";

const inviteSchema = z.object({
  email: z.pipe(
    z.string().check(z.trim(), z.toLowerCase()),
    z.email("Please enter a valid email address").check(z.maxLength(320, "This address is too long")),
  ),
  role: z.enum(planRoles, "Please select a role"),
});

interface InviteDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  planId: string;
  planTitle: string;
  inviterEmail: string;
  /** The role of the person who invites: only an owner may invite another. */
  inviterRole: PlanRole;
}

export function InviteDialog({ open, onOpenChange, inviterRole, ...context }: InviteDialogProps) {
  const invite = useInviteMember(context);
  const { formState, handleSubmit, register, setError } = useForm({
    resolver: zodResolver(inviteSchema),
    defaultValues: { email: "", role: "viewer" as PlanRole },
  });
  const { errors, isDirty, isSubmitting, isSubmitSuccessful } = formState;
  const submit = handleSubmit(async (values) => {
    const link = await invite.mutateAsync(values).catch(() => undefined);
    if (link === null) setError("email", { type: "server", message: "Member already exists" });
    if (link) onOpenChange(false);
  });
  const offered = planRoles.filter((role) => role !== "owner" || inviterRole === "owner");

  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent
        title="Invite Member"
        description="They get an e-mail with a link, which is good for 14 days and for their address only."
      >
        <DialogForm
          onSubmit={(event) => void submit(event)}
          busy={isSubmitting}
          dirty={isDirty && !(isSubmitSuccessful && invite.data)}
          submitLabel="Send Invitation"
          busyLabel="Sending..."
        >
          <FormField label="Email" error={errors.email?.message} required>
            <Input type="email" autoComplete="off" placeholder="colleague@organization.org" {...register("email")} />
          </FormField>
          <FormField label="Role" error={errors.role?.message} required>
            <Select {...register("role")}>
              {offered.map((role) => (
                <option key={role} value={role}>
                  {roleRights[role].name}: {roleRights[role].rights}
                </option>
              ))}
            </Select>
          </FormField>
        </DialogForm>
      </DialogContent>
    </Dialog>
  );
}
