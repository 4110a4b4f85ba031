import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { Navigate, Outlet } from "react-router";
import { LoadingState } from "@/components/page-state";
import { adminQuery } from "@/features/auth/subscription";
import { codeOf } from "@/lib/errors";
import { StaleRowError } from "@/lib/stale-row";
import { toast } from "@/lib/toast";
import { useUser } from "./guards";

/**
 * Lets administrators through, inside `RequireUser`; sends others to their dashboard. The role may be taken away while
 * they look: asked again every half minute, on returning to the tab, and when the server refuses something.
 */
export function RequireAdmin() {
  const user = useUser();
  const queryClient = useQueryClient();
  const admin = useQuery({ ...adminQuery(user.id), refetchInterval: 30_000, refetchOnWindowFocus: "always" });
  const wasAdmin = useRef(false);

  useEffect(() => {
    if (admin.data) wasAdmin.current = true;
    else if (admin.data === false && wasAdmin.current) {
      wasAdmin.current = false;
      toast.error("You are no longer an administrator", { description: "Another administrator took the role away." });
    }
  }, [admin.data]);

  useEffect(() => {
    const askAgain = (error: unknown) => {
      const refused = error instanceof StaleRowError || codeOf(error) === "42501" || codeOf(error) === "403";
      if (refused) void queryClient.invalidateQueries({ queryKey: adminQuery(user.id).queryKey });
    };
    const unsubscribeQueries = queryClient.getQueryCache().subscribe((event) => {
      if (event.type === "updated" && event.action.type === "error") askAgain(event.action.error);
    });
    const unsubscribeMutations = queryClient.getMutationCache().subscribe((event) => {
      if (event.type === "updated" && event.action.type === "error") askAgain(event.action.error);
    });
    return () => {
      unsubscribeQueries();
      unsubscribeMutations();
    };
  }, [queryClient, user.id]);

  if (admin.isPending) return <LoadingState label="Checking your rights..." />;
  // A failed check means no administrator, unless it succeeded before: a moment offline must not cost typed text.
  if (!admin.data) return <Navigate to="/dashboard" replace />;
  return <Outlet context={user} />;
}
