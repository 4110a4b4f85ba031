import { act, screen } from "@testing-library/react";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import { type Gone, GoneContext } from "@/components/gone-note";
import { renderPage } from "@/test/render";
import { EditPlanDialog } from "./plan-dialog";
import type { Plan } from "./queries";

const plan: Plan = {
  id: "5eed1000-0000-4000-8000-000000000001",
  user_id: null,
  deleted_at: null,
  title: "Warm meals",
  description: null,
  start_date: null,
  estimated_end_date: null,
  archived_at: null,
  created_at: "2026-11-01T10:00:00Z",
  updated_at: "2026-11-01T10:00:00Z",
};
const theirs = { ...plan, title: "Hot meals", updated_at: "2026-11-02T10:00:00Z" };

interface Shown {
  plan: Plan;
  gone: Gone | null;
}

let change = (_: Partial<Shown>) => {};

function Harness() {
  const [shown, setShown] = useState<Shown>({ plan, gone: null });
  change = (next) => act(() => setShown({ ...shown, ...next }));
  return (
    <GoneContext value={shown.gone}>
      <EditPlanDialog open onOpenChange={() => {}} plan={shown.plan} />
    </GoneContext>
  );
}

test("saving during a conflict leads to the choice", async () => {
  const server = vi.fn(async () => Response.json([]));
  vi.stubGlobal("fetch", server);
  const { user } = renderPage(<Harness />);
  await user.type(screen.getByLabelText("Title"), " for all");
  change({ plan: theirs });
  await user.click(screen.getByRole("button", { name: "Update Plan" }));

  await vi.waitFor(() => expect(screen.getByRole("alert")).toHaveFocus());
  expect(screen.getByRole("alert")).toHaveTextContent("Someone else changed this plan while you were editing");
  expect(server).not.toHaveBeenCalled();
  expect(screen.getByLabelText("Title")).toHaveValue("Warm meals for all");
});

test("version that came first leads to the choice once it arrives", async () => {
  // The update finds no row of that version; the plan itself is still there.
  const server = vi.fn(async (_: unknown, init?: RequestInit) =>
    Response.json(init?.method === "PATCH" ? [] : [{ id: plan.id }]),
  );
  vi.stubGlobal("fetch", server);
  const { user } = renderPage(<Harness />);
  await user.type(screen.getByLabelText("Title"), " for all");
  await user.click(screen.getByRole("button", { name: "Update Plan" }));
  await vi.waitFor(() => expect(screen.getByRole("button", { name: "Update Plan" })).toBeEnabled());
  change({ plan: theirs });
  await vi.waitFor(() => expect(screen.getByRole("alert")).toHaveFocus());
});

test("text stays when the plan is gone, and can be copied", async () => {
  const { user } = renderPage(<Harness />);
  const copied = vi.spyOn(navigator.clipboard, "writeText");
  await user.type(screen.getByLabelText("Title"), " for all");
  change({ gone: { title: "This plan was deleted", description: "An owner deleted it." } });

  expect(screen.getByRole("alert")).toHaveTextContent("This plan was deleted");
  expect(screen.getByLabelText("Title")).toHaveValue("Warm meals for all");
  expect(screen.getByRole("button", { name: "Update Plan" })).toBeDisabled();
  await user.click(screen.getByRole("button", { name: "Copy what I typed" }));
  expect(await screen.findByRole("button", { name: "Copied" })).toBeVisible();
  expect(copied).toHaveBeenCalledWith("Title: Warm meals for all");
});
