import { loadAppConfig } from "@/lib/app-config";

/**
 * Reads rows that everyone may read. The landing page does without the client, which weighs a third of its budget;
 * `query` is what the client would ask for, say `brand_assets?asset_type=eq.logo`.
 */
export async function publicRows(query: string, signal: AbortSignal): Promise<unknown[]> {
  const { anonKey } = await loadAppConfig();
  const response = await fetch(`/rest/v1/${query}`, {
    headers: { apikey: anonKey, accept: "application/json" },
    signal: AbortSignal.any([signal, AbortSignal.timeout(15_000)]),
  });
  if (!response.ok) throw new Error(`The server refused ${query.split("?")[0]} (${response.status}).`);
  const rows: unknown = await response.json();
  if (!Array.isArray(rows)) throw new Error(`The server answered with no list of ${query.split("?")[0]}.`);
  return rows;
}
