import { XIcon } from "lucide-react";
import { Dialog as Primitive } from "radix-ui";
import type { ComponentProps } from "react";
import { useFocusReturn } from "@/hooks/use-focus-return";
import { cn } from "@/lib/cn";

export const Dialog = Primitive.Root;

export const dialogOverlay =
  "fixed inset-0 z-50 bg-[oklch(0.16_0.02_220/0.5)] backdrop-blur-[2px] data-[state=closed]:animate-fade-out data-[state=open]:animate-fade-in";

// On a phone the dialog is a sheet at the lower edge, within reach of the thumb.
export const dialogPanel =
  "fixed inset-x-0 bottom-0 z-50 grid max-h-[92dvh] w-full gap-5 overflow-y-auto rounded-t-xl border bg-surface-raised p-5 shadow-overlay data-[state=closed]:animate-sink-out data-[state=open]:animate-rise-in sm:inset-0 sm:m-auto sm:h-fit sm:max-h-[calc(100dvh-3rem)] sm:max-w-lg sm:rounded-xl sm:p-6";

export function DialogContent({ className, children, ...props }: ComponentProps<typeof Primitive.Content>) {
  const focusReturn = useFocusReturn();
  return (
    <Primitive.Portal>
      <Primitive.Overlay className={dialogOverlay} />
      <Primitive.Content data-slot="dialog" className={cn(dialogPanel, className)} {...focusReturn} {...props}>
        {children}
        <Primitive.Close className="absolute top-4 right-4 grid size-8 place-items-center rounded-md text-muted-foreground transition-colors hover:bg-muted hover:text-foreground">
          <XIcon className="size-4" aria-hidden />
          <span className="sr-only">Close</span>
        </Primitive.Close>
      </Primitive.Content>
    </Primitive.Portal>
  );
}

export function DialogHeader({ title, description }: { title: string; description: string }) {
  return (
    <div className="grid gap-1.5 pr-8">
      <Primitive.Title className="text-heading">{title}</Primitive.Title>
      <Primitive.Description className="text-muted-foreground text-sm">{description}</Primitive.Description>
    </div>
  );
}

export function DialogFooter({ className, ...props }: ComponentProps<"div">) {
  return <div className={cn("flex flex-col-reverse gap-2 sm:flex-row sm:justify-end", className)} {...props} />;
}
