import { createServer } from "node:http";
import {
  FunctionRegion,
  FunctionsFetchError,
  FunctionsHttpError,
  FunctionsRelayError,
  type SupabaseClient,
} from "@supabase/supabase-js";
import Stripe from "stripe";
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

/** The data of a call that succeeds. */
async function result(call: Promise<{ data: unknown; error: unknown }>): Promise<Record<string, unknown>> {
  const { data, error } = await call;
  expect(error).toBeNull();
  return data as Record<string, unknown>;
}

describe("access", () => {
  test("accepts keys and user tokens", async () => {
    for (const caller of [visitor(), client(serviceKey), client(publishableKey), client(secretKey), ada]) {
      expect(await result(caller.functions.invoke("hello"))).toMatchObject({ message: "Hello", method: "POST" });
    }
  });

  test("no valid token: only with verify_jwt off", async () => {
    const forged = { headers: { Authorization: "Bearer nonsense" } };
    expect(await refusal(visitor().functions.invoke("hello", forged))).toMatchObject({
      status: 401,
      header: "UNAUTHORIZED_INVALID_JWT_FORMAT",
      body: { message: "Invalid JWT format", msg: "Invalid JWT format" },
    });
    expect(await result(visitor().functions.invoke("open", forged))).toBe("Hello");
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
  form.append("name", "Ada");
  form.append("file", new Blob(["x"], { type: "text/plain" }), "x.txt");
  test.each([
    ["an object", { a: 1 }, "application/json", '{"a":1}'],
    ["text", "text", "text/plain", "text"],
    ["a blob", new Blob(["x"], { type: "image/png" }), "image/png", "x"],
    ["bytes", new ArrayBuffer(8), "application/octet-stream", "\0".repeat(8)],
    ["a form", form, "multipart/form-data", { name: "Ada", file: "x.txt text/plain: x" }],
    ["nothing", undefined, "", ""],
  ])("%s", async (_, body, type, seen) => {
    const call = visitor().functions.invoke("hello", body === undefined ? {} : { body });
    expect(await result(call)).toMatchObject({ type, body: seen });
  });

  test.each(["GET", "POST", "PUT", "PATCH", "DELETE"] as const)("method %s", async (method) => {
    const seen = await result(visitor().functions.invoke("hello/sub/path?x=1", { method }));
    expect(seen).toMatchObject({ method, path: "/hello/sub/path?x=1" });
  });

  test("region", async () => {
    const region = { region: FunctionRegion.UsEast1 };
    expect(await result(visitor().functions.invoke("hello", region))).toMatchObject({ region: "us-east-1" });
  });
});

describe("replies", () => {
  const reply = (kind: string, method: "GET" | "POST" = "POST") =>
    visitor().functions.invoke(`replies/${kind}`, { method });

  test("by content type", async () => {
    expect(await result(reply("json"))).toEqual({ a: 1 });
    expect(await result(reply("text"))).toBe("text");
    expect((await reply("blob")).data).toEqual(
      new Blob([new Uint8Array([1, 2, 3])], { type: "application/octet-stream" }),
    );
    expect(((await reply("pdf")).data as Blob).size).toBe(4);
    expect(((await reply("form")).data as FormData).get("a")).toBe("1");
    expect(await result(reply("empty"))).toBe("");
    // A page would run in the app's origin.
    const page = await reply("html", "GET");
    expect(page.response?.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  });

  test("errors of the function keep status and body", async () => {
    expect(await refusal(reply("teapot"))).toEqual({
      status: 418,
      header: null,
      body: { error: "short and stout" },
    });
    const { error } = await reply("throw");
    const response = (error as FunctionsHttpError).context as Response;
    expect([response.status, response.headers.get("sb-error-code")]).toEqual([500, "EDGE_FUNCTION_ERROR"]);
    expect(await response.text()).toBe("Internal Server Error");
    expect((await reply("relay")).error).toBeInstanceOf(FunctionsRelayError);
  });

  test("an event stream arrives part by part", async () => {
    const { data } = await reply("events");
    const reader = (data as Response).body?.getReader();
    const parts: string[] = [];
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      parts.push(new TextDecoder().decode(part.value));
    }
    expect(parts.join("")).toBe("data: 1\n\ndata: 2\n\ndata: 3\n\n");
    expect(parts.length).toBeGreaterThan(1);
  });
});

describe("patterns of projects", () => {
  test("auth.getUser", async () => {
    const { data } = await ada.auth.getUser();
    expect(await result(ada.functions.invoke("whoami"))).toEqual({ id: data.user?.id, email: data.user?.email });
    expect((await refusal(visitor().functions.invoke("whoami"))).status).toBe(401);
  });

  test("service role", async () => {
    expect(await result(ada.functions.invoke("admin"))).toMatchObject({ removed: true });
  });

  test("calls to other functions", async () => {
    const seen = await result(ada.functions.invoke("caller"));
    expect(seen).toEqual({ invoked: '{"from":"caller"}', error: null, plain: "plain" });
  });

  test("CORS by hand", async () => {
    const origin = { Origin: "https://app.example", "Access-Control-Request-Method": "POST" };
    const preflight = await fetch(`${url}/functions/v1/cors`, { method: "OPTIONS", headers: origin });
    expect([preflight.status, await preflight.text()]).toEqual([200, "ok"]);
    const response = await fetch(`${url}/functions/v1/cors`, { method: "POST", headers: origin });
    for (const { headers } of [preflight, response]) {
      expect(headers.get("access-control-allow-origin")).toBe("https://app.example");
    }
  });

  test("Hono", async () => {
    expect(await result(ada.functions.invoke("hono/items/7?q=x", { method: "GET" }))).toEqual({ id: "7", query: "x" });
    expect(await result(ada.functions.invoke("hono/items", { body: { a: 1 } }))).toEqual({ a: 1 });
  });

  test("a Stripe webhook", async () => {
    const stripe = new Stripe("sk_test_conformance");
    const payload = JSON.stringify(
      { id: "evt_1", object: "event", type: "invoice.paid", data: { object: {} } },
      null,
      2,
    );
    const signature = await stripe.webhooks.generateTestHeaderStringAsync({ payload, secret: "whsec_conformance" });
    const send = (body: string) =>
      fetch(`${url}/functions/v1/stripe`, { method: "POST", headers: { "Stripe-Signature": signature }, body });
    expect(await (await send(payload)).json()).toEqual({ received: "invoice.paid" });
    expect((await send(`${payload} `)).status).toBe(400);
  });

  test("mail through an HTTP API, in the background", async () => {
    const sent = new Promise<{ key: string; body: string }>((resolve) => {
      const resend = createServer(async (request, response) => {
        let body = "";
        for await (const part of request) body += part;
        response.setHeader("content-type", "application/json").end('{"id":"1"}');
        resend.close();
        resolve({ key: request.headers.authorization ?? "", body });
      }).listen(54999, "127.0.0.1");
    });
    const body = { to: "ada@example.org", subject: "Hello" };
    expect(await result(ada.functions.invoke("mail", { body }))).toEqual({ queued: true });
    const { key, body: mail } = await sent;
    expect(key).toBe("Bearer re_conformance");
    expect(JSON.parse(mail)).toMatchObject({ to: ["ada@example.org"], subject: "Hello" });
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
