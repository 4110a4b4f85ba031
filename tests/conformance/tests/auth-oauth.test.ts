import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { memory } from "../support/clients";
import { Browser, OidcProvider } from "../support/oidc";
import { Server } from "../support/server";

let provider: OidcProvider;
let server: Server;

beforeAll(async () => {
  provider = await OidcProvider.reserve();
  server = await Server.start({
    BASALT_AUTH_EXTERNAL_GOOGLE_ENABLED: "true",
    BASALT_AUTH_EXTERNAL_GOOGLE_CLIENT_ID: "app",
    BASALT_AUTH_EXTERNAL_GOOGLE_SECRET: "secret",
    BASALT_AUTH_EXTERNAL_GOOGLE_URL: provider.url,
    BASALT_AUTH_SECURITY_MANUAL_LINKING_ENABLED: "true",
  });
  await provider.serve(`http://localhost:${server.port}/auth/v1/callback`);
});

afterAll(async () => {
  await provider.stop();
  await server.stop();
});

function client(flowType: "pkce" | "implicit"): SupabaseClient {
  return createClient(server.url, server.anonKey, {
    auth: { flowType, storage: memory(), autoRefreshToken: false, detectSessionInUrl: false },
  });
}

const done = () => `${server.url}/done`;

async function start(supabase: SupabaseClient): Promise<string> {
  const { data, error } = await supabase.auth.signInWithOAuth({
    provider: "google",
    options: { redirectTo: done(), skipBrowserRedirect: true },
  });
  if (error || !data.url) throw error;
  return data.url;
}

test("signInWithOAuth: PKCE with a real OpenID Connect provider", async () => {
  const supabase = client("pkce");
  const arrived = await new Browser().signIn(await start(supabase), "ada", done());
  const { data, error } = await supabase.auth.exchangeCodeForSession(arrived.searchParams.get("code") ?? "");
  expect(error).toBeNull();
  expect(data.user).toMatchObject({
    email: "ada@example.org",
    app_metadata: { provider: "google", providers: ["google"] },
    user_metadata: { full_name: "ada", email_verified: true },
  });
  expect(data.session?.provider_token).toBeTruthy();
  expect((await supabase.auth.getUser()).data.user?.identities).toMatchObject([{ provider: "google", id: "ada" }]);
});

test("signInWithOAuth: implicit, and the same account again", async () => {
  const supabase = client("implicit");
  const ids: (string | undefined)[] = [];
  for (let time = 0; time < 2; time++) {
    const arrived = await new Browser().signIn(await start(supabase), "eve", done());
    const fragment = new URLSearchParams(arrived.hash.slice(1));
    const { data, error } = await supabase.auth.setSession({
      access_token: fragment.get("access_token") ?? "",
      refresh_token: fragment.get("refresh_token") ?? "",
    });
    expect(error).toBeNull();
    ids.push(data.user?.id);
  }
  expect(ids[0]).toBe(ids[1]);
});

test("linkIdentity and unlinkIdentity", async () => {
  const supabase = client("pkce");
  const email = "kim@example.net";
  expect((await supabase.auth.signUp({ email, password: "correct horse 7" })).error).toBeNull();
  const { data } = await supabase.auth.linkIdentity({
    provider: "google",
    options: { redirectTo: done(), skipBrowserRedirect: true },
  });
  const arrived = await new Browser().signIn(data?.url ?? "", "kim", done());
  expect((await supabase.auth.exchangeCodeForSession(arrived.searchParams.get("code") ?? "")).error).toBeNull();
  const linked = await supabase.auth.getUserIdentities();
  expect(linked.data?.identities.map((identity) => identity.provider).sort()).toEqual(["email", "google"]);
  const google = linked.data?.identities.find((identity) => identity.provider === "google");
  if (!google) throw new Error("no identity");
  expect((await supabase.auth.unlinkIdentity(google)).error).toBeNull();
  const left = await supabase.auth.getUserIdentities();
  expect(left.data?.identities.map((identity) => identity.provider)).toEqual(["email"]);
});
