import { SubmitButton } from "@/components/submit-button";

interface LoadMoreProps {
  query: { hasNextPage: boolean; isFetching: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown };
}

/** Below a list that comes in pages. */
export function LoadMore({ query }: LoadMoreProps) {
  if (!query.hasNextPage) return null;
  return (
    <div className="grid place-items-center border-t p-3">
      <SubmitButton
        type="button"
        variant="secondary"
        size="small"
        busy={query.isFetchingNextPage}
        busyLabel="Loading..."
        disabled={query.isFetching}
        onClick={() => void query.fetchNextPage()}
      >
        Load more
      </SubmitButton>
    </div>
  );
}
