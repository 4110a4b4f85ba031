import {
  createClient,
  type Session,
  type SupabaseClient,
  type SupabaseClientOptions,
  type User,
} from "@supabase/supabase-js";
import { anonKey, confirming, serviceKey, url } from "./environment";

/** An independent client: its session stays in memory and is never refreshed automatically. */
export function client(key: string): SupabaseClient {
  return createClient(url, key, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
  });
}

/** A visitor who has not signed in. */
export function visitor(): SupabaseClient {
  return client(anonKey);
}

/** The service role: bypasses policies. For fixtures and for assertions on rows that policies hide. */
export function service(): SupabaseClient {
  return client(serviceKey);
}

type AuthOptions = NonNullable<SupabaseClientOptions<"public">["auth"]>;

/** A signed-out client of the server that requires confirmed addresses, without automatic refresh. */
export function confirmingVisitor(auth: AuthOptions = {}): SupabaseClient {
  return createClient(confirming.url, confirming.anonKey, {
    auth: { autoRefreshToken: false, detectSessionInUrl: false, storage: memory(), ...auth },
  });
}

/** The service role on that server. */
export function confirmingService(): SupabaseClient {
  return createClient(confirming.url, confirming.serviceKey, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
  });
}

/** A browser's session storage; two clients that share it are two tabs of one browser. */
export function memory() {
  const kept = new Map<string, string>();
  return {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
    removeItem: (name: string) => void kept.delete(name),
  };
}

export interface Person {
  client: SupabaseClient;
  user: User;
  session: Session;
  email: string;
  password: string;
}

/** Signs up a new user with a unique name. */
export async function person(data: Record<string, unknown> = {}): Promise<Person> {
  const basalt = visitor();
  const email = `${unique("person")}@example.org`;
  const password = "correct horse battery staple";
  const { data: response, error } = await basalt.auth.signUp({ email, password, options: { data } });
  if (error || !response.session || !response.user) {
    throw new Error(`sign-up gave no session: ${error?.message ?? "confirmation is required"}`);
  }
  return { client: basalt, user: response.user, session: response.session, email, password };
}

/** A unique name. */
export function unique(prefix: string): string {
  return `${prefix}-${crypto.randomUUID()}`;
}
