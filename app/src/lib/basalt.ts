import { createClient } from "@supabase/supabase-js";
import { appConfig } from "@/lib/app-config";
import type { Database } from "@/lib/database.types";
import { sessionStorageAdapter } from "@/lib/session-storage";

/**
 * The one client. It weighs a third of the landing page's budget, so what a visitor sees first does not
 * import this module; see `AuthProvider`.
 *
 * The API lies on the origin that the app came from. The server's own idea of its address may differ from
 * the one a person opened, `127.0.0.1` or a tunnel say, and would make every call a cross-origin one.
 */
export const basalt = createClient<Database>(window.location.origin, appConfig().anonKey, {
  auth: { storage: sessionStorageAdapter },
  // TanStack Query repeats what failed, and shows that it does.
  db: { retry: false },
});

type Tables = Database["public"]["Tables"];
export type Row<Table extends keyof Tables> = Tables[Table]["Row"];
