import type { User } from "@supabase/supabase-js";
import { act, screen } from "@testing-library/react";
import { useState } from "react";
import { Outlet } from "react-router";
import { expect, test, vi } from "vitest";
import { type Auth, AuthContext, useAuth, visitor } from "@/features/auth/auth-context";
import { renderElement, renderRoutes } from "@/test/render";
import { RequireUser } from "./guards";
import { RequireVisitor, returnPath } from "./visitor-guard";

const someone = { id: "8f1f2a52-54a8-4a0f-8b9d-3f1f5ad1cf0e" } as User;

let setAuth: (auth: Auth) => void;

function Provider({ auth }: { auth: Auth }) {
  const [current, setCurrent] = useState(auth);
  setAuth = (next) => act(() => setCurrent(next));
  return (
    <AuthContext value={current}>
      <Outlet />
    </AuthContext>
  );
}

function open(path: string, auth: Auth) {
  const screens = [
    { Component: RequireUser, children: [{ path: "/dashboard", element: <h1>Plans</h1> }] },
    { Component: RequireVisitor, children: [{ path: "/login", element: <h1>Welcome back</h1> }] },
  ];
  return renderRoutes([{ element: <Provider auth={auth} />, children: screens }], path).router;
}

test("does not redirect while the session loads", () => {
  const router = open("/dashboard", { ...visitor, loading: true });
  expect(screen.getByRole("status")).toHaveTextContent("Checking your session...");
  expect(router.state.location.pathname).toBe("/dashboard");
});

test("redirects a visitor to login with a return path", () => {
  const router = open("/dashboard?tab=2", visitor);
  expect(screen.getByRole("heading", { name: "Welcome back" })).toBeVisible();
  expect(returnPath(router.state.location.state)).toBe("/dashboard?tab=2");
  expect(router.state.historyAction).toBe("REPLACE");
});

test("deliberate sign-out leaves no return path", () => {
  const router = open("/dashboard?tab=2", { ...visitor, user: someone });
  setAuth({ ...visitor, lapsedUser: someone });
  expect(screen.getByRole("heading", { name: "Plans" })).toBeVisible();
  setAuth(visitor);
  expect(router.state.location.pathname).toBe("/login");
  expect(router.state.location.state).toBeNull();
});

test("redirects a signed-in user from login", () => {
  open("/login", { ...visitor, user: someone });
  expect(screen.getByRole("heading", { name: "Plans" })).toBeVisible();
});

test.each([
  null,
  undefined,
  "/x",
  {},
  { returnTo: 1 },
  { returnTo: "https://evil.org" },
  { returnTo: "//evil.org" },
  { returnTo: "/\\evil.org" },
])("the way back never leaves the app: %j", (state) => {
  expect(returnPath(state)).toBe("/dashboard");
});

function Lost() {
  useAuth();
  return null;
}

test("missing auth context throws", () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  expect(() => renderElement(<Lost />)).toThrow("useAuth must be used within an AuthProvider");
});
