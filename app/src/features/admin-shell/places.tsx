import {
  ActivityIcon,
  CreditCardIcon,
  LayoutDashboardIcon,
  type LucideIcon,
  MailIcon,
  MegaphoneIcon,
  ScrollTextIcon,
  SettingsIcon,
  ShieldCheckIcon,
  UsersIcon,
  WebhookIcon,
} from "lucide-react";
import { NavLink } from "react-router";
import { cn } from "@/lib/cn";

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

export function Places({ collapsed = false }: { collapsed?: boolean }) {
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
