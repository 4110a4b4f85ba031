import { zodResolver } from "@hookform/resolvers/zod";
import { useForm } from "react-hook-form";
import * as z from "zod/mini";
import { FormField } from "@/components/form-field";
import { Dialog, DialogContent, DialogForm } from "@/components/ui/dialog";
import { Input } from "@/components/ui/input";
import { Select } from "@/components/ui/select";
import { type PlanRole, planRoles } from "@/lib/plan-role";
import { addressesIn } from "./addresses";
import { useInviteMembers } from "./mutations";
import { roleRights } from "./role-rights";

/** As many as the server mails for one person in an hour. */
const mostAddresses = 20;

const address = z.email().check(z.maxLength(320));
const isAddress = (text: string) => address.safeParse(text).success;

export const inviteSchema = z.object({
  email: z.string().check((context) => {
    const emails = addressesIn(context.value);
    const wrong = emails.filter((email) => !isAddress(email));
    const report = (message: string) =>
      context.issues.push({ code: "custom", input: context.value, path: [], message });
    if (emails.length === 0 || (wrong.length > 0 && emails.length === 1)) report("Please enter a valid email address");
    else if (wrong.length > 0) report(`Please enter a valid email address: ${wrong.join(", ")}`);
    else if (emails.length > mostAddresses) report(`At most ${mostAddresses} addresses at once`);
  }),
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
  const invite = useInviteMembers(context);
  const { formState, handleSubmit, register, reset, setError, setValue, getValues } = useForm({
    resolver: zodResolver(inviteSchema),
    defaultValues: { email: "", role: "viewer" as PlanRole },
  });
  const { errors, isDirty, isSubmitting } = formState;
  const submit = handleSubmit(async ({ email, role }) => {
    const emails = addressesIn(email);
    const known = await invite.mutateAsync({ emails, role }).catch(() => null);
    if (known === null) return;
    if (known.length === 0) {
      reset();
      return onOpenChange(false);
    }
    // Those who were invited need no more; the others stay in the field.
    setValue("email", known.join(", "));
    setError("email", {
      type: "server",
      message: emails.length === 1 ? "Member already exists" : `Member already exists: ${known.join(", ")}`,
    });
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
          dirty={isDirty}
          submitLabel="Send Invitation"
          busyLabel="Sending..."
        >
          <FormField
            label="Email"
            error={errors.email?.message}
            hint={`Several addresses at once: separate them by commas, at most ${mostAddresses}.`}
            required
          >
            <Input
              inputMode="email"
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              placeholder="colleague@organization.org"
              {...register("email")}
              // A list from a table or a mail: an input drops line breaks, and two addresses would become one.
              onPaste={(event) => {
                const text = event.clipboardData.getData("text");
                if (!/[\r\n]/.test(text.trim())) return;
                event.preventDefault();
                const all = addressesIn(`${getValues("email")} ${text}`);
                setValue("email", all.join(", "), { shouldDirty: true, shouldValidate: true });
              }}
            />
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
