import {
  CalendarRangeIcon,
  ChartNoAxesColumnIncreasingIcon,
  FileTextIcon,
  LayoutDashboardIcon,
  TargetIcon,
  UsersIcon,
} from "lucide-react";

const features = [
  {
    icon: TargetIcon,
    title: "Goal Setting",
    text: "Turn a mission into priorities, and priorities into steps that people can take.",
  },
  {
    icon: UsersIcon,
    title: "Collaborative Planning",
    text: "Plan with your board, staff and volunteers, each with the rights they need.",
  },
  {
    icon: LayoutDashboardIcon,
    title: "Clear Dashboards",
    text: "Every plan at a glance: what is going on, and what needs you today.",
  },
  {
    icon: FileTextIcon,
    title: "Document Integration",
    text: "Keep budgets, reports and minutes beside the plan they belong to.",
  },
  {
    icon: ChartNoAxesColumnIncreasingIcon,
    title: "Progress Reporting",
    text: "Show funders and your board how far you have come, without a week of slides.",
  },
  {
    icon: CalendarRangeIcon,
    title: "Timeline Views",
    text: "See what is due and when, from the next week to the next five years.",
  },
];

export function Features() {
  return (
    <section id="features" aria-labelledby="features-title" className="border-t bg-surface">
      <div className="mx-auto max-w-6xl px-4 py-20 sm:px-6 sm:py-28">
        <h2 id="features-title" className="mx-auto max-w-2xl text-center text-title">
          Powerful Features for Strategic Planning
        </h2>
        <ul className="mt-14 grid gap-x-10 gap-y-12 sm:grid-cols-2 lg:grid-cols-3">
          {features.map(({ icon: Icon, title, text }) => (
            <li key={title}>
              <span className="grid size-11 place-items-center rounded-lg bg-primary-soft text-primary-soft-foreground">
                <Icon className="size-5" aria-hidden />
              </span>
              <h3 className="mt-5 text-heading">{title}</h3>
              <p className="mt-2 text-pretty text-muted-foreground">{text}</p>
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}
