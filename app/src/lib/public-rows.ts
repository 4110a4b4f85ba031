import { PostgrestClient } from "@supabase/postgrest-js";
import { loadAppConfig } from "@/lib/app-config";
import type { Database } from "@/lib/database.types";

const timeoutMs = 15_000;

/**
 * The client's own query builder, for rows that everyone may read. The whole client would put the landing page over its
 * budget (decision 0067).
 */
export async function publicRows() {
  const { anonKey } = await loadAppConfig();
  return new PostgrestClient<Database>(`${window.location.origin}/rest/v1`, {
    headers: { apikey: anonKey },
    // TanStack Query repeats what failed, and shows that it does.
    retry: false,
    timeout: timeoutMs,
  });
}
