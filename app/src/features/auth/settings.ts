import { queryOptions } from "@tanstack/react-query";
import * as z from "zod/mini";
import { loadAppConfig } from "@/lib/app-config";

/** The external providers that the app offers where the server has them configured, with what people call them. */
export const providerNames = {
  google: "Google",
  azure: "Microsoft",
  apple: "Apple",
  github: "GitHub",
  linkedin_oidc: "LinkedIn",
  facebook: "Facebook",
} as const;
export type ProviderName = keyof typeof providerNames;

const settingsSchema = z.object({ external: z.record(z.string(), z.boolean()) });

/** Which ways of signing in the server offers. Without an answer the app shows e-mail and password alone. */
export const providersQuery = () =>
  queryOptions({
    queryKey: ["auth-settings"],
    queryFn: async ({ signal }): Promise<ProviderName[]> => {
      const { anonKey } = await loadAppConfig();
      const response = await fetch("/auth/v1/settings", { headers: { apikey: anonKey }, signal });
      if (!response.ok) throw new Error("The sign-in methods could not be loaded.");
      const { external } = settingsSchema.parse(await response.json());
      return (Object.keys(providerNames) as ProviderName[]).filter((name) => external[name] === true);
    },
    staleTime: 5 * 60_000,
    retry: 1,
  });
