import { QueryCache, QueryClient } from "@tanstack/react-query";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";

declare module "@tanstack/react-query" {
  interface Register {
    queryMeta: {
      /** Title of the toast that tells of a failed fetch. */
      errorTitle?: string;
    };
  }
}

export function createQueryClient() {
  return new QueryClient({
    queryCache: new QueryCache({
      onError: (error, { meta }) => {
        // The id: a list that is fetched again and again while the server is away tells of it once.
        if (meta?.errorTitle) toast.error(meta.errorTitle, { id: meta.errorTitle, description: messageOf(error) });
      },
    }),
    defaultOptions: {
      queries: {
        staleTime: 15_000,
        // supabase-js is told not to (lib/basalt.ts); twice three tries would hide a fault for half a minute.
        retry: 2,
        retryDelay: (attempt) => 300 * 2 ** attempt,
        // Being offline is a failure with a retry button, not a wait without an end.
        networkMode: "always",
      },
      mutations: { networkMode: "always" },
    },
  });
}
