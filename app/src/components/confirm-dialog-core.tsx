import { AlertDialog as Primitive } from "radix-ui";
import { type ReactNode, useState } from "react";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { DialogBody, DialogFooter, dialogHeader, dialogOverlay, dialogPanel } from "@/components/ui/dialog-panel";
import { useFocusReturn } from "@/hooks/use-focus-return";
import { cn } from "@/lib/cn";

export interface ConfirmDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  /** What will happen. Names in it may be of any length. */
  description: ReactNode;
  cancelLabel?: string;
  confirmLabel: string;
  busyLabel: string;
  /** Red is for what destroys. */
  tone?: "destructive" | "primary";
  /** Stays open when this rejects, so that the person can try again. The caller reports the error. */
  onConfirm: () => Promise<unknown>;
  /** Between the description and the buttons, a warning say. */
  children?: ReactNode;
}

/** Cancel has the focus; both buttons are in view, whatever the text. */
export function ConfirmDialogCore({
  open,
  onOpenChange,
  title,
  description,
  cancelLabel = "Cancel",
  confirmLabel,
  busyLabel,
  tone = "destructive",
  onConfirm,
  children,
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
          <div className={cn(dialogHeader, "pb-1.5")}>
            <Primitive.Title className="text-heading [overflow-wrap:anywhere]">{title}</Primitive.Title>
          </div>
          <DialogBody className="grid content-start gap-4">
            <Primitive.Description className="text-muted-foreground text-sm [overflow-wrap:anywhere]">
              {description}
            </Primitive.Description>
            {children}
          </DialogBody>
          <DialogFooter>
            <Primitive.Cancel asChild>
              <Button variant="secondary" disabled={busy}>
                {cancelLabel}
              </Button>
            </Primitive.Cancel>
            <SubmitButton
              type="button"
              variant={tone}
              busy={busy}
              busyLabel={busyLabel}
              disabled={busy}
              onClick={() => void confirm()}
            >
              {confirmLabel}
            </SubmitButton>
          </DialogFooter>
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  );
}
