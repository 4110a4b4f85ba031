/** What the server tells the app. The built app is the same everywhere; this is what differs. */
export interface AppConfig {
  anonKey: string;
}

export class AppConfigError extends Error {
  override name = "AppConfigError";
}

let known: Promise<AppConfig> | null = null;

/** Reads `/app-config.json` from the server that delivered the app; once, unless that fails. */
export function loadAppConfig(): Promise<AppConfig> {
  known ??= fetchAppConfig().catch((error: unknown) => {
    known = null;
    throw error;
  });
  return known;
}

export async function fetchAppConfig(): Promise<AppConfig> {
  const response = await fetch("/app-config.json", {
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(15_000),
  }).catch((cause: unknown) => {
    throw new AppConfigError("The server cannot be reached.", { cause });
  });
  if (!response.ok) throw new AppConfigError(`The server did not give its configuration (${response.status}).`);
  const document: unknown = await response.json().catch(() => null);
  const anonKey = document && typeof document === "object" && "anonKey" in document ? document.anonKey : null;
  if (typeof anonKey !== "string" || anonKey === "") {
    throw new AppConfigError("The server's configuration names no key.");
  }
  return { anonKey };
}
