import type { User } from "@supabase/supabase-js";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { FormField } from "@/components/form-field";
import { Loaded } from "@/components/loaded";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";
import { Dialog, DialogClose, DialogContent } from "@/components/ui/dialog";
import { DialogBody, DialogFooter } from "@/components/ui/dialog-panel";
import { Input } from "@/components/ui/input";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { avatarOf } from "../person";
import { fateOfMyPlans, removeFilesOf } from "./my-data";
import { pathOf } from "./profile-form";

interface DeleteDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  user: User;
  onDeleted: () => void;
}

/** Says what becomes of each plan before the account goes. */
export function DeleteDialog({ open, onOpenChange, user, onDeleted }: DeleteDialogProps) {
  const [busy, setBusy] = useState(false);
  return (
    <Dialog open={open} onOpenChange={(next) => busy || onOpenChange(next)}>
      <DialogContent title="Delete Account" description="Your account and its data are deleted for good.">
        <Confirmation user={user} busy={busy} onBusy={setBusy} onDeleted={onDeleted} />
      </DialogContent>
    </Dialog>
  );
}

interface ConfirmationProps extends Pick<DeleteDialogProps, "user" | "onDeleted"> {
  busy: boolean;
  onBusy: (busy: boolean) => void;
}

function Confirmation({ user, busy, onBusy, onDeleted }: ConfirmationProps) {
  const fate = useQuery({ queryKey: ["account", "fate"], queryFn: () => fateOfMyPlans(user.id), staleTime: 0 });
  const [typed, setTyped] = useState("");
  const [failure, setFailure] = useState<string | null>(null);
  const word = user.email ?? "DELETE";
  const confirmed = typed.trim().toLowerCase() === word.toLowerCase();

  async function remove({ deleted }: { deleted: { id: string }[] }) {
    onBusy(true);
    setFailure(null);
    try {
      await basalt.rpc("delete_my_account", { only_check: true }).throwOnError();
      // First the files: nobody may delete them once the account is gone.
      await removeFilesOf(deleted.map(({ id }) => id));
      const picture = pathOf(avatarOf(user));
      if (picture) await basalt.storage.from("avatars").remove([picture]);
      await basalt.rpc("delete_my_account").throwOnError();
      onDeleted();
    } catch (error) {
      setFailure(messageOf(error));
    } finally {
      onBusy(false);
    }
  }

  return (
    <form
      className="flex min-h-0 flex-col"
      aria-label="Delete account"
      onSubmit={(event) => {
        event.preventDefault();
        if (confirmed && fate.data) void remove(fate.data);
      }}
    >
      <DialogBody className="grid content-start gap-5">
        <Loaded query={fate} loading="Looking up your plans..." failed="Your plans could not be looked up">
          {({ deleted, kept }) => (
            <div className="grid gap-4 text-sm">
              {deleted.length > 0 && (
                <Alert tone="warning" title={`${plans(deleted.length)} will be deleted: you are the only owner`}>
                  <Titles plans={deleted} />
                  <p>To keep a plan, make a member its owner first.</p>
                </Alert>
              )}
              {kept.length > 0 && (
                <Alert title={`${plans(kept.length)} will stay with the other owners`}>
                  <Titles plans={kept} />
                </Alert>
              )}
              <p className="text-muted-foreground">
                You leave all other plans. A subscription ends at once and is not charged again.
              </p>
            </div>
          )}
        </Loaded>
        <FormField label={`Type ${word} to confirm`} required>
          <Input
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
        </FormField>
        {failure && (
          <Alert role="alert" tone="destructive" title="Your account could not be deleted">
            <p>{failure}</p>
          </Alert>
        )}
      </DialogBody>
      <DialogFooter>
        <DialogClose asChild>
          <Button variant="secondary" disabled={busy}>
            Cancel
          </Button>
        </DialogClose>
        <SubmitButton
          variant="destructive"
          busy={busy}
          busyLabel="Deleting..."
          disabled={!confirmed || busy || !fate.data}
        >
          Delete my account
        </SubmitButton>
      </DialogFooter>
    </form>
  );
}

const plans = (count: number) => (count === 1 ? "1 plan" : `${count} plans`);

function Titles({ plans }: { plans: { id: string; title: string }[] }) {
  return (
    <ul className="list-disc ps-4">
      {plans.map(({ id, title }) => (
        <li key={id} dir="auto">
          {title}
        </li>
      ))}
    </ul>
  );
}
