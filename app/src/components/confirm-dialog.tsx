import { useEffect, useState } from "react";
import type { ConfirmDialogCore, ConfirmDialogProps } from "./confirm-dialog-core";

let loaded: typeof ConfirmDialogCore | null = null;

/** Fetches the dialog ahead, for one that may have to open when the connection is gone. */
export async function loadConfirmDialog() {
  loaded = (await import("./confirm-dialog-core")).ConfirmDialogCore;
  return loaded;
}

/**
 * Asks before something that cannot be undone. Fetched when it first has to: most visits ask nothing. Without a
 * connection nothing opens; the next press tries again.
 */
export function ConfirmDialog(props: ConfirmDialogProps) {
  const [Core, setCore] = useState(() => loaded);
  const { open, onOpenChange } = props;
  useEffect(() => {
    if (!open || Core) return;
    loadConfirmDialog().then(
      (core) => setCore(() => core),
      () => onOpenChange(false),
    );
  }, [open, Core, onOpenChange]);
  return Core && <Core {...props} />;
}
