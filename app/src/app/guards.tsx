import type { User } from "@supabase/supabase-js";
import { Navigate, Outlet, useLocation, useOutletContext } from "react-router";
import { LoadingState } from "@/components/page-state";
import { useAuth } from "@/features/auth/auth-context";

/** Lets signed-in people through; sends others to /login, from where they come back. A courtesy: policies decide. */
export function RequireUser() {
  const { loading, user } = useAuth();
  const { pathname, search, hash } = useLocation();
  if (loading) return <LoadingState label="Checking your session..." />;
  if (!user) return <Navigate to="/login" replace state={{ returnTo: pathname + search + hash }} />;
  return <Outlet context={user} />;
}

/** The person, inside `RequireUser`. */
export function useUser() {
  return useOutletContext<User>();
}

/** For screens that make no sense once signed in. */
export function RequireVisitor() {
  const { loading, user } = useAuth();
  const { state } = useLocation();
  if (loading) return <LoadingState label="Checking your session..." />;
  if (user) return <Navigate to={returnPath(state)} replace />;
  return <Outlet />;
}

/** A path within this app, whatever the history's state holds. */
export function returnPath(state: unknown) {
  const path = state && typeof state === "object" && "returnTo" in state ? state.returnTo : null;
  return typeof path === "string" && /^\/(?!\/)/.test(path) ? path : "/dashboard";
}
