import { useEffect } from "react";

const noted = "time-zone-noted";

/** Once per visit, when nothing else is to be done: mails come in the morning of the person. */
export function useTimeZoneNote(userId: string) {
  useEffect(() => {
    if (sessionStorage.getItem(noted) === userId) return;
    const timer = setTimeout(() => {
      sessionStorage.setItem(noted, userId);
      // Where it cannot be noted, mails come in the morning of UTC; the next visit tries again.
      import("@/features/plan-mails/queries").then(({ noteTimeZone }) => noteTimeZone(userId)).catch(() => undefined);
    }, 4_000);
    return () => clearTimeout(timer);
  }, [userId]);
}
