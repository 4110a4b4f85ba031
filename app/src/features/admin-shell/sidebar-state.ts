import { useEffect, useState } from "react";
import { useIsMobile } from "@/hooks/use-is-mobile";

const cookie = "sidebar_state";
const sevenDaysSeconds = 7 * 24 * 60 * 60;

/** Whether the last visit left the sidebar open; open at first. */
export function readSidebarCookie(cookies: string) {
  return !cookies.split("; ").includes(`${cookie}=collapsed`);
}

function writeSidebarCookie(open: boolean) {
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API exists only on HTTPS, and not in every browser
  document.cookie = `${cookie}=${open ? "expanded" : "collapsed"}; path=/; max-age=${sevenDaysSeconds}; samesite=lax`;
}

export interface SidebarState {
  /** On a phone the sidebar is a sheet over the page. */
  isMobile: boolean;
  open: boolean;
  setOpen: (open: boolean) => void;
}

/** Open or collapsed, remembered for seven days; Ctrl or Cmd with B changes it. `place` is the path: a sheet closes on leaving it. */
export function useSidebar(place: string): SidebarState {
  const isMobile = useIsMobile();
  const [expanded, setExpanded] = useState(() => readSidebarCookie(document.cookie));
  const [sheetAt, setSheetAt] = useState<string | null>(null);
  const open = isMobile ? sheetAt === place : expanded;

  function setOpen(next: boolean) {
    if (isMobile) setSheetAt(next ? place : null);
    else {
      setExpanded(next);
      writeSidebarCookie(next);
    }
  }

  useEffect(() => {
    const toggle = (event: KeyboardEvent) => {
      const isShortcut = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key === "b";
      // In a rich text the same keys make bold.
      const isWriting = event.target instanceof HTMLElement && event.target.isContentEditable;
      if (!isShortcut || isWriting || event.defaultPrevented) return;
      event.preventDefault();
      setOpen(!open);
    };
    window.addEventListener("keydown", toggle);
    return () => window.removeEventListener("keydown", toggle);
  });

  return { isMobile, open, setOpen };
}
