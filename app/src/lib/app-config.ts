/** What the server tells the app at start. The built app is the same everywhere; this is what differs. */
export interface AppConfig {
  anonKey: string;
}

export class AppConfigError extends Error {
  override name = "AppConfigError";
}

let config: AppConfig | null = null;

/** The configuration, once `loadAppConfig` has been through. */
export function appConfig(): AppConfig {
  if (!config) throw new AppConfigError("The configuration is read before it is loaded.");
  return config;
}

/** Reads `/app-config.json` from the server that delivered the app. */
export async function loadAppConfig(): Promise<AppConfig> {
  const response = await fetch("/app-config.json", {
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(15_000),
  }).catch((cause: unknown) => {
    throw new AppConfigError("The server cannot be reached.", { cause });
  });
  if (!response.ok) throw new AppConfigError(`The server answered ${response.status}.`);
  const document: unknown = await response.json().catch(() => null);
  const anonKey = document && typeof document === "object" && "anonKey" in document ? document.anonKey : null;
  if (typeof anonKey !== "string" || anonKey === "") throw new AppConfigError("The server's answer names no key.");
  config = { anonKey };
  return config;
}
