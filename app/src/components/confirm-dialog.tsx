import { AlertDialog as Primitive } from "radix-ui";
import { useState } from "react";
import { Button } from "@/components/ui/button";
import { DialogFooter, dialogOverlay, dialogPanel } from "@/components/ui/dialog";
import { Spinner } from "@/components/ui/spinner";
import { useFocusReturn } from "@/hooks/use-focus-return";
import { cn } from "@/lib/cn";

interface ConfirmDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  description: string;
  confirmLabel: string;
  busyLabel: string;
  /** Stays open when this rejects, so that the person can try again. The caller reports the error. */
  onConfirm: () => Promise<unknown>;
}

/** Asks before something that cannot be undone. Cancel has the focus. */
export function ConfirmDialog({
  open,
  onOpenChange,
  title,
  description,
  confirmLabel,
  busyLabel,
  onConfirm,
}: ConfirmDialogProps) {
  const [busy, setBusy] = useState(false);
  const focusReturn = useFocusReturn();

  async function confirm() {
    setBusy(true);
    try {
      await onConfirm();
      onOpenChange(false);
    } catch {
      // Reported by the caller.
    } finally {
      setBusy(false);
    }
  }

  return (
    <Primitive.Root open={open} onOpenChange={(next) => busy || onOpenChange(next)}>
      <Primitive.Portal>
        <Primitive.Overlay className={dialogOverlay} />
        <Primitive.Content data-slot="confirm-dialog" className={cn(dialogPanel, "sm:max-w-md")} {...focusReturn}>
          <div className="grid gap-2">
            <Primitive.Title className="text-heading">{title}</Primitive.Title>
            <Primitive.Description className="text-muted-foreground text-sm">{description}</Primitive.Description>
          </div>
          <DialogFooter>
            <Primitive.Cancel asChild>
              <Button variant="secondary" disabled={busy}>
                Cancel
              </Button>
            </Primitive.Cancel>
            <Button variant="destructive" aria-busy={busy} disabled={busy} onClick={() => void confirm()}>
              {busy && <Spinner />}
              {busy ? busyLabel : confirmLabel}
            </Button>
          </DialogFooter>
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  );
}
