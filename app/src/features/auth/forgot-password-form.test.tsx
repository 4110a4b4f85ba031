import { screen } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";
import { renderElement } from "@/test/render";
import { ForgotPasswordForm } from "./forgot-password-form";
import { keepTypedEmail } from "./typed-email";

beforeEach(() => keepTypedEmail(""));

function show(answer: () => Promise<Response>) {
  const server = vi.fn(answer);
  vi.stubGlobal("fetch", server);
  const onSent = vi.fn();
  return { ...renderElement(<ForgotPasswordForm onSent={onSent} />), onSent, server };
}

test("requests a mail with the reset redirect", async () => {
  const { user, onSent, server } = show(async () => Response.json({}));
  await user.type(screen.getByLabelText("Email"), "maria@river.org{Enter}");

  await vi.waitFor(() => expect(onSent).toHaveBeenCalledExactlyOnceWith("maria@river.org"));
  const [[url, request]] = server.mock.calls as unknown as [[string, RequestInit]];
  expect(new URL(url).pathname).toBe("/auth/v1/recover");
  expect(new URL(url).searchParams.get("redirect_to")).toBe(`${window.location.origin}/reset-password`);
  expect(JSON.parse(String(request.body))).toMatchObject({ email: "maria@river.org" });
});

test("invalid address sends no request", async () => {
  const { user, onSent, server } = show(async () => Response.json({}));
  await user.type(screen.getByLabelText("Email"), "maria{Enter}");
  expect(await screen.findByText("Please enter a valid email address")).toBeVisible();
  expect(server).not.toHaveBeenCalled();
  expect(onSent).not.toHaveBeenCalled();
});

test("failure keeps the form for a retry", async () => {
  const { user, onSent } = show(async () => Response.json({ message: "no mail today" }, { status: 429 }));
  await user.type(screen.getByLabelText("Email"), "maria@river.org{Enter}");
  expect(await screen.findByRole("button", { name: "Send Reset Link" })).toBeEnabled();
  expect(screen.queryByRole("alert")).not.toBeInTheDocument();
  expect(screen.getByLabelText("Email")).toHaveValue("maria@river.org");
  expect(onSent).not.toHaveBeenCalled();
});
