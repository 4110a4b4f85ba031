import { XIcon } from "lucide-react";
import { Dialog as Primitive } from "radix-ui";
import {
  type ComponentProps,
  createContext,
  type FormEventHandler,
  type ReactNode,
  use,
  useLayoutEffect,
  useState,
} from "react";
import { GoneContext, GoneNote } from "@/components/gone-note";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { DialogBody, DialogFooter, dialogHeader, dialogOverlay, dialogPanel } from "@/components/ui/dialog-panel";
import { UnsavedGuard } from "@/components/unsaved-guard";
import { useFocusReturn } from "@/hooks/use-focus-return";
import { cn } from "@/lib/cn";

interface Guard {
  /** Asked before the dialog closes by Escape, a press outside, or one of its own buttons. */
  setDirty: (dirty: boolean) => void;
}

const GuardContext = createContext<Guard>({ setDirty: () => {} });

interface DialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  children: ReactNode;
}

/** Closes at once when nothing was typed, else after a question. The caller closes it, without one, after saving. */
export function Dialog({ open, onOpenChange, children }: DialogProps) {
  const [dirty, setDirty] = useState(false);
  const [asking, setAsking] = useState(false);
  const guarded = open && dirty;

  function change(next: boolean) {
    if (!next && guarded) setAsking(true);
    else onOpenChange(next);
  }

  return (
    <GuardContext value={{ setDirty }}>
      <Primitive.Root open={open} onOpenChange={change}>
        {children}
        <UnsavedGuard
          when={guarded}
          asking={guarded && asking}
          onKeep={() => setAsking(false)}
          onDiscard={() => {
            setAsking(false);
            onOpenChange(false);
          }}
        />
      </Primitive.Root>
    </GuardContext>
  );
}

/** For a dialog without a `DialogForm`: something is typed in it that closing would lose. */
export function useDialogGuard(dirty: boolean) {
  const { setDirty } = use(GuardContext);
  // Before the next key is heard: an Escape right after the first letter has to be asked about, too.
  useLayoutEffect(() => {
    setDirty(dirty);
    return () => setDirty(false);
  }, [setDirty, dirty]);
}

export const DialogTrigger = Primitive.Trigger;
export const DialogClose = Primitive.Close;

interface DialogContentProps extends Omit<ComponentProps<typeof Primitive.Content>, "title"> {
  title: ReactNode;
  description: ReactNode;
  /** `wide` for forms with an editor, `widest` for three columns of cards. */
  size?: "normal" | "wide" | "widest";
}

const sizes = { normal: "", wide: "sm:max-w-2xl", widest: "sm:max-w-5xl" };

/** The panel with its head. Put a `DialogForm` in it, or a `DialogBody` and perhaps a `DialogFooter`. */
export function DialogContent({
  title,
  description,
  size = "normal",
  className,
  children,
  ...props
}: DialogContentProps) {
  const focusReturn = useFocusReturn();
  return (
    <Primitive.Portal>
      <Primitive.Overlay className={dialogOverlay} />
      <Primitive.Content
        data-slot="dialog"
        className={cn(dialogPanel, sizes[size], className)}
        {...focusReturn}
        {...props}
      >
        <div className={cn(dialogHeader, "pr-16 sm:pr-16")}>
          <Primitive.Title className="text-heading [overflow-wrap:anywhere]">{title}</Primitive.Title>
          <Primitive.Description className="text-muted-foreground text-sm [overflow-wrap:anywhere]">
            {description}
          </Primitive.Description>
        </div>
        {children}
        <Primitive.Close className="absolute top-2.5 right-2.5 grid size-11 place-items-center rounded-md text-muted-foreground transition-colors hover:bg-muted hover:text-foreground sm:top-4 sm:right-4 sm:size-9">
          <XIcon className="size-4" aria-hidden />
          <span className="sr-only">Close</span>
        </Primitive.Close>
      </Primitive.Content>
    </Primitive.Portal>
  );
}

interface DialogFormProps {
  onSubmit: FormEventHandler<HTMLFormElement>;
  /** Being saved: nothing can be changed, nothing sent twice. */
  busy: boolean;
  /** Something was typed that closing would lose. */
  dirty: boolean;
  submitLabel: string;
  busyLabel: string;
  cancelLabel?: string;
  children: ReactNode;
}

/** A form that fills a dialog: fields that scroll, buttons that stay, and a question before typed text is lost. */
export function DialogForm({
  onSubmit,
  busy,
  dirty,
  submitLabel,
  busyLabel,
  cancelLabel = "Cancel",
  children,
}: DialogFormProps) {
  const gone = use(GoneContext);
  useDialogGuard(dirty);
  return (
    <form noValidate onSubmit={onSubmit} className="flex min-h-0 grow flex-col">
      {/* No box of its own: as one, a fieldset does not let what is in it shrink and scroll. */}
      <fieldset disabled={busy} className="contents">
        <DialogBody className="grid content-start gap-5">
          {gone && <GoneNote {...gone} />}
          {children}
        </DialogBody>
        <DialogFooter>
          <DialogClose asChild>
            <Button variant="secondary">{cancelLabel}</Button>
          </DialogClose>
          <SubmitButton busy={busy} busyLabel={busyLabel} disabled={gone !== null}>
            {submitLabel}
          </SubmitButton>
        </DialogFooter>
      </fieldset>
    </form>
  );
}
