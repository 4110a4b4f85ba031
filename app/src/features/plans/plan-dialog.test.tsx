import { screen, within } from "@testing-library/react";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { CreatePlanDialog } from "./plan-dialog";

function Harness() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        New
      </button>
      <CreatePlanDialog
        open={open}
        onOpenChange={setOpen}
        userId="5a0d3a3e-7d53-4b0e-9ab5-6fb3d4f8a5b1"
        onCreated={() => {}}
      />
    </>
  );
}

test("too short title sends no request", async () => {
  const { user } = renderPage(<Harness />);
  await user.click(screen.getByRole("button", { name: "New" }));
  await user.type(screen.getByLabelText("Title"), "ab");
  await user.click(screen.getByRole("button", { name: "Create Plan" }));

  expect(await screen.findByText("Title must be at least 3 characters")).toBeVisible();
});

test("failed save keeps the input; reopening clears it", async () => {
  const refusal = { code: "42501", message: "permission denied for table plans", details: null, hint: null };
  vi.stubGlobal("fetch", async () => Response.json(refusal, { status: 403 }));
  const { user } = renderPage(<Harness />);
  await user.click(screen.getByRole("button", { name: "New" }));
  await user.type(screen.getByLabelText("Title"), "Outreach");
  await user.click(screen.getByRole("button", { name: "Create Plan" }));

  expect(await screen.findByText("Error creating plan")).toBeInTheDocument();
  expect(screen.getByText("permission denied for table plans")).toBeInTheDocument();
  expect(screen.getByLabelText("Title")).toHaveValue("Outreach");

  await user.click(screen.getByRole("button", { name: "Cancel" }));
  await user.click(await screen.findByRole("button", { name: "Discard" }));
  expect(screen.getByRole("button", { name: "New" })).toHaveFocus();
  await user.click(screen.getByRole("button", { name: "New" }));
  expect(screen.getByLabelText("Title")).toHaveValue("");
});

test("Escape asks before discarding input", async () => {
  const { user } = renderPage(<Harness />);
  await user.click(screen.getByRole("button", { name: "New" }));
  await user.type(screen.getByLabelText("Title"), "Outreach");
  await user.keyboard("{Escape}");
  const question = await screen.findByRole("alertdialog", { name: "Discard what you typed?" });
  await user.click(within(question).getByRole("button", { name: "Keep editing" }));
  expect(screen.getByLabelText("Title")).toHaveValue("Outreach");

  await user.keyboard("{Escape}");
  await user.click(await screen.findByRole("button", { name: "Discard" }));
  expect(screen.queryByRole("dialog")).not.toBeInTheDocument();
});

test("Escape closes an empty dialog at once", async () => {
  const { user } = renderPage(<Harness />);
  await user.click(screen.getByRole("button", { name: "New" }));
  await user.keyboard("{Escape}");
  expect(screen.queryByRole("dialog")).not.toBeInTheDocument();
});
