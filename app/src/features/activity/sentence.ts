import type { Activity } from "./queries";

const things: Record<string, [one: string, many: string]> = {
  plan: ["the plan", "plans"],
  priority: ["the priority", "priorities"],
  task: ["the task", "tasks"],
  file: ["the file", "files"],
  organization: ["the organization", "organizations"],
  member: ["a member", "members"],
};

const verbs: Record<string, string> = {
  created: "added",
  edited: "changed",
  deleted: "deleted",
  restored: "restored",
  completed: "completed",
  reopened: "reopened",
  commented: "commented on",
};

/** What somebody did, to follow their name: "completed the task “Find a hall”". */
export function deedOf({ action, subject, title, detail }: Pick<Activity, "action" | "subject" | "title" | "detail">) {
  const [one, many] = things[subject] ?? [subject, subject];
  switch (action) {
    case "joined":
      return `joined the team as ${detail}`;
    case "left":
      return "left the team";
    case "removed":
      return `removed ${title ?? "a member"} from the team`;
    case "invited":
      return `invited a new ${detail}`;
    case "role_changed":
      return `made ${title ?? "a member"} ${detail === "owner" ? "an owner" : `a ${detail}`}`;
    case "deleted":
      if (subject === "plan") return "moved the plan to the bin";
      break;
    case "created":
      if (subject === "plan") return "created the plan";
      // Several at once have no title.
      if (title === null) return `added ${detail} ${many}`;
  }
  const verb = verbs[action] ?? action;
  if (subject === "plan" || (subject === "organization" && !title)) return `${verb} ${one}`;
  return title ? `${verb} ${one} “${title}”` : `${verb} ${one}`;
}

/** The day of an instant in words, as headings of the list have it. */
export function dayHeading(instant: string, now: Date) {
  const day = new Date(instant);
  const start = (date: Date) => new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
  const days = Math.round((start(now) - start(day)) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  return day.toLocaleDateString("en-US", { weekday: "long", month: "long", day: "numeric", year: "numeric" });
}
