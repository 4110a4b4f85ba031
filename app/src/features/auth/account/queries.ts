import { queryOptions } from "@tanstack/react-query";
import * as z from "zod/mini";
import { loadAppConfig } from "@/lib/app-config";
import { basalt } from "@/lib/basalt";

export const factorsKey = ["account", "factors"];
export const passkeysKey = ["account", "passkeys"];
export const recoveryCodesKey = ["account", "recovery-codes"];
export const sessionsKey = ["account", "sessions"];
export const identitiesKey = ["account", "identities"];

/** The person's factors, including those whose set-up was not finished. */
export const factorsQuery = () =>
  queryOptions({
    queryKey: factorsKey,
    queryFn: async () => {
      const { data, error } = await basalt.auth.mfa.listFactors();
      if (error) throw error;
      return data.all;
    },
  });

/** How many recovery codes are left, for a person who has some. */
export const recoveryCodesQuery = () =>
  queryOptions({
    queryKey: recoveryCodesKey,
    queryFn: async () => {
      const { data, error } = await basalt.auth.mfa.recoveryCodes.getStatus();
      if (error) throw error;
      return data;
    },
  });

export const passkeysQuery = () =>
  queryOptions({
    queryKey: passkeysKey,
    queryFn: async () => {
      const { data, error } = await basalt.auth.passkey.list();
      if (error) throw error;
      return data;
    },
  });

const sessionsSchema = z.object({
  sessions: z.array(
    z.object({
      id: z.string(),
      created_at: z.nullable(z.string()),
      refreshed_at: z.nullable(z.string()),
      user_agent: z.nullable(z.string()),
      ip: z.nullable(z.string()),
      is_current: z.boolean(),
    }),
  ),
});
export type DeviceSession = z.infer<typeof sessionsSchema>["sessions"][number];

/** The client has no call for these routes. */
async function callSessions(method: "GET" | "DELETE", id = "", signal: AbortSignal | null = null) {
  const [{ data }, { anonKey }] = await Promise.all([basalt.auth.getSession(), loadAppConfig()]);
  const response = await fetch(`/auth/v1/user/sessions${id && `/${id}`}`, {
    method,
    headers: { apikey: anonKey, authorization: `Bearer ${data.session?.access_token ?? ""}` },
    signal,
  });
  if (!response.ok) {
    const body: unknown = await response.json().catch(() => null);
    const message = body && typeof body === "object" && "msg" in body ? String(body.msg) : "";
    throw Object.assign(new Error(message), { status: response.status });
  }
  return response;
}

export const sessionsQuery = () =>
  queryOptions({
    queryKey: sessionsKey,
    queryFn: async ({ signal }) => {
      const response = await callSessions("GET", "", signal);
      return sessionsSchema.parse(await response.json()).sessions;
    },
  });

export const endSession = (id: string) => callSessions("DELETE", id);

export const identitiesQuery = () =>
  queryOptions({
    queryKey: identitiesKey,
    queryFn: async () => {
      const { data, error } = await basalt.auth.getUserIdentities();
      if (error) throw error;
      return data.identities;
    },
  });
