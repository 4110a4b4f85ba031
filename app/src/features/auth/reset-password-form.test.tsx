import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { renderElement } from "@/test/render";
import { ResetPasswordForm } from "./reset-password-form";

function show() {
  const onDone = vi.fn();
  return { ...renderElement(<ResetPasswordForm userId={null} onDone={onDone} />), onDone };
}

test("requires the same password twice", async () => {
  const { user, onDone } = show();
  await user.type(screen.getByLabelText("New Password"), "correct horse");
  await user.type(screen.getByLabelText("Confirm Password"), "correct house{Enter}");
  expect(await screen.findByText("Passwords do not match")).toBeVisible();
  expect(screen.getByLabelText("Confirm Password")).toBeInvalid();
  expect(onDone).not.toHaveBeenCalled();
});

test("link without a session shows the reason", async () => {
  const { user, onDone } = show();
  await user.type(screen.getByLabelText("New Password"), "correct horse");
  await user.type(screen.getByLabelText("Confirm Password"), "correct horse{Enter}");
  expect(await screen.findByRole("alert")).toHaveTextContent("Auth session missing!");
  expect(screen.getByLabelText("New Password")).toHaveFocus();
  expect(onDone).not.toHaveBeenCalled();
});
