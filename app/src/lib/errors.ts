/** PostgREST's code for `single()` that found no row. */
const noRows = "PGRST116";

export function isNoRows(error: unknown) {
  return codeOf(error) === noRows;
}

export function codeOf(error: unknown): string | null {
  return error && typeof error === "object" && "code" in error && typeof error.code === "string" ? error.code : null;
}

/** What to tell a person about a failed call: the server's words, or ours where those are for programmers. */
export function messageOf(error: unknown, fallback = "Something went wrong. Please try again.") {
  const message =
    error && typeof error === "object" && "message" in error && typeof error.message === "string"
      ? error.message.trim()
      : "";
  if (isOffline(error, message)) return "The server could not be reached. Check your connection and try again.";
  if (isSessionOver(error)) return "Your session has ended. Please log in again.";
  if (statusOf(error) === 429) return "Too many requests. Please wait a moment and try again.";
  if (isServerFault(error)) return "The server has a problem at the moment. Please try again.";
  // auth-js makes its message of an answer that has none by writing the answer down.
  return message === "" || message === "{}" ? fallback : message;
}

/** The server no longer takes the session's token. */
export function isSessionOver(error: unknown) {
  const code = codeOf(error);
  if (code === "PGRST301" || code === "PGRST303" || code === "bad_jwt" || code === "session_not_found") return true;
  const message = error && typeof error === "object" && "message" in error ? String(error.message) : "";
  return /^(?:jwt expired|invalid refresh token)/i.test(message);
}

function statusOf(error: unknown): number | null {
  return error && typeof error === "object" && "status" in error && typeof error.status === "number"
    ? error.status
    : null;
}

// A fault of the server or its database: its words tell a person nothing. PostgreSQL's classes 53 (out of resources),
// 57 (stopped), 58 and XX (broken); PostgREST's PGRST00x (no connection).
function isServerFault(error: unknown) {
  return (statusOf(error) ?? 0) >= 500 || /^(?:53|57|58|XX)...$|^PGRST00\d$/.test(codeOf(error) ?? "");
}

// supabase-js passes on the browser's own words, which differ: "Failed to fetch" (Chromium),
// "NetworkError when attempting to fetch resource." (Firefox), "Load failed" (Safari). Its class for
// this is known by name: importing it would put the whole client on the first page.
function isOffline(error: unknown, message: string) {
  if (error instanceof Error && error.name === "AuthRetryableFetchError")
    return "status" in error && error.status === 0;
  return /failed to fetch|networkerror|load failed/i.test(message);
}
