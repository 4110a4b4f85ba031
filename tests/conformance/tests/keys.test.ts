import { beforeAll, describe, expect, test } from "vitest";
import { client, type Person, person } from "../support/clients";
import { anonKey, publishableKey, secretKey, serviceKey } from "../support/environment";
import { type Call, call, decode, forge, rest } from "../support/http";

let ada: Person;
beforeAll(async () => {
  ada = await person();
});

const missing = {
  message: "No API key found in request",
  hint: "No `apikey` request header or url param was found.",
};
const wrong = { message: "Invalid API key", hint: "Double check your API key." };

describe("API key check", () => {
  test.each(["/rest/v1/samples", "/auth/v1/settings", "/auth/v1/user"])("%s without a key: 401", async (path) => {
    const response = await call(path, { key: null });
    expect([response.status, response.json]).toEqual([401, missing]);
  });

  test.each(["/rest/v1/samples", "/auth/v1/settings"])("%s with a wrong key: 401", async (path) => {
    for (const key of ["nonsense", "sb_publishable_nonsense", "sb_secret_nonsense", `${anonKey.slice(0, -4)}AAAA`]) {
      const response = await call(path, { key });
      expect([response.status, response.json]).toEqual([401, wrong]);
    }
  });

  test("errors have CORS headers", async () => {
    const response = await call("/rest/v1/samples", { key: null, headers: { origin: "https://elsewhere.example" } });
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
  });

  test("user token is not an API key", async () => {
    const response = await rest("samples", {}, { key: null, token: ada.session.access_token });
    expect([response.status, response.json]).toEqual([401, missing]);
  });

  test("key is accepted in the query", async () => {
    const response = await rest("samples", { select: "id", id: "eq.1", apikey: anonKey }, { key: null });
    expect([response.status, response.json]).toEqual([200, [{ id: 1 }]]);
  });

  test("health and public keys need no key", async () => {
    expect((await call("/auth/v1/health", { key: null })).status).toBe(200);
    expect((await call("/auth/v1/.well-known/jwks.json", { key: null })).status).toBe(200);
  });
});

describe("roles of keys", () => {
  const role = async (options: Call) => {
    const response = await rest("rpc/who_am_i", {}, { method: "POST", body: {}, ...options });
    return (response.json as { role?: string } | undefined)?.role ?? response.json;
  };

  test("each key as apikey", async () => {
    expect(await role({ key: anonKey })).toBe("anon");
    expect(await role({ key: publishableKey })).toBe("anon");
    expect(await role({ key: serviceKey })).toBe("service_role");
    expect(await role({ key: secretKey })).toBe("service_role");
  });

  test("opaque key as bearer is ignored", async () => {
    expect(await role({ key: publishableKey, token: publishableKey })).toBe("anon");
    expect(await role({ key: secretKey, token: secretKey })).toBe("service_role");
    expect(await role({ key: publishableKey, token: secretKey })).toBe("anon");
  });

  test("token takes precedence over any key", async () => {
    const token = ada.session.access_token;
    for (const key of [anonKey, publishableKey, serviceKey, secretKey]) {
      expect(await role({ key, token })).toBe("authenticated");
    }
    expect(await role({ key: anonKey, token: serviceKey })).toBe("service_role");
    expect(await role({ key: secretKey, token: anonKey })).toBe("anon");
  });

  test("client works with opaque keys", async () => {
    const browser = client(publishableKey);
    expect((await browser.from("samples").select("id").eq("id", 1)).data).toEqual([{ id: 1 }]);
    const { data, error } = await browser.auth.signInWithPassword({ email: ada.email, password: ada.password });
    expect(error).toBeNull();
    expect((await browser.rpc("who_am_i")).data).toMatchObject({ role: "authenticated", uid: data.user?.id });
    expect((await client(secretKey).rpc("who_am_i")).data).toMatchObject({ role: "service_role" });
  });

  test("legacy keys have role and expiry", async () => {
    for (const [key, role] of [
      [anonKey, "anon"],
      [serviceKey, "service_role"],
    ] as const) {
      const { header, claims } = decode(key);
      expect(claims).toMatchObject({ role, iss: expect.any(String), iat: expect.any(Number), exp: expect.any(Number) });
      expect(claims).not.toHaveProperty("sub");
      expect(header).toMatchObject({ alg: "HS256", kid: expect.any(String) });
    }
  });
});

describe("foreign tokens", () => {
  const now = Math.floor(Date.now() / 1000);
  const claims = { sub: crypto.randomUUID(), role: "service_role", aud: "authenticated", iat: now, exp: now + 3600 };

  const refused = async (token: string) => {
    const response = await rest("samples", {}, { token });
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toMatch(/^Bearer/);
    return response.json as { code: string; message: string; details: string | null };
  };

  test("rejects another secret", async () => {
    expect(await refused(forge(claims, "another secret of more than 32 characters"))).toMatchObject({
      code: "PGRST301",
      message: "No suitable key or wrong key type",
      details: "None of the keys was able to decode the JWT",
    });
  });

  test("rejects alg none in any spelling", async () => {
    for (const alg of ["none", "None", "NONE"]) {
      const body = await refused(forge(claims, "", { alg }));
      expect(body).toMatchObject({ code: "PGRST301" });
      if (alg === "none") {
        expect(body.message).toBe("Wrong or unsupported encoding algorithm");
        expect(body.details).toBe("JWT is unsecured but expected 'alg' was not 'none'");
      }
    }
  });

  test("rejects a public key used as secret", async () => {
    const { keys } = (await call("/auth/v1/.well-known/jwks.json", { key: null })).json as {
      keys: Record<string, string>[];
    };
    for (const key of keys) {
      expect(key).not.toHaveProperty("d");
      expect(key).not.toHaveProperty("k");
      await refused(forge(claims, JSON.stringify(key), { kid: key.kid }));
    }
  });

  test("rejects changed claims", async () => {
    const [head, , signature] = ada.session.access_token.split(".");
    const changed = Buffer.from(JSON.stringify({ ...decode(ada.session.access_token).claims, role: "service_role" }));
    expect((await refused(`${head}.${changed.toString("base64url")}.${signature}`)).code).toBe("PGRST301");
    expect((await refused(`${ada.session.access_token.slice(0, -6)}AAAAAA`)).code).toBe("PGRST301");
  });

  test("rejects malformed tokens", async () => {
    expect(await refused("a.b")).toMatchObject({ code: "PGRST301", message: "Expected 3 parts in JWT; got 2" });
    expect((await refused("nonsense")).code).toBe("PGRST301");
    const empty = await rest("samples", {}, { headers: { authorization: "Bearer " } });
    // fetch trims the trailing space; the key is rejected either way.
    expect([200, 401]).toContain(empty.status);
  });

  test("auth has its own error format", async () => {
    const header = { "x-supabase-api-version": "2024-01-01" };
    const forged = await call("/auth/v1/user", {
      token: forge(claims, "another secret of more than 32 characters"),
      headers: header,
    });
    expect([forged.status, forged.json]).toMatchObject([403, { code: "bad_jwt" }]);
    const none = await call("/auth/v1/user", { token: forge(claims, "", { alg: "none" }), headers: header });
    expect([none.status, none.json]).toMatchObject([403, { code: "bad_jwt" }]);
  });
});
