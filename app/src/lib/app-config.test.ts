import { expect, test, vi } from "vitest";
import { fetchAppConfig } from "./app-config";

const answer = (response: () => Promise<Response>) => vi.stubGlobal("fetch", response);

test("reads the key", async () => {
  answer(async () => Response.json({ url: "http://localhost:8000", anonKey: "sb_publishable_x" }));
  expect(await fetchAppConfig()).toEqual({ anonKey: "sb_publishable_x" });
});

test.each([
  ["The server cannot be reached.", () => Promise.reject(new TypeError("Failed to fetch"))],
  ["The server did not give its configuration (503).", async () => new Response(null, { status: 503 })],
  ["The server's configuration names no key.", async () => new Response("<!doctype html>")],
  ["The server's configuration names no key.", async () => Response.json({ anonKey: "" })],
])("says what is wrong: %s", async (message, response) => {
  answer(response);
  await expect(fetchAppConfig()).rejects.toThrow(message);
});
