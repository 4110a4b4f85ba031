import { screen } from "@testing-library/react";
import { createMemoryRouter } from "react-router";
import { RouterProvider } from "react-router/dom";
import { beforeEach, expect, test, vi } from "vitest";
import { invitedState } from "@/lib/invited";
import { renderElement } from "@/test/render";
import { LoginForm } from "./login-form";
import { SignUpForm } from "./sign-up-form";
import { keepTypedEmail } from "./typed-email";

beforeEach(() => keepTypedEmail(""));

const proof = "5eed0000-0000-4000-8000-000000000001";
const invited = (token: string | null) =>
  invitedState({
    planTitle: "Warm meals",
    inviter: "Maria",
    email: "ana@river.org",
    proof: token,
    path: "/invite?token=1",
  });

/** Signs up where addresses have to be confirmed. */
async function signUp(state: unknown) {
  const server = vi.fn(async (input: string | URL | Request, _init?: RequestInit) => {
    const path = new URL(input instanceof Request ? input.url : input).pathname;
    if (path.endsWith("/signup")) return Response.json({ id: "1", email: "ana@river.org" });
    return Response.json({ code: 400, error_code: "email_not_confirmed", msg: "Email not confirmed" }, { status: 400 });
  });
  vi.stubGlobal("fetch", server);
  const router = createMemoryRouter(
    [
      { path: "/register", Component: SignUpForm },
      { path: "/login", Component: LoginForm },
    ],
    { initialEntries: [{ pathname: "/register", state }] },
  );
  const { user } = renderElement(<RouterProvider router={router} />);
  await user.type(screen.getByLabelText("Organization Name"), "River");
  if (!state) await user.type(screen.getByLabelText("Email"), "ana@river.org");
  await user.type(screen.getByLabelText("Password"), "secret1");
  await user.click(screen.getByRole("checkbox"));
  await user.click(screen.getByRole("button", { name: "Sign Up" }));
  const [url, request] = server.mock.calls[0] ?? [];
  return {
    sent: JSON.parse(String(request?.body)) as { email: string; data: Record<string, unknown> },
    redirect: new URL(String(url)).searchParams.get("redirect_to"),
  };
}

test("invited person signs up with the invited address and the proof of the mail", async () => {
  const { sent, redirect } = await signUp(invited(proof));
  expect(sent.email).toBe("ana@river.org");
  expect(sent.data).toEqual({ organization_name: "River", invitation_token: proof });
  expect(redirect).toBe(`${window.location.origin}/invite?token=1`);
});

test("copied link sends no proof", async () => {
  const { sent } = await signUp(invited(null));
  expect(sent.data).toEqual({ organization_name: "River" });
});

test("confirmation states its purpose and can be sent again", async () => {
  const { redirect } = await signUp(null);
  expect(redirect).toBe(`${window.location.origin}/dashboard`);
  expect(await screen.findByText("Check your email")).toBeVisible();
  expect(
    screen.getByText(/We sent a link to ana@river\.org\. It confirms that the address is yours, and logs you in\./),
  ).toBeVisible();
  expect(screen.getByRole("button", { name: "Send again in 30 s" })).toBeDisabled();
});
