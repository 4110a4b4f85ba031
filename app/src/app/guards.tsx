import type { User } from "@supabase/supabase-js";
import { useState } from "react";
import { Navigate, Outlet, useLocation, useOutletContext } from "react-router";
import { lazyExtra } from "@/components/lazy-part";
import { LoadingState } from "@/components/page-state";
import { useAuth } from "@/features/auth/auth-context";

const SessionEndedDialog = lazyExtra(() =>
  import("@/features/auth/session-ended-dialog").then(({ SessionEndedDialog }) => SessionEndedDialog),
);

// Fetched when the person first uses the page, because the page can be shown without it.
const used = new Promise((resolve) => {
  for (const sign of ["pointermove", "keydown"]) window.addEventListener(sign, resolve, { once: true });
});
const Finder = lazyExtra(async () => {
  await used;
  return (await import("./finder")).Finder;
});

/** Lets signed-in people through; sends others to /login, from where they come back. A courtesy: policies decide. */
export function RequireUser() {
  const { loading, user, codeUser, lapsedUser, cameTooLate } = useAuth();
  const { pathname, search, hash } = useLocation();
  const [entered, setEntered] = useState(false);
  const person = user ?? lapsedUser;
  if (person && !entered) setEntered(true);
  if (loading) return <LoadingState label="Checking your session..." />;
  if (!person) {
    // The user who was here has signed out on purpose. The next user of this browser starts at their own dashboard.
    const state = entered ? null : { returnTo: pathname + search + hash, sessionEnded: cameTooLate };
    return <Navigate to="/login" replace state={state} />;
  }
  return (
    <>
      <Outlet context={person} />
      <Finder />
      {lapsedUser && <SessionEndedDialog user={lapsedUser} codeUser={codeUser} />}
    </>
  );
}

/** The person, inside `RequireUser`. */
export function useUser() {
  return useOutletContext<User>();
}
