import { render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { Dialog, DialogContent } from "@/components/ui/dialog";
import { DialogBody } from "@/components/ui/dialog-panel";

vi.mock("@/components/unsaved-guard", () => ({ UnsavedGuard: () => null }));

function Screen({ open, menu }: { open: boolean; menu: boolean }) {
  return (
    <>
      <h1 tabIndex={-1}>Plans</h1>
      <button type="button">Actions</button>
      {menu && (
        <div role="menu">
          <button type="button" role="menuitem">
            Edit plan
          </button>
        </div>
      )}
      <Dialog open={open} onOpenChange={() => undefined}>
        <DialogContent title="Edit Plan" description="Its name">
          <DialogBody>
            <input aria-label="Title" />
          </DialogBody>
        </DialogContent>
      </Dialog>
    </>
  );
}

test.each([
  ["still holds the focus", () => undefined],
  ["has let go of it and not yet given it back", () => (document.activeElement as HTMLElement).blur()],
])("a dialog that a menu's item opened gives the focus to the menu's button, when the menu %s", async (_, then) => {
  const { rerender } = render(<Screen open={false} menu />);
  screen.getByRole("button", { name: "Actions" }).focus();
  screen.getByRole("menuitem").focus();
  then();
  rerender(<Screen open menu />);
  rerender(<Screen open menu={false} />);
  rerender(<Screen open={false} menu={false} />);
  await vi.waitFor(() => expect(screen.getByRole("button", { name: "Actions" })).toHaveFocus());
});

test("a dialog that closes leaves the focus where it has moved meanwhile", async () => {
  const { rerender } = render(<Screen open={false} menu={false} />);
  const other = document.body.appendChild(document.createElement("button"));
  screen.getByRole("button", { name: "Actions" }).focus();
  rerender(<Screen open menu={false} />);
  await vi.waitFor(() => expect(screen.getByLabelText("Title")).toHaveFocus());
  rerender(<Screen open={false} menu={false} />);
  other.focus();
  // After Radix' own timer, which it set when the dialog went.
  await new Promise((resolve) => setTimeout(resolve, 0));
  expect(other).toHaveFocus();
  other.remove();
});
