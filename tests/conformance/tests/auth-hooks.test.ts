import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { memory } from "../support/clients";
import { Server } from "../support/server";

let server: Server;

interface Event {
  metadata: { name: string };
  claims?: Record<string, unknown>;
  user?: { email: string };
  valid?: boolean;
}

/** The project's hooks: adds a claim, refuses addresses of example.net, and rejects wrong passwords with its own words. */
function answer(event: Event): unknown {
  switch (event.metadata.name) {
    case "customize-access-token":
      return { claims: { ...event.claims, plan: "gold" } };
    case "before-user-created":
      return event.user?.email.endsWith("@example.net")
        ? { error: { http_code: 403, message: "this domain is not welcome" } }
        : {};
    default:
      return event.valid ? { decision: "continue" } : { decision: "reject", message: "try again tomorrow" };
  }
}

async function read(request: IncomingMessage): Promise<Event> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return JSON.parse(text);
}

const hooks = createServer(async (request, response) => {
  const body = answer(await read(request));
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(body));
});

beforeAll(async () => {
  await new Promise<void>((resolve) => hooks.listen(0, "127.0.0.1", resolve));
  const uri = `http://127.0.0.1:${(hooks.address() as AddressInfo).port}/`;
  const settings: Record<string, string> = {};
  for (const name of ["CUSTOM_ACCESS_TOKEN", "BEFORE_USER_CREATED", "PASSWORD_VERIFICATION_ATTEMPT"]) {
    settings[`BASALT_AUTH_HOOK_${name}_ENABLED`] = "true";
    settings[`BASALT_AUTH_HOOK_${name}_URI`] = uri;
    settings[`BASALT_AUTH_HOOK_${name}_SECRETS`] = "v1,whsec_c2VjcmV0IG9mIGEgaG9vaw==";
  }
  server = await Server.start(settings);
});

afterAll(async () => {
  await server.stop();
  hooks.close();
});

test("hooks decide about sign-up, sign-in and claims", async () => {
  const supabase = createClient(server.url, server.anonKey, {
    auth: { storage: memory(), autoRefreshToken: false, detectSessionInUrl: false },
  });
  const password = "correct horse 7";
  const refused = await supabase.auth.signUp({ email: "eve@example.net", password });
  expect(refused.error).toMatchObject({ status: 403, message: "this domain is not welcome" });
  const email = "ada@example.org";
  expect((await supabase.auth.signUp({ email, password })).error).toBeNull();
  expect((await supabase.auth.getClaims()).data?.claims).toMatchObject({ plan: "gold", email });
  expect((await supabase.auth.refreshSession()).error).toBeNull();
  expect((await supabase.auth.getClaims()).data?.claims["plan"]).toBe("gold");
  const wrong = await supabase.auth.signInWithPassword({ email, password: "wrong" });
  expect(wrong.error).toMatchObject({ code: "invalid_credentials", message: "try again tomorrow" });
  expect((await supabase.auth.signInWithPassword({ email, password })).error).toBeNull();
});
