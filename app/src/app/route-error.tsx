import { useEffect } from "react";
import { useRouteError } from "react-router";
import { ErrorState } from "@/components/page-state";
import { messageOf } from "@/lib/errors";

/** What shows when a screen breaks, or when its code cannot be loaded. */
export function RouteError() {
  const error = useRouteError();
  useEffect(() => console.error(error), [error]);
  return (
    <ErrorState
      heading="h1"
      title="This page could not be shown"
      description={messageOf(error)}
      // After a new release the old code files are gone; a reload fetches the new ones.
      onRetry={() => window.location.reload()}
    />
  );
}
