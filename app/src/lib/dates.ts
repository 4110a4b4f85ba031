import { format, formatDistanceToNow, parseISO } from "date-fns";

/** `MMM d, yyyy` of a date-only column. It is a day on the wall calendar, the same in every time zone. */
export function formatDay(day: string) {
  return format(parseISO(day), "MMM d, yyyy");
}

/** "3 minutes ago" */
export function formatAge(instant: string) {
  return formatDistanceToNow(parseISO(instant), { addSuffix: true });
}

/** Date and time in full, as the person's locale writes them. */
export function formatInstant(instant: string) {
  return new Intl.DateTimeFormat(undefined, { dateStyle: "long", timeStyle: "short" }).format(parseISO(instant));
}
