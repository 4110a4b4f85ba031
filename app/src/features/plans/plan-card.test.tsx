import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { PlanCard } from "./plan-card";
import type { Plan, PlanRole } from "./queries";

const plan: Plan = {
  id: "8f1f2a52-54a8-4a0f-8b9d-3f1f5ad1cf0e",
  user_id: null,
  title: "Outreach",
  description: "<p>Meals</p>",
  start_date: null,
  estimated_end_date: "2030-12-31",
  created_at: new Date(Date.now() - 3 * 60_000).toISOString(),
  updated_at: new Date().toISOString(),
};

const show = (role: PlanRole, change: Partial<Plan> = {}) =>
  render(<PlanCard plan={{ ...plan, ...change }} role={role} onEdit={() => {}} onDelete={() => {}} />);

test.each<[PlanRole, string[]]>([
  ["owner", ["Edit Outreach", "Delete Outreach"]],
  ["manager", ["Edit Outreach"]],
  ["viewer", []],
])("%s may %j", (role, names) => {
  show(role);
  expect(screen.queryAllByRole("button").map((button) => button.getAttribute("aria-label"))).toEqual(names);
});

test("shows when it was made and when it runs", () => {
  show("viewer");
  expect(screen.getByRole("article", { name: "Outreach" })).toHaveTextContent("Created 3 minutes ago");
  expect(screen.getByText(/Not started – Dec 31, 2030/)).toBeVisible();
});

test("a date is the same day in every time zone", () => {
  show("viewer", { start_date: "2027-03-01", estimated_end_date: null });
  expect(screen.getByText(/Mar 1, 2027$/)).toBeVisible();
});
