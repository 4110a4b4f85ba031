import { Outlet, useLocation } from "react-router";
import { Sidebar, SidebarTrigger } from "@/features/admin-shell/sidebar";
import { useSidebar } from "@/features/admin-shell/sidebar-state";
import { useUser } from "../../guards";

/** The admin area: its places at the side, the screen beside them. */
export function Component() {
  const user = useUser();
  const sidebar = useSidebar(useLocation().pathname);
  return (
    <div className="flex border-t">
      <Sidebar {...sidebar} />
      <div className="min-w-0 grow px-4 pt-3 pb-16 sm:px-6 lg:px-8">
        <div className="-ms-2 mb-2 flex items-center gap-1 text-muted-foreground text-sm">
          <SidebarTrigger {...sidebar} />
          Administration
        </div>
        <div className="mx-auto max-w-5xl">
          <Outlet context={user} />
        </div>
      </div>
    </div>
  );
}
