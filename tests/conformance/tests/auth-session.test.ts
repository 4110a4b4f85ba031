import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { afterEach, describe, expect, test, vi } from "vitest";
import { memory, person } from "../support/clients";
import { anonKey, url } from "../support/environment";

type Options = { storage?: ReturnType<typeof memory>; autoRefreshToken?: boolean };

/** A tab, with session storage that another tab may share. */
function tab({ storage = memory(), autoRefreshToken = false }: Options = {}): SupabaseClient {
  return createClient(url, anonKey, { auth: { storage, autoRefreshToken, detectSessionInUrl: false } });
}

function eventsOf(client: SupabaseClient) {
  const events: string[] = [];
  client.auth.onAuthStateChange((event) => void events.push(event));
  return events;
}

afterEach(() => void vi.useRealTimers());

describe("events", () => {
  test("events of a session in order", async () => {
    const { email, password } = await person();
    const client = tab();
    const events = eventsOf(client);
    await client.auth.getSession();
    await client.auth.signInWithPassword({ email, password });
    await client.auth.refreshSession();
    await client.auth.updateUser({ data: { seen: true } });
    await client.auth.signOut();
    await vi.waitFor(() =>
      expect(events).toEqual(["INITIAL_SESSION", "SIGNED_IN", "TOKEN_REFRESHED", "USER_UPDATED", "SIGNED_OUT"]),
    );
  });

  test("stored session is restored at the next start", async () => {
    const { email, password } = await person();
    const storage = memory();
    await tab({ storage }).auth.signInWithPassword({ email, password });
    const { data } = await tab({ storage }).auth.getSession();
    expect(data.session?.user.email).toBe(email);
  });
});

describe("automatic refresh", () => {
  test("timer refreshes before expiry", async () => {
    const { email, password } = await person();
    vi.useFakeTimers({ toFake: ["Date", "setInterval", "clearInterval"] });
    const client = tab({ autoRefreshToken: true });
    const events = eventsOf(client);
    const { data } = await client.auth.signInWithPassword({ email, password });
    await client.auth.startAutoRefresh();
    await vi.advanceTimersByTimeAsync(3_300_000);
    expect(events).not.toContain("TOKEN_REFRESHED");
    await vi.advanceTimersByTimeAsync(240_000);
    await expect.poll(() => events, { timeout: 5_000 }).toContain("TOKEN_REFRESHED");
    await client.auth.stopAutoRefresh();
    const { data: after } = await client.auth.getSession();
    expect(after.session?.access_token).not.toBe(data.session?.access_token);
    expect((await client.auth.getUser()).error).toBeNull();
  });

  test("getSession refreshes shortly before expiry", async () => {
    const { email, password } = await person();
    vi.useFakeTimers({ toFake: ["Date"] });
    const client = tab();
    const { data } = await client.auth.signInWithPassword({ email, password });
    vi.setSystemTime(Date.now() + 3_520_000);
    const { data: after } = await client.auth.getSession();
    expect(after.session?.access_token).not.toBe(data.session?.access_token);
  });
});

describe("two tabs of one browser", () => {
  test("concurrent refreshes keep both signed in", async () => {
    const { email, password } = await person();
    const storage = memory();
    const tabs = [tab({ storage }), tab({ storage })];
    await tabs[0]?.auth.signInWithPassword({ email, password });
    for (let round = 0; round < 5; round += 1) {
      const responses = await Promise.all(tabs.map((one) => one.auth.refreshSession()));
      for (const { error } of responses)
        expect(error === null || error.name === "AuthRefreshDiscardedError").toBe(true);
      expect(responses.some(({ error }) => error === null)).toBe(true);
    }
    for (const one of tabs) expect((await one.auth.getUser()).error).toBeNull();
  });

  test("64 refreshes of one token keep the session", async () => {
    const { session } = await person();
    const { refresh_token } = session;
    const clients = Array.from({ length: 64 }, () => tab());
    const responses = await Promise.all(clients.map((one) => one.auth.refreshSession({ refresh_token })));
    for (const { data, error } of responses) {
      expect(error).toBeNull();
      expect(data.session?.refresh_token).toBeTruthy();
    }
    for (const one of clients) expect((await one.auth.getUser()).error).toBeNull();
  });
});

describe("ended session", () => {
  test("failed refresh signs out once the token expires", async () => {
    const { email, password } = await person();
    const client = tab();
    const elsewhere = tab();
    await client.auth.signInWithPassword({ email, password });
    await elsewhere.auth.signInWithPassword({ email, password });
    const events = eventsOf(client);
    await elsewhere.auth.signOut({ scope: "global" });
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 3_700_000);
    const { data } = await client.auth.getSession();
    expect(data.session).toBeNull();
    expect(events).toContain("SIGNED_OUT");
  });

  test("getUserIdentities returns the identities", async () => {
    const { client, email } = await person();
    const { data, error } = await client.auth.getUserIdentities();
    expect(error).toBeNull();
    expect(data?.identities).toMatchObject([{ provider: "email", identity_data: { email } }]);
  });
});
