import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import { basalt } from "@/lib/basalt";
import type { Database } from "@/lib/database.types";

type Listed = Database["public"]["Functions"]["admin_list_audit_log"]["Returns"][number];
/** The generator takes every column of a function for filled. */
export type LogLine = Omit<Listed, "actor_id" | "actor_email" | "actor_name" | "subject_id"> & {
  actor_id: string | null;
  actor_email: string | null;
  actor_name: string | null;
  subject_id: string | null;
};

const pageSize = 50;

/** Lines, the newest first, in pages that the database makes. */
export const auditLogQuery = (search: string) =>
  infiniteQueryOptions({
    queryKey: ["audit-log", search] as const,
    queryFn: async ({ signal, pageParam }) => {
      const { data } = await basalt
        .rpc("admin_list_audit_log", {
          ...(search !== "" && { search_text: search }),
          page_size: pageSize,
          page_offset: pageParam,
        })
        .abortSignal(signal)
        .throwOnError();
      return data as LogLine[];
    },
    initialPageParam: 0,
    getNextPageParam: (last, _pages, offset) => (last.length === pageSize ? offset + pageSize : null),
    select: ({ pages }) => ({
      // A line written between two pages moves the last of the first into the second.
      lines: [...new Map(pages.flat().map((line) => [line.id, line])).values()],
      total: pages.at(-1)?.[0]?.total ?? pages[0]?.[0]?.total ?? 0,
    }),
    placeholderData: keepPreviousData,
    // The page shows what just happened, also when it was open before.
    staleTime: 0,
  });
