import { useEffect } from "react";
import { useBlocker } from "react-router";
import { ConfirmDialog, loadConfirmDialog } from "@/components/confirm-dialog";
import { fetchAhead } from "@/components/lazy-part";
import { beginUnsaved } from "@/lib/held";

interface UnsavedGuardProps {
  /** Something was typed that is saved nowhere. */
  when: boolean;
  /** The form's own way out was pressed. */
  asking?: boolean;
  onKeep?: () => void;
  onDiscard?: () => void;
}

/** Asks before typed text is lost: by the form's own way out, by a link or the back button, by closing the tab. */
export function UnsavedGuard({ when, ...props }: UnsavedGuardProps) {
  // The router asks one blocker at most: guards that have nothing to guard must not be in its way.
  return when && <ActiveGuard {...props} />;
}

function ActiveGuard({ asking = false, onKeep, onDiscard }: Omit<UnsavedGuardProps, "when">) {
  const blocker = useBlocker(({ currentLocation, nextLocation }) => currentLocation.pathname !== nextLocation.pathname);
  const leaving = blocker.state === "blocked";

  useEffect(() => {
    fetchAhead(loadConfirmDialog);
    return beginUnsaved();
  }, []);

  useEffect(() => {
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, []);

  function keep() {
    if (leaving) blocker.reset();
    onKeep?.();
  }

  function discard() {
    onDiscard?.();
    if (leaving) blocker.proceed();
  }

  return (
    <ConfirmDialog
      open={asking || leaving}
      onOpenChange={(open) => open || keep()}
      title="Discard what you typed?"
      description="It has not been saved and cannot be brought back."
      cancelLabel="Keep editing"
      confirmLabel="Discard"
      busyLabel="Discarding..."
      onConfirm={async () => discard()}
    />
  );
}
