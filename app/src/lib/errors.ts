/** PostgREST's code for `single()` that found no row. */
const noRows = "PGRST116";

export function isNoRows(error: unknown) {
  return codeOf(error) === noRows;
}

export function codeOf(error: unknown): string | null {
  return error && typeof error === "object" && "code" in error && typeof error.code === "string" ? error.code : null;
}

/** What to tell a person about a failed call: the server's words, or ours where the network never got that far. */
export function messageOf(error: unknown, fallback = "Something went wrong. Please try again.") {
  const message =
    error && typeof error === "object" && "message" in error && typeof error.message === "string"
      ? error.message.trim()
      : "";
  if (isOffline(error, message)) return "The server could not be reached. Check your connection and try again.";
  return message || fallback;
}

// supabase-js passes on the browser's own words, which differ: "Failed to fetch" (Chromium),
// "NetworkError when attempting to fetch resource." (Firefox), "Load failed" (Safari). Its class for
// this is known by name: importing it would put the whole client on the first page.
function isOffline(error: unknown, message: string) {
  if (error instanceof Error && error.name === "AuthRetryableFetchError")
    return "status" in error && error.status === 0;
  return /failed to fetch|networkerror|load failed/i.test(message);
}
