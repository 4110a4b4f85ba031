import { useSyncExternalStore } from "react";

// Each is put at the end of the body when it opens, and taken away when it has closed.
function watchBody(changed: () => void) {
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { childList: true });
  return () => observer.disconnect();
}

/** Whether a dialog, a sheet or a question is before the page. */
export function useDialogOpen() {
  return useSyncExternalStore(
    watchBody,
    () => document.querySelector('body > [role="dialog"], body > [role="alertdialog"]') !== null,
  );
}
