import { PanelLeftIcon } from "lucide-react";
import { lazyDialog } from "@/components/lazy-part";
import { Button } from "@/components/ui/button";
import { cn } from "@/lib/cn";
import { Places } from "./places";
import type { SidebarState } from "./sidebar-state";

// On phones alone.
const SidebarSheet = lazyDialog(() => import("./sidebar-sheet").then(({ SidebarSheet }) => SidebarSheet));

/** 16rem wide, 3rem when collapsed; on a phone a sheet of 18rem over the page. */
export function Sidebar({ isMobile, open, setOpen }: SidebarState) {
  if (isMobile) {
    return <SidebarSheet open={open} onOpenChange={setOpen} />;
  }
  return (
    <aside
      id="admin-sidebar"
      data-state={open ? "expanded" : "collapsed"}
      className={cn(
        "sticky top-16 h-[calc(100dvh-4rem)] shrink-0 overflow-y-auto overflow-x-hidden border-e bg-surface transition-[width] duration-200 [scrollbar-width:none]",
        open ? "w-64 p-3" : "w-12 px-1.5 py-3",
      )}
    >
      <Places collapsed={!open} />
    </aside>
  );
}

export function SidebarTrigger({ isMobile, open, setOpen }: SidebarState) {
  return (
    <Button
      variant="ghost"
      size="icon"
      aria-label="Toggle sidebar"
      aria-expanded={open}
      aria-controls={isMobile ? undefined : "admin-sidebar"}
      aria-keyshortcuts="Control+B Meta+B"
      title="Toggle sidebar (Ctrl or ⌘ + B)"
      onClick={() => setOpen(!open)}
    >
      <PanelLeftIcon aria-hidden className="rtl:-scale-x-100" />
    </Button>
  );
}
