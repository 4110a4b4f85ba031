const dayFormat = new Intl.DateTimeFormat("en-US", { dateStyle: "medium" });
const monthFormat = new Intl.DateTimeFormat("en-US", { month: "short" });
const ageFormat = new Intl.RelativeTimeFormat("en");
// Making a format takes a hundred times as long as using one.
const instantFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "long", timeStyle: "short" });
const billingFormat = new Intl.DateTimeFormat("en-US", { dateStyle: "long" });

/** The units of an age, each with the seconds that it has and the number from which the next larger one is used. */
const units = [
  ["minute", 60, 60],
  ["hour", 3600, 24],
  ["day", 86_400, 30],
  ["month", 2_629_746, 12],
  ["year", 31_556_952, Number.POSITIVE_INFINITY],
] as const;

/** A date-only column is a day on the wall calendar, the same in every time zone; an instant is one of the person's days. */
function dayOf(text: string) {
  return new Date(text.length === 10 ? `${text}T00:00` : text);
}

/** "Jan 31, 2027" */
export function formatDay(day: string) {
  return dayFormat.format(dayOf(day));
}

/** "Jan 1 – Mar 31, 2027" */
export function formatDays(first: string, last: string) {
  return dayFormat.formatRange(dayOf(first), dayOf(last));
}

/** "Jan" */
export function formatMonth(day: string) {
  return monthFormat.format(dayOf(day));
}

/** "3 minutes ago" */
export function formatAge(instant: string) {
  const seconds = (Date.now() - Date.parse(instant)) / 1000;
  if (seconds < 30) return "less than a minute ago";
  for (const [unit, length, end] of units) {
    const count = Math.max(1, Math.round(seconds / length));
    if (count < end) return ageFormat.format(-count, unit);
  }
  return "";
}

/** Date and time in full, as the person's locale writes them. */
export function formatInstant(instant: string) {
  return instantFormat.format(new Date(instant));
}

/** "January 31, 2027", of an instant: as bills have it. */
export function formatBillingDate(instant: string) {
  return billingFormat.format(new Date(instant));
}

/** Whether this is a day of the calendar, as `YYYY-MM-DD`. */
export function isRealDay(day: string) {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) return false;
  const time = Date.parse(`${day}T00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day);
}

/** The person's today, as date-only columns have it. */
export function today() {
  return toDay(new Date());
}

/** The person's day of an instant, as date-only columns have it. */
export function toDay(instant: Date) {
  const [month, day] = [instant.getMonth() + 1, instant.getDate()].map((part) => String(part).padStart(2, "0"));
  return `${instant.getFullYear()}-${month}-${day}`;
}

/** What this browser says; UTC where it does not know. */
export function ownTimeZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}
