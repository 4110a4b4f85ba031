import { expect, test } from "vitest";
import { dayHeading, deedOf } from "./sentence";

const deed = (action: string, subject: string, title: string | null, detail: string | null = null) =>
  deedOf({ action, subject, title, detail });

test("deeds are sentences", () => {
  expect(deed("completed", "task", "Find a hall")).toBe("completed the task “Find a hall”");
  expect(deed("created", "priority", null, "12")).toBe("added 12 priorities");
  expect(deed("created", "plan", "Hubs")).toBe("created the plan");
  expect(deed("deleted", "plan", "Hubs")).toBe("moved the plan to the bin");
  expect(deed("edited", "organization", null)).toBe("changed the organization");
  expect(deed("edited", "organization", "Trust")).toBe("changed the organization “Trust”");
  expect(deed("role_changed", "member", "Maya", "owner")).toBe("made Maya an owner");
  expect(deed("role_changed", "member", null, "viewer")).toBe("made a member a viewer");
  expect(deed("invited", "member", null, "manager")).toBe("invited a new manager");
  expect(deed("commented", "task", "Find a hall")).toBe("commented on the task “Find a hall”");
});

test("days are today, yesterday, or a date", () => {
  const now = new Date(2026, 10, 26, 0, 30);
  expect(dayHeading(new Date(2026, 10, 26, 0, 1).toISOString(), now)).toBe("Today");
  expect(dayHeading(new Date(2026, 10, 25, 23, 59).toISOString(), now)).toBe("Yesterday");
  expect(dayHeading(new Date(2026, 10, 24, 12).toISOString(), now)).toBe("Tuesday, November 24, 2026");
});
