import { queryOptions } from "@tanstack/react-query";
import * as z from "zod/mini";
import { loadAppConfig } from "@/lib/app-config";

/** The external providers that the app offers if the server has them configured, with their display names. */
export const providerNames = {
  google: "Google",
  azure: "Microsoft",
  apple: "Apple",
  github: "GitHub",
  linkedin_oidc: "LinkedIn",
  facebook: "Facebook",
} as const;
export type ProviderName = keyof typeof providerNames;

const settingsSchema = z.object({
  external: z.record(z.string(), z.boolean()),
  passkeys_enabled: z.optional(z.boolean()),
});

interface SignInMethods {
  providers: ProviderName[];
  passkeys: boolean;
}

/** The server's sign-in methods besides e-mail and password, which the app always offers. */
export const signInMethodsQuery = () =>
  queryOptions({
    queryKey: ["auth-settings"],
    queryFn: async ({ signal }): Promise<SignInMethods> => {
      const { anonKey } = await loadAppConfig();
      const response = await fetch("/auth/v1/settings", { headers: { apikey: anonKey }, signal });
      if (!response.ok) throw new Error("The sign-in methods could not be loaded.");
      const { external, passkeys_enabled: passkeys } = settingsSchema.parse(await response.json());
      const providers = (Object.keys(providerNames) as ProviderName[]).filter((name) => external[name] === true);
      return { providers, passkeys: passkeys === true && browserHasPasskeys() };
    },
    staleTime: 5 * 60_000,
    retry: 1,
  });

/** Browsers offer passkeys in secure contexts, and never at an IP address. */
function browserHasPasskeys() {
  const { hostname } = window.location;
  return "PublicKeyCredential" in window && !/^[\d.]+$|^\[/.test(hostname);
}
