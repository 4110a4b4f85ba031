import {
  CalendarRangeIcon,
  ChartNoAxesColumnIncreasingIcon,
  FileTextIcon,
  LayoutDashboardIcon,
  TargetIcon,
  UsersIcon,
} from "lucide-react";
import { Unbroken } from "@/components/unbroken";
import { cn } from "@/lib/cn";
import { safeUrl } from "@/lib/safe-url";
import priorityDark from "./pictures/priority.dark.webp";
import priorityLight from "./pictures/priority.light.webp";
import reportDark from "./pictures/report.dark.webp";
import reportLight from "./pictures/report.light.webp";
import teamDark from "./pictures/team.dark.webp";
import teamLight from "./pictures/team.light.webp";
import type { Content } from "./queries";
import { Screenshot } from "./screenshot";

const width = 592;

const stories = [
  {
    title: "From a mission to Monday's next step",
    text: "A plan has a handful of priorities, a priority has tasks, a task has a day and a name. Tick one off, and everybody sees the plan grow.",
    picture: {
      light: priorityLight,
      dark: priorityDark,
      width,
      height: 480,
      alt: "A priority with its tasks, days and people",
    },
  },
  {
    title: "Board, staff and volunteers in one plan",
    text: "Invite people by e-mail as owner, manager or viewer. Changes appear on every screen at once, and the papers lie beside the plan they belong to.",
    picture: { light: teamLight, dark: teamDark, width, height: 400, alt: "The members of a plan with their roles" },
  },
  {
    title: "The answer to “how is it going?”",
    text: "Progress counts itself from the work that is done. Show a funder the plan as it is today, without a week of slides.",
    picture: { light: reportLight, dark: reportDark, width, height: 600, alt: "The first page of a progress report" },
  },
];

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
    text: "Show how far you have come, by priority and over time.",
  },
  {
    icon: CalendarRangeIcon,
    title: "Timeline Views",
    text: "See what is due and when, from the next week to the next five years.",
  },
];

export function Features({ content }: { content: Content | undefined }) {
  const image = safeUrl(content?.imageurl);
  return (
    <section id="features" aria-labelledby="features-title" className="border-t bg-surface">
      <div className="mx-auto max-w-6xl px-4 py-20 sm:px-6 sm:py-24">
        <div className="mx-auto max-w-2xl text-center [overflow-wrap:anywhere]">
          <h2 id="features-title" className="text-title">
            <Unbroken>{content?.title || "Powerful Features for Strategic Planning"}</Unbroken>
          </h2>
          {content?.subtitle && <p className="mt-4 text-lg text-muted-foreground">{content.subtitle}</p>}
          {content?.description && <p className="mt-4 text-pretty text-muted-foreground">{content.description}</p>}
        </div>
        {image && (
          <img src={image} alt="" loading="lazy" className="mx-auto mt-12 max-h-96 rounded-xl object-contain" />
        )}
        <div className="mt-16 grid gap-20 sm:gap-24">
          {stories.map(({ title, text, picture }, index) => (
            <div key={title} className="grid items-center gap-x-16 gap-y-8 lg:grid-cols-2">
              <div className={cn("max-w-md", index % 2 === 1 && "lg:order-last lg:justify-self-end")}>
                <h3 className="text-title">{title}</h3>
                <p className="mt-4 text-pretty text-lg text-muted-foreground">{text}</p>
              </div>
              <Screenshot {...picture} />
            </div>
          ))}
        </div>
        <ul className="mt-20 grid gap-x-10 gap-y-8 border-t pt-14 sm:mt-24 sm:grid-cols-2 lg:grid-cols-3">
          {features.map(({ icon: Icon, title, text }) => (
            <li key={title} className="flex gap-4">
              <Icon className="mt-0.5 size-5 shrink-0 text-primary" aria-hidden />
              <div>
                <h3 className="text-label">{title}</h3>
                <p className="mt-1 text-pretty text-muted-foreground text-sm">{text}</p>
              </div>
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}
