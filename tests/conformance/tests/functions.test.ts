import { FunctionRegion, FunctionsFetchError, FunctionsHttpError, type SupabaseClient } from "@supabase/supabase-js";
import { beforeAll, describe, expect, test } from "vitest";
import { client, person, visitor } from "../support/clients";
import { publishableKey, secretKey, serviceKey, url } from "../support/environment";

let ada: SupabaseClient;
beforeAll(async () => {
  ada = (await person()).client;
});

/** The status and body of a failed call; the client does not read the body. */
async function refusal(call: Promise<{ data: unknown; error: unknown }>) {
  const { data, error } = await call;
  expect(data).toBeNull();
  expect(error).toBeInstanceOf(FunctionsHttpError);
  const response = (error as FunctionsHttpError).context as Response;
  return { status: response.status, header: response.headers.get("sb-error-code"), body: await response.json() };
}

/** This release has no TypeScript runtime, so an accepted call fails to start the function. */
const boot = {
  status: 503,
  header: "BOOT_ERROR",
  body: { code: "BOOT_ERROR", message: "Worker failed to boot (please check logs)" },
};

describe("access", () => {
  test("accepts keys and user tokens", async () => {
    for (const caller of [visitor(), client(serviceKey), client(publishableKey), client(secretKey), ada]) {
      expect(await refusal(caller.functions.invoke("hello"))).toEqual(boot);
    }
  });

  test("no valid token: only with verify_jwt off", async () => {
    const forged = { headers: { Authorization: "Bearer nonsense" } };
    expect(await refusal(visitor().functions.invoke("hello", forged))).toMatchObject({
      status: 401,
      header: "UNAUTHORIZED_INVALID_JWT_FORMAT",
      body: { message: "Invalid JWT format", msg: "Invalid JWT format" },
    });
    expect(await refusal(visitor().functions.invoke("open", forged))).toEqual(boot);
  });

  test("unknown name", async () => {
    expect(await refusal(visitor().functions.invoke("nothing"))).toEqual({
      status: 404,
      header: "NOT_FOUND",
      body: { code: "NOT_FOUND", message: "Requested function was not found" },
    });
  });
});

describe("requests", () => {
  const form = new FormData();
  form.append("file", new Blob(["x"], { type: "text/plain" }), "x.txt");
  test.each([
    ["an object", { a: 1 }],
    ["text", "text"],
    ["a blob", new Blob(["x"], { type: "image/png" })],
    ["bytes", new ArrayBuffer(8)],
    ["a form", form],
    ["nothing", undefined],
  ])("%s", async (_, body) => {
    expect((await refusal(visitor().functions.invoke("hello", body === undefined ? {} : { body }))).status).toBe(503);
  });

  test.each(["GET", "POST", "PUT", "PATCH", "DELETE"] as const)("method %s", async (method) => {
    expect((await refusal(visitor().functions.invoke("hello/sub/path?x=1", { method }))).status).toBe(503);
  });

  test("region", async () => {
    const region = { region: FunctionRegion.UsEast1 };
    expect((await refusal(visitor().functions.invoke("hello", region))).status).toBe(503);
  });
});

test("abort and network error are fetch errors", async () => {
  const aborted = new AbortController();
  aborted.abort();
  const { error } = await visitor().functions.invoke("hello", { signal: aborted.signal });
  expect(error).toBeInstanceOf(FunctionsFetchError);
});

test("CORS allows any header and reading errors", async () => {
  const response = await fetch(`${url}/functions/v1/hello`, {
    method: "OPTIONS",
    headers: {
      Origin: "https://app.example",
      "Access-Control-Request-Method": "POST",
      "Access-Control-Request-Headers": "authorization,x-region,x-webhook-replay,traceparent",
    },
  });
  expect(response.status).toBe(204);
  const allowed = response.headers.get("access-control-allow-headers")?.toLowerCase() ?? "";
  for (const name of ["authorization", "x-region", "x-webhook-replay", "traceparent"]) {
    expect(allowed).toContain(name);
  }
  const refused = await fetch(`${url}/functions/v1/hello`, {
    method: "POST",
    headers: { Origin: "https://app.example" },
  });
  expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([401, "*"]);
  expect(refused.headers.get("access-control-expose-headers")).toContain("sb-error-code");
});
