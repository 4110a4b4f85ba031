// The app's function `test-email` in TypeScript: an administrator sends a test mail through Resend. It replaces the built-in one when it is at
// functions/test-email/index.ts of the project; `basalt secrets set RESEND_API_KEY=…` sets the key.
//
// `tests/service/functions/examples.rs` runs it beside the built-in one.

const json = (status: number, body: unknown) => Response.json(body, { status });

/** Asks the database as the caller, so that policies and `auth.uid()` apply. */
async function isAdmin(authorization: string): Promise<boolean> {
  const response = await fetch(`${Deno.env.get("SUPABASE_URL")}/rest/v1/rpc/is_admin`, {
    method: "POST",
    headers: {
      Authorization: authorization,
      apikey: Deno.env.get("SUPABASE_ANON_KEY") ?? "",
      "Content-Type": "application/json",
    },
    body: "{}",
  });
  return response.ok && (await response.json()) === true;
}

async function hasUser(authorization: string): Promise<boolean> {
  const response = await fetch(`${Deno.env.get("SUPABASE_URL")}/auth/v1/user`, {
    headers: { Authorization: authorization, apikey: Deno.env.get("SUPABASE_ANON_KEY") ?? "" },
  });
  await response.body?.cancel();
  return response.ok;
}

const escapeHtml = (text: string) =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`).replaceAll("\n", "<br>\n");

Deno.serve(async (request) => {
  if (request.method !== "POST") return json(405, { error: "Method not allowed" });
  const authorization = request.headers.get("Authorization") ?? "";
  if (!(await hasUser(authorization))) return json(401, { error: "Not authenticated" });
  if (!(await isAdmin(authorization))) return json(403, { error: "Administrators only" });

  const { to = "", subject = "", message = "" } = await request.json().catch(() => ({}));
  if (!/^[^\s@]+@[^\s@]+$/.test(to)) return json(400, { error: "Must be a valid email address" });
  if (!subject.trim()) return json(400, { error: "Subject is required" });
  if (!message.trim()) return json(400, { error: "Message is required" });

  const response = await fetch(`${Deno.env.get("RESEND_API_URL") ?? "https://api.resend.com"}/emails`, {
    method: "POST",
    headers: { Authorization: `Bearer ${Deno.env.get("RESEND_API_KEY")}`, "Content-Type": "application/json" },
    body: JSON.stringify({
      from: Deno.env.get("MAIL_FROM") ?? "Basalt <onboarding@resend.dev>",
      to: [to],
      subject,
      text: message,
      html: `<p>${escapeHtml(message)}</p>`,
    }),
    signal: AbortSignal.timeout(10_000),
  });
  const sent = await response.json().catch(() => ({}));
  if (!response.ok) {
    console.error("Resend refused the mail", response.status, sent);
    return json(502, { error: sent.message ?? "The mail provider refused the mail" });
  }
  return json(200, { success: true, message: "Test email sent", id: sent.id });
});
