import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { DropdownMenu, DropdownMenuContent, DropdownMenuItem, MoreButton } from "./dropdown-menu";

function show() {
  const remove = vi.fn();
  const { user } = renderPage(
    <DropdownMenu>
      <MoreButton label="Actions" />
      <DropdownMenuContent>
        <DropdownMenuItem disabled>Rename</DropdownMenuItem>
        <DropdownMenuItem>Edit</DropdownMenuItem>
        <DropdownMenuItem onSelect={remove}>Delete</DropdownMenuItem>
      </DropdownMenuContent>
    </DropdownMenu>,
  );
  return { user, remove, trigger: screen.getByRole("button", { name: "Actions" }) };
}

test.each(["{Enter}", " ", "{ArrowDown}"])(
  "%j opens it on its first item, also before it has been fetched",
  async (key) => {
    const { user, trigger } = show();
    expect(trigger).toHaveAttribute("aria-expanded", "false");
    trigger.focus();
    await user.keyboard(key);
    await vi.waitFor(() => expect(screen.getByRole("menuitem", { name: "Edit" })).toHaveFocus());
    expect(trigger).toHaveAttribute("aria-expanded", "true");
    expect(screen.getByRole("menu")).toHaveAccessibleName("Actions");
    await user.keyboard("{Escape}");
    expect(screen.queryByRole("menu")).not.toBeInTheDocument();
    expect(trigger).toHaveFocus();
  },
);

test("arrows and letters focus an item, Enter selects it", async () => {
  const { user, remove, trigger } = show();
  trigger.focus();
  await user.keyboard("{Enter}");
  await vi.waitFor(() => expect(screen.getByRole("menuitem", { name: "Edit" })).toHaveFocus());
  await user.keyboard("{ArrowDown}");
  expect(screen.getByRole("menuitem", { name: "Delete" })).toHaveFocus();
  await user.keyboard("e");
  await vi.waitFor(() => expect(screen.getByRole("menuitem", { name: "Edit" })).toHaveFocus());
  await user.keyboard("{ArrowDown}{Enter}");
  expect(remove).toHaveBeenCalledOnce();
  expect(trigger).toHaveFocus();
});

test("second click closes the menu", async () => {
  const { user, trigger } = show();
  await user.click(trigger);
  await screen.findByRole("menu");
  await user.click(trigger);
  expect(screen.queryByRole("menu")).not.toBeInTheDocument();
});
