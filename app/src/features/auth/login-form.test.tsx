import { screen } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";
import { renderRoutes } from "@/test/render";
import { LoginForm } from "./login-form";
import { keepTypedEmail } from "./typed-email";

beforeEach(() => keepTypedEmail(""));

const show = () => renderRoutes([{ path: "/", Component: LoginForm }]);

test("invalid fields show errors and send no request", async () => {
  const { user } = show();
  await user.type(screen.getByLabelText("Email"), "nobody");
  await user.click(screen.getByRole("button", { name: "Log In" }));

  expect(await screen.findByText("Password must be at least 6 characters")).toBeVisible();
  expect(screen.getByLabelText("Email")).toHaveAccessibleDescription("Please enter a valid email address");
  expect(screen.getByLabelText("Email")).toBeInvalid();
  expect(screen.getByLabelText("Email")).toHaveFocus();
});

test("unreachable server keeps the form and shows an error", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
  const { user } = show();
  await user.type(screen.getByLabelText("Email"), "maria@river.org");
  await user.type(screen.getByLabelText("Password"), "secret");
  await user.click(screen.getByRole("button", { name: "Log In" }));

  expect(await screen.findByRole("alert")).toHaveTextContent(
    "The server could not be reached. Check your connection and try again.",
  );
  expect(screen.getByLabelText("Email")).toHaveValue("maria@river.org");
  expect(screen.getByRole("button", { name: "Log In" })).toBeEnabled();
});

test("cannot be submitted twice", async () => {
  vi.stubGlobal("fetch", () => new Promise(() => {}));
  const { user } = show();
  await user.type(screen.getByLabelText("Email"), "maria@river.org");
  await user.type(screen.getByLabelText("Password"), "secret{Enter}");

  expect(await screen.findByRole("button", { name: "Logging in..." })).toBeDisabled();
  expect(screen.getByLabelText("Email")).toBeDisabled();
});
