import type { ComponentProps } from "react";
import { cn } from "@/lib/cn";

export const dialogOverlay =
  "fixed inset-0 z-50 bg-[oklch(0.16_0.02_220/0.5)] data-[state=closed]:animate-fade-out data-[state=open]:animate-fade-in";

// On a phone the dialog is a sheet at the lower edge, within reach of the thumb. Its head and its buttons stay in
// view; what lies between them scrolls.
export const dialogPanel =
  "fixed inset-x-0 bottom-0 z-50 flex max-h-[92dvh] w-full min-w-0 flex-col overflow-hidden rounded-t-xl border bg-surface-raised shadow-overlay outline-none data-[state=closed]:animate-sink-out data-[state=open]:animate-sheet-in sm:inset-0 sm:m-auto sm:h-fit sm:max-h-[calc(100dvh-3rem)] sm:max-w-lg sm:rounded-xl sm:data-[state=open]:animate-rise-in";

export const dialogHeader = "grid shrink-0 gap-1.5 px-5 pt-5 pb-4 sm:px-6 sm:pt-6";

/** What scrolls when there is more of it than fits. */
export function DialogBody({ className, ...props }: ComponentProps<"div">) {
  return (
    <div
      className={cn(
        // The first pixels of padding hold the focus rings of the first and the last field.
        "min-h-0 grow overflow-y-auto overscroll-contain px-5 pt-1 pb-5 sm:px-6 sm:pb-6",
        className,
      )}
      {...props}
    />
  );
}

/** The buttons, always in view. The one that acts comes last. */
export function DialogFooter({ className, ...props }: ComponentProps<"div">) {
  return (
    <div
      className={cn(
        // On a phone side by side while they fit, else the one that acts on top.
        "flex shrink-0 flex-wrap-reverse gap-2 border-t bg-surface px-5 py-4 pb-[max(1rem,env(safe-area-inset-bottom))] max-sm:[&>*]:grow max-sm:[&>*]:basis-36 sm:justify-end sm:px-6",
        className,
      )}
      {...props}
    />
  );
}
