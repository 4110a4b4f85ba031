import { createClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { memory, person } from "../support/clients";
import { anonKey, url } from "../support/environment";

/** A client that records its requests to auth. */
function watched() {
  const paths: string[] = [];
  const client = createClient(url, anonKey, {
    auth: { autoRefreshToken: false, detectSessionInUrl: false, storage: memory() },
    global: {
      fetch: (input, init) => {
        paths.push(new URL(input instanceof Request ? input.url : input).pathname);
        return fetch(input, init);
      },
    },
  });
  return { paths, client };
}

describe("getClaims", () => {
  test("verifies locally with the published key", async () => {
    const ada = await person();
    const { paths, client } = watched();
    const token = ada.session.access_token;
    for (const _ of [1, 2]) {
      const { data, error } = await client.auth.getClaims(token);
      expect(error).toBeNull();
      expect(data?.claims).toMatchObject({ sub: ada.user.id, role: "authenticated", aal: "aal1" });
      expect(data?.header).toMatchObject({ alg: "ES256", typ: "JWT" });
      expect(data?.header.kid).toEqual(expect.any(String));
    }
    expect(paths.filter((path) => path.endsWith("/user"))).toEqual([]);
    expect(paths.filter((path) => path.endsWith("/.well-known/jwks.json")).length).toBeLessThanOrEqual(1);
  });

  test("rejects a token of another key", async () => {
    const ada = await person();
    const { client } = watched();
    const [header, payload, signature = ""] = ada.session.access_token.split(".");
    const forged = `${header}.${payload}.${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`;
    expect((await client.auth.getClaims(forged)).error).not.toBeNull();
  });

  test("key set is cacheable and contains only public keys", async () => {
    const response = await fetch(`${url}/auth/v1/.well-known/jwks.json`);
    expect(response.headers.get("cache-control")).toBe("public, max-age=600");
    const { keys } = (await response.json()) as { keys: Record<string, unknown>[] };
    expect(keys.length).toBeGreaterThan(0);
    for (const key of keys) {
      expect(key).toMatchObject({ kid: expect.any(String), use: "sig", key_ops: ["verify"], alg: expect.any(String) });
      for (const member of ["d", "p", "q", "k"]) {
        expect(key[member]).toBeUndefined();
      }
    }
  });
});
