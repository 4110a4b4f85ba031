import { createHash, randomBytes } from "node:crypto";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { memory, unique } from "../support/clients";
import { Server } from "../support/server";

const callback = "https://client.example.org/callback";
let server: Server;

beforeAll(async () => {
  server = await Server.start({
    BASALT_AUTH_OAUTH_SERVER_ENABLED: "true",
    BASALT_AUTH_OAUTH_SERVER_ALLOW_DYNAMIC_REGISTRATION: "true",
    BASALT_AUTH_SITE_URL: "https://app.example.org",
  });
});

afterAll(async () => {
  await server.stop();
});

function admin() {
  const service = createClient(server.url, server.serviceKey, { auth: { persistSession: false } });
  return service.auth.admin.oauth;
}

async function signedIn(): Promise<SupabaseClient> {
  const client = createClient(server.url, server.anonKey, { auth: { storage: memory(), autoRefreshToken: false } });
  const { error } = await client.auth.signUp({ email: `${unique("oauth")}@example.org`, password: "correct horse 7" });
  if (error) throw error;
  return client;
}

/** Sends the user's browser to the authorization endpoint, as an OAuth client does. */
async function begin(clientId: string, verifier: string): Promise<string> {
  const query = new URLSearchParams({
    client_id: clientId,
    redirect_uri: callback,
    response_type: "code",
    scope: "openid email",
    state: "xyz",
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
  });
  const response = await fetch(`${server.url}/auth/v1/oauth/authorize?${query}`, { redirect: "manual" });
  const page = new URL(response.headers.get("location") ?? "");
  expect(page.origin + page.pathname).toBe("https://app.example.org/oauth/consent");
  return page.searchParams.get("authorization_id") ?? "";
}

async function tokens(form: Record<string, string>): Promise<Record<string, string>> {
  const response = await fetch(`${server.url}/auth/v1/oauth/token`, {
    method: "POST",
    body: new URLSearchParams(form),
  });
  expect(response.status).toBe(200);
  return (await response.json()) as Record<string, string>;
}

test("admin.oauth: create, list, get, update, regenerate, delete", async () => {
  const created = await admin().createClient({ client_name: "Robot", redirect_uris: [callback] });
  expect(created.data).toMatchObject({
    client_name: "Robot",
    client_type: "confidential",
    registration_type: "manual",
    redirect_uris: [callback],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
  });
  const id = created.data?.client_id ?? "";
  const listed = await admin().listClients({ page: 1, perPage: 50 });
  expect(listed.error).toBeNull();
  expect(listed.data.clients.map((client) => client.client_id)).toContain(id);
  expect((await admin().getClient(id)).data?.client_secret).toBeUndefined();
  const updated = await admin().updateClient(id, { client_name: "Robot 2" });
  expect(updated.data).toMatchObject({ client_name: "Robot 2", redirect_uris: [callback] });
  const renewed = await admin().regenerateClientSecret(id);
  expect(renewed.data?.client_secret).toBeTruthy();
  expect(renewed.data?.client_secret).not.toBe(created.data?.client_secret);
  expect((await admin().deleteClient(id)).error).toBeNull();
  expect((await admin().getClient(id)).error).toMatchObject({ code: "oauth_client_not_found", status: 404 });
});

test("oauth: consent, tokens, grants, revocation", async () => {
  const user = await signedIn();
  const created = await admin().createClient({
    client_name: "Notes",
    redirect_uris: [callback],
    token_endpoint_auth_method: "none",
  });
  const clientId = created.data?.client_id ?? "";
  const verifier = randomBytes(32).toString("base64url");
  const id = await begin(clientId, verifier);
  const details = await user.auth.oauth.getAuthorizationDetails(id);
  expect(details.data).toMatchObject({
    authorization_id: id,
    client: { id: clientId, name: "Notes" },
    scope: "openid email",
  });
  const approved = await user.auth.oauth.approveAuthorization(id, { skipBrowserRedirect: true });
  const url = new URL(approved.data?.redirect_url ?? "");
  expect(url.searchParams.get("state")).toBe("xyz");
  const granted = await tokens({
    grant_type: "authorization_code",
    client_id: clientId,
    code: url.searchParams.get("code") ?? "",
    code_verifier: verifier,
    redirect_uri: callback,
  });
  expect(granted.id_token).toBeTruthy();
  // The client acts for the user: with its token, policies see the user.
  const asClient = createClient(server.url, server.anonKey, { accessToken: async () => granted.access_token ?? "" });
  expect((await asClient.from("notes").select("id")).error?.code).not.toBe("PGRST301");
  const refreshed = await tokens({
    grant_type: "refresh_token",
    client_id: clientId,
    refresh_token: granted.refresh_token ?? "",
  });
  expect(refreshed.access_token).toBeTruthy();

  const grants = await user.auth.oauth.listGrants();
  expect(grants.data).toMatchObject([{ client: { id: clientId }, scopes: ["openid", "email"] }]);
  expect((await user.auth.oauth.revokeGrant({ clientId })).error).toBeNull();
  expect((await user.auth.oauth.listGrants()).data).toEqual([]);
});

test("oauth: deny", async () => {
  const user = await signedIn();
  const created = await admin().createClient({ client_name: "Notes", redirect_uris: [callback] });
  const id = await begin(created.data?.client_id ?? "", randomBytes(32).toString("base64url"));
  expect((await user.auth.oauth.getAuthorizationDetails(id)).error).toBeNull();
  const denied = await user.auth.oauth.denyAuthorization(id, { skipBrowserRedirect: true });
  expect(new URL(denied.data?.redirect_url ?? "").searchParams.get("error")).toBe("access_denied");
  const again = await user.auth.oauth.approveAuthorization(id, { skipBrowserRedirect: true });
  expect(again.error).toMatchObject({ code: "oauth_authorization_not_found" });
});
