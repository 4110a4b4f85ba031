import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { PlanCard } from "./plan-card";
import type { Plan, PlanRole } from "./queries";

const plan: Plan = {
  id: "8f1f2a52-54a8-4a0f-8b9d-3f1f5ad1cf0e",
  user_id: null,
  deleted_at: null,
  title: "Outreach",
  description: "<p>Meals</p>",
  start_date: null,
  estimated_end_date: "2030-12-31",
  archived_at: null,
  created_at: new Date(Date.now() - 3 * 60_000).toISOString(),
  updated_at: new Date().toISOString(),
};

const show = (role: PlanRole, change: Partial<Plan> = {}) =>
  renderPage(
    <PlanCard
      plan={{ ...plan, ...change }}
      role={role}
      metrics={metrics}
      onEdit={() => {}}
      onDelete={() => {}}
      onArchive={() => {}}
      onDuplicate={() => {}}
      renderPriorities={() => <p>Priorities</p>}
    />,
  );

const metrics = {
  columns: [{ key: "one", percent: 50 }],
  done: { completed: 1, total: 2 },
  percent: 50,
  files: 3,
};

test.each<[PlanRole, string[]]>([
  ["owner", ["Edit plan", "Duplicate plan", "Archive plan", "Delete plan"]],
  ["manager", ["Edit plan", "Duplicate plan", "Archive plan"]],
])("%s may %j", async (role, names) => {
  const { user } = show(role);
  await user.click(screen.getByRole("button", { name: "Actions for Outreach" }));
  expect((await screen.findAllByRole("menuitem")).map((item) => item.textContent)).toEqual(names);
});

test("viewer can open the plan but has no actions", () => {
  show("viewer");
  expect(screen.queryByRole("button", { name: "Actions for Outreach" })).not.toBeInTheDocument();
  expect(screen.getByRole("link", { name: "View Outreach" })).toHaveAttribute("href", `/plan/${plan.id}`);
});

test("shows done count and percentage", () => {
  show("viewer");
  expect(screen.getByRole("article", { name: "Outreach" })).toHaveTextContent("Priorities1Tasks1/2Files3");
  expect(screen.getByRole("progressbar", { name: "Progress of Outreach" })).toHaveAttribute("aria-valuenow", "50");
});

test("shows creation date and period", () => {
  show("viewer");
  expect(screen.getByRole("article", { name: "Outreach" })).toHaveTextContent("Created 3 minutes ago");
  expect(screen.getByText(/Not started – Dec 31, 2030/)).toBeVisible();
});

test("dates are the same day in every time zone", () => {
  show("viewer", { start_date: "2027-03-01", estimated_end_date: null });
  expect(screen.getByText(/Mar 1, 2027$/)).toBeVisible();
});
