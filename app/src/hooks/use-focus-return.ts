import { useRef } from "react";

/**
 * Handlers for a Radix dialog that has no trigger of its own: on closing, the focus goes back to where it
 * was, or to the page's heading when that place is gone, with a deleted card say.
 */
export function useFocusReturn() {
  const opener = useRef<Element | null>(null);
  return {
    onOpenAutoFocus: () => {
      opener.current = document.activeElement;
    },
    onCloseAutoFocus: (event: Event) => {
      event.preventDefault();
      const place = opener.current?.isConnected ? opener.current : document.querySelector("h1");
      if (place instanceof HTMLElement) place.focus();
    },
  };
}
