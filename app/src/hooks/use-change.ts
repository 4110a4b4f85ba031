import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";

interface ChangeOptions<Variables, Result> {
  change: (variables: Variables) => Promise<Result>;
  /** Title of the toast when it worked, or raises it; unset where the screen itself shows the result. */
  done?: string | ((result: Result, variables: Variables) => void);
  /** Title of the toast when it failed. */
  failed: string;
  /** Failures that need no toast: the person stopped it. */
  isQuiet?: (error: Error) => boolean;
  /** Every query whose key begins with one of these is fetched again. */
  refetches: QueryKey[];
}

/** A mutation as this app has them: it is pending until the lists show what it did, then says so. */
export function useChange<Variables, Result>({
  change,
  done,
  failed,
  isQuiet,
  refetches,
}: ChangeOptions<Variables, Result>) {
  const queryClient = useQueryClient();
  const refetch = () => Promise.all(refetches.map((queryKey) => queryClient.invalidateQueries({ queryKey })));
  return useMutation({
    mutationFn: change,
    onSuccess: async (result, variables) => {
      await refetch();
      if (typeof done === "function") done(result, variables);
      else if (done) toast.success(done);
    },
    onError: (error) => {
      if (isQuiet?.(error)) return;
      toast.error(failed, { description: messageOf(error) });
      // What it was refused for may show in the list: a row that is gone, a right that was taken away.
      void refetch();
    },
  });
}
