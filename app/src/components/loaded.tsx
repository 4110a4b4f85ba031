import type { ReactNode } from "react";
import { ErrorState } from "@/components/page-state";
import { Skeleton } from "@/components/ui/skeleton";
import { messageOf } from "@/lib/errors";

interface LoadedProps<Data> {
  query: { data: Data | undefined; error: unknown; isPending: boolean; isFetching: boolean; refetch: () => unknown };
  /** What is on its way, for those who cannot see its place being held. */
  loading: string;
  /** What it says when it does not come. */
  failed: string;
  children: (data: Data) => ReactNode;
}

/** A form over what a query gives, once it has. */
export function Loaded<Data>({ query, loading, failed, children }: LoadedProps<Data>) {
  if (query.isPending) {
    return (
      <div role="status" className="grid gap-4">
        <span className="sr-only">{loading}</span>
        <Skeleton className="h-10" />
        <Skeleton className="h-10" />
        <Skeleton className="h-32" />
      </div>
    );
  }
  if (query.data === undefined) {
    return (
      <ErrorState
        size="small"
        heading="h3"
        title={failed}
        description={messageOf(query.error)}
        retrying={query.isFetching}
        onRetry={() => void query.refetch()}
      />
    );
  }
  return children(query.data);
}
