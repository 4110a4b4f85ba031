import { createHmac } from "node:crypto";
import { anonKey, url } from "./environment";

export interface Call {
  method?: string;
  /** `apikey` header; `null` sends none. Default: the anon key. */
  key?: string | null;
  /** Bearer token; default none. */
  token?: string;
  headers?: Record<string, string>;
  /** Sent as JSON unless it is a string already. */
  body?: unknown;
  /** The server's URL; default: the main server. */
  origin?: string;
}

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  /** The parsed body, or undefined if it is not JSON. */
  json: unknown;
}

/** A request without the client, for what it hides: status, headers, exact bodies. */
export async function call(
  path: string,
  { method = "GET", key = anonKey, token, headers = {}, body, origin = url }: Call = {},
): Promise<Answer> {
  const sent = new Headers(headers);
  if (key !== null) sent.set("apikey", key);
  if (token !== undefined) sent.set("authorization", `Bearer ${token}`);
  const init: RequestInit = { method, headers: sent, redirect: "manual" };
  if (body !== undefined) {
    init.body = typeof body === "string" ? body : JSON.stringify(body);
    if (!sent.has("content-type")) sent.set("content-type", "application/json");
  }
  const response = await fetch(`${origin}${path}`, init);
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: parsed(text) };
}

/** `/rest/v1` with query parameters encoded as a browser does. */
export function rest(relation: string, parameters: Record<string, string> = {}, options: Call = {}): Promise<Answer> {
  const query = new URLSearchParams(parameters).toString();
  return call(`/rest/v1/${relation}${query && `?${query}`}`, options);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** A custom JWT, signed with HMAC-SHA256 (or, for `alg: none`, not at all). */
export function forge(claims: Record<string, unknown>, secret: string, header: Record<string, unknown> = {}): string {
  const full = { alg: "HS256", typ: "JWT", ...header };
  const head = `${base64url(full)}.${base64url(claims)}`;
  const signature = full.alg === "none" ? "" : createHmac("sha256", secret).update(head).digest("base64url");
  return `${head}.${signature}`;
}

/** Header and claims of a JWT, not verified. */
export function decode(token: string): { header: Record<string, unknown>; claims: Record<string, unknown> } {
  const [header = "", claims = ""] = token.split(".");
  const part = (text: string) => JSON.parse(Buffer.from(text, "base64url").toString()) as Record<string, unknown>;
  return { header: part(header), claims: part(claims) };
}

function base64url(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
