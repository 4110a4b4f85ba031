import {
  createClient,
  type Session,
  type SupabaseClient,
  type SupabaseClientOptions,
  type User,
} from "@supabase/supabase-js";
import { anonKey, confirming, serviceKey, url } from "./environment";

/** A client of its own: sessions are kept in memory, never shared, never refreshed behind a test's back. */
export function client(key: string): SupabaseClient {
  return createClient(url, key, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
  });
}

/** A visitor who has not signed in. */
export function visitor(): SupabaseClient {
  return client(anonKey);
}

/** The service role: bypasses policies. For fixtures, and to look behind the curtain. */
export function service(): SupabaseClient {
  return client(serviceKey);
}

type AuthOptions = NonNullable<SupabaseClientOptions<"public">["auth"]>;

/** A visitor of the server that wants addresses confirmed. Nothing refreshes behind a test's back. */
export function confirmingVisitor(auth: AuthOptions = {}): SupabaseClient {
  return createClient(confirming.url, confirming.anonKey, {
    auth: { autoRefreshToken: false, detectSessionInUrl: false, storage: memory(), ...auth },
  });
}

/** The service role there. */
export function confirmingService(): SupabaseClient {
  return createClient(confirming.url, confirming.serviceKey, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
  });
}

/** What a tab keeps its session in. Two clients with one of these are two tabs of one browser. */
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

/** Signs a new person up, with a name of their own. */
export async function person(data: Record<string, unknown> = {}): Promise<Person> {
  const basalt = visitor();
  const email = `${unique("person")}@example.org`;
  const password = "correct horse battery staple";
  const { data: answer, error } = await basalt.auth.signUp({ email, password, options: { data } });
  if (error || !answer.session || !answer.user) {
    throw new Error(`sign-up gave no session: ${error?.message ?? "confirmation is required"}`);
  }
  return { client: basalt, user: answer.user, session: answer.session, email, password };
}

/** A name no other test uses. */
export function unique(prefix: string): string {
  return `${prefix}-${crypto.randomUUID()}`;
}
