import type { User } from "@supabase/supabase-js";
import { ArrowRightIcon, MailIcon, MegaphoneIcon, SettingsIcon } from "lucide-react";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { PageHeading } from "@/components/page-heading";
import { Card } from "@/components/ui/card";

const places = [
  {
    to: "/admin/integrations/email",
    icon: MailIcon,
    title: "Email Integration",
    text: "Who sends the site's e-mails, what the invitation says, and a test.",
  },
  {
    to: "/admin/marketing",
    icon: MegaphoneIcon,
    title: "Marketing Content",
    text: "The words and pictures of the landing page, section by section.",
  },
  {
    to: "/admin/settings",
    icon: SettingsIcon,
    title: "App Settings",
    text: "All settings, the logo in its sizes, and the upgrade prompt.",
  },
];

/** What stands at the beginning of the admin area. `children` come between the cards and the details. */
export function Overview({ user, children }: { user: User; children?: ReactNode }) {
  return (
    <>
      <PageHeading title="Admin Overview" subtitle="Run the site: its mail, its words, its prices" />
      <ul className="grid gap-4 md:grid-cols-3">
        {places.map(({ to, icon: Icon, title, text }) => (
          <li key={to}>
            <Link
              to={to}
              className="group grid h-full content-start gap-3 rounded-xl border bg-surface-raised p-5 shadow-card transition-shadow hover:shadow-raised"
            >
              <span className="flex items-center justify-between">
                <span className="grid size-10 place-items-center rounded-lg bg-primary-soft text-primary-soft-foreground">
                  <Icon className="size-5" aria-hidden />
                </span>
                <ArrowRightIcon
                  aria-hidden
                  className="size-4 text-muted-foreground transition-transform group-hover:translate-x-0.5 rtl:-scale-x-100"
                />
              </span>
              <span className="text-label">{title}</span>
              <span className="text-muted-foreground text-sm">{text}</span>
            </Link>
          </li>
        ))}
      </ul>
      {children}
      <Card className="mt-6 p-5 sm:p-6">
        <h2 className="text-heading">Admin Details</h2>
        <dl className="mt-4 grid gap-x-6 gap-y-3 text-sm sm:grid-cols-[8rem_1fr]">
          <dt className="text-muted-foreground">Email</dt>
          <dd className="[overflow-wrap:anywhere]">{user.email}</dd>
          <dt className="text-muted-foreground">User ID</dt>
          <dd className="font-mono text-xs leading-5 [overflow-wrap:anywhere]">{user.id}</dd>
        </dl>
      </Card>
    </>
  );
}
