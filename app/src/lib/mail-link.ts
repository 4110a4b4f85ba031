/** What a link in a mail brought along, in the fragment of the address that the server sent the browser on to. */
export interface MailLink {
  /** The token of the session that the link opened. */
  accessToken: string | null;
  /** Whose session that is; `null` where the token is none. */
  userId: string | null;
  /** What the link was for: `recovery`, `signup`, `email_change` … */
  type: string | null;
  /** Why the link opened nothing, in the server's words. */
  error: string | null;
}

export function readMailLink(fragment: string): MailLink {
  const parameters = new URLSearchParams(fragment.replace(/^#/, ""));
  const accessToken = parameters.get("access_token") || null;
  return {
    accessToken,
    userId: accessToken && subjectOf(accessToken),
    type: parameters.get("type"),
    error: parameters.get("error_description") ?? parameters.get("error"),
  };
}

/** Of the address that this page was opened with. Read at once: supabase-js clears the fragment when it has used it. */
export const mailLink = readMailLink(window.location.hash);

/** The `sub` claim, unverified: to tell sessions apart, not to trust. */
function subjectOf(token: string) {
  try {
    const payload = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    const claims: unknown = JSON.parse(atob(payload));
    const isObject = claims !== null && typeof claims === "object";
    return isObject && "sub" in claims && typeof claims.sub === "string" ? claims.sub : null;
  } catch {
    return null;
  }
}
