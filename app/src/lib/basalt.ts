import { createClient } from "@supabase/supabase-js";
import { loadAppConfig } from "@/lib/app-config";
import type { Database } from "@/lib/database.types";
import { sessionStorageAdapter } from "@/lib/session-storage";

// Awaited here, so that every importer has the client ready. A screen whose module cannot be loaded
// for want of it shows the reason, with a button to try again (app/route-error.tsx).
const { anonKey } = await loadAppConfig();

/**
 * The one client. It weighs a third of the landing page's budget, and needs an answer of the server first:
 * what a visitor sees at the beginning does not import this module (see `AuthProvider`).
 *
 * The API lies on the origin that the app came from. The server's own idea of its address may differ from
 * the one a person opened, `127.0.0.1` or a tunnel say, and would make every call a cross-origin one.
 */
export const basalt = createClient<Database>(window.location.origin, anonKey, {
  auth: { storage: sessionStorageAdapter, experimental: { recoveryCodes: true } },
  // TanStack Query repeats what failed, and shows that it does.
  db: { retry: false },
});

export type Tables = Database["public"]["Tables"];
export type Table = keyof Tables;
export type Row<Name extends Table> = Tables[Name]["Row"];
