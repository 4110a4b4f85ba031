import {
  ActivityIcon,
  CreditCardIcon,
  LayoutDashboardIcon,
  type LucideIcon,
  MailIcon,
  MegaphoneIcon,
  PanelLeftIcon,
  ScrollTextIcon,
  SettingsIcon,
  ShieldCheckIcon,
  UsersIcon,
  WebhookIcon,
  XIcon,
} from "lucide-react";
import { Dialog as Primitive } from "radix-ui";
import { NavLink } from "react-router";
import { Button } from "@/components/ui/button";
import { cn } from "@/lib/cn";
import type { SidebarState } from "./sidebar-state";

interface Place {
  to: string;
  label: string;
  icon: LucideIcon;
}

const groups: { label: string; places: Place[] }[] = [
  {
    label: "Overview",
    places: [
      { to: "/dashboard", label: "Main Dashboard", icon: LayoutDashboardIcon },
      { to: "/admin", label: "Admin Overview", icon: ShieldCheckIcon },
    ],
  },
  {
    label: "Site",
    places: [
      { to: "/admin/integrations/email", label: "Email Integration", icon: MailIcon },
      { to: "/admin/settings", label: "App Settings", icon: SettingsIcon },
      { to: "/admin/marketing", label: "Marketing Content", icon: MegaphoneIcon },
      { to: "/admin/subscription-plans", label: "Subscription Plans", icon: CreditCardIcon },
    ],
  },
  {
    label: "Operation",
    places: [
      { to: "/admin/webhooks", label: "Webhook Management", icon: WebhookIcon },
      { to: "/admin/users", label: "Users", icon: UsersIcon },
      { to: "/admin/audit-log", label: "Audit Log", icon: ScrollTextIcon },
      { to: "/admin/health", label: "Health", icon: ActivityIcon },
    ],
  },
];

/** 16rem wide, 3rem when collapsed; on a phone a sheet of 18rem over the page. */
export function Sidebar({ isMobile, open, setOpen }: SidebarState) {
  if (isMobile) {
    return (
      <Primitive.Root open={open} onOpenChange={setOpen}>
        <Primitive.Portal>
          <Primitive.Overlay className="fixed inset-0 z-50 bg-[oklch(0.16_0.02_220/0.5)] data-[state=closed]:animate-fade-out data-[state=open]:animate-fade-in" />
          <Primitive.Content
            aria-describedby={undefined}
            className="fixed inset-y-0 start-0 z-50 flex w-72 max-w-[85vw] flex-col overflow-y-auto border-e bg-surface p-3 shadow-overlay outline-none transition-transform duration-200 data-[state=closed]:animate-fade-out starting:-translate-x-full"
          >
            <div className="mb-2 flex items-center justify-between ps-2">
              <Primitive.Title className="text-label">Administration</Primitive.Title>
              <Primitive.Close className="grid size-11 place-items-center rounded-md text-muted-foreground hover:bg-muted hover:text-foreground">
                <XIcon className="size-4" aria-hidden />
                <span className="sr-only">Close</span>
              </Primitive.Close>
            </div>
            <Places />
          </Primitive.Content>
        </Primitive.Portal>
      </Primitive.Root>
    );
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

function Places({ collapsed = false }: { collapsed?: boolean }) {
  return (
    <nav aria-label="Administration" className={cn("grid", collapsed ? "gap-3" : "gap-5")}>
      {groups.map(({ label, places }) => (
        <div key={label} className={cn("grid gap-0.5", collapsed && "border-t pt-3 first:border-t-0 first:pt-0")}>
          {!collapsed && <p className="px-2.5 pb-1.5 font-medium text-muted-foreground text-xs">{label}</p>}
          {places.map(({ to, label, icon: Icon }) => (
            <NavLink
              key={to}
              to={to}
              end
              title={collapsed ? label : undefined}
              className={cn(
                "flex min-h-11 items-center gap-2.5 rounded-md px-2.5 font-medium text-muted-foreground text-sm outline-offset-[-2px] transition-colors hover:bg-muted hover:text-foreground aria-[current=page]:bg-primary-soft aria-[current=page]:text-primary-soft-foreground md:min-h-9",
                collapsed && "justify-center px-0",
              )}
            >
              <Icon className="size-4 shrink-0" aria-hidden />
              <span className={collapsed ? "sr-only" : "truncate"}>{label}</span>
            </NavLink>
          ))}
        </div>
      ))}
    </nav>
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
