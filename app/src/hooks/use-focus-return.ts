import { useRef } from "react";

/** Where the focus was last, menus aside: those are gone when a dialog that one of their items opened is closed. */
let lastPlace: HTMLElement | null = null;
document.addEventListener("focusin", ({ target }) => {
  if (target instanceof HTMLElement && !target.closest('[role="menu"]')) lastPlace = target;
});

/**
 * Handlers for a Radix dialog that has no trigger of its own: on closing, the focus goes back to where it
 * was, or to the page's heading when that place is gone, with a deleted card say.
 */
export function useFocusReturn() {
  const opener = useRef<HTMLElement | null>(null);
  return {
    // Not `activeElement`: a menu that closes gives the focus back a moment after its item opened the dialog.
    onOpenAutoFocus: () => {
      opener.current = lastPlace;
    },
    onCloseAutoFocus: (event: Event) => {
      event.preventDefault();
      // Radix calls this a moment after the dialog is gone. What has the focus by then, an opened menu say, keeps it.
      if (document.activeElement && document.activeElement !== document.body) return;
      const place = opener.current?.isConnected ? opener.current : document.querySelector("h1");
      if (place instanceof HTMLElement) place.focus();
    },
  };
}
