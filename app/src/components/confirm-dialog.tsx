import { lazyDialog } from "@/components/lazy-part";

/** Fetches the dialog ahead, for one that may have to open when the connection is gone. */
export const loadConfirmDialog = () =>
  import("./confirm-dialog-core").then(({ ConfirmDialogCore }) => ConfirmDialogCore);

/** Asks before something that cannot be undone. Fetched when it first has to: most visits ask nothing. */
export const ConfirmDialog = lazyDialog(loadConfirmDialog);
