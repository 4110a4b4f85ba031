import type { Session } from "@supabase/supabase-js";

/** Whether the person has a verified second factor that this session has not used. Policies reject such a session, too. */
export function lacksSecondFactor({ access_token: token, user }: Pick<Session, "access_token" | "user">) {
  return user.factors?.some(({ status }) => status === "verified") === true && aalOf(token) !== "aal2";
}

function aalOf(token: string): unknown {
  try {
    const payload = token.split(".")[1]?.replaceAll("-", "+").replaceAll("_", "/") ?? "";
    return (JSON.parse(atob(payload)) as { aal?: unknown }).aal;
  } catch {
    return null;
  }
}
