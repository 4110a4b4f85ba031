import { expect, test, vi } from "vitest";
import { isRealDay } from "@/lib/dates";
import { titleFaultOf } from "@/lib/titles";
import { dayFromToday } from "./fill-plan";
import { prioritiesOf, type TemplateId, templates } from "./templates";

test.each(Object.keys(templates) as TemplateId[])("the database takes what %s consists of", (id) => {
  const priorities = prioritiesOf(id);
  // Tasks find their priority by its title.
  expect(new Set(priorities.map(({ title }) => title)).size).toBe(priorities.length);
  for (const { title, tasks } of priorities) {
    expect([title, ...tasks.map((task) => task.title)].map((text) => titleFaultOf(text)).filter(Boolean)).toEqual([]);
    for (const { due = 0 } of tasks) expect(isRealDay(dayFromToday(due))).toBe(true);
  }
});

test("days are counted on the person's calendar", () => {
  vi.useFakeTimers({ now: new Date(2028, 1, 29, 23) });
  expect([dayFromToday(0), dayFromToday(1), dayFromToday(-31)]).toEqual(["2028-02-29", "2028-03-01", "2028-01-29"]);
  vi.useRealTimers();
});
