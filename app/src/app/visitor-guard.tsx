import { useState } from "react";
import { Navigate, Outlet, useLocation } from "react-router";
import { lazyPart } from "@/components/lazy-part";
import { LoadingState } from "@/components/page-state";
import { useAuth } from "@/features/auth/auth-context";
import { pendingPriceId } from "@/features/billing/pending-plan";

const CodeScreen = lazyPart(
  () => import("@/features/auth/code-screen").then(({ CodeScreen }) => CodeScreen),
  <LoadingState label="Loading..." />,
);

const PendingCheckout = lazyPart(
  () => import("./pending-checkout").then(({ PendingCheckout }) => PendingCheckout),
  <LoadingState label="Setting up your subscription" />,
);

/** For screens that make no sense once signed in. */
export function RequireVisitor() {
  const { loading, user, codeUser } = useAuth();
  const { state } = useLocation();
  // As it was before the checkout took it up.
  const [pendingAtStart] = useState(() => pendingPriceId() !== null);
  if (loading) return <LoadingState label="Checking your session..." />;
  if (codeUser) return <CodeScreen user={codeUser} />;
  if (user && pendingAtStart) return <PendingCheckout />;
  if (user) return <Navigate to={returnPath(state)} replace />;
  return <Outlet />;
}

/** A path within this app, whatever the history's state holds. */
export function returnPath(state: unknown) {
  const path = state && typeof state === "object" && "returnTo" in state ? state.returnTo : null;
  return typeof path === "string" && /^\/(?![/\\])/.test(path) ? path : "/dashboard";
}
