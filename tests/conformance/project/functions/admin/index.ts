import { createClient } from "@supabase/supabase-js";

// The service role inside a function: users, and a row that no policy shows to callers.
Deno.serve(async () => {
  const client = createClient(Deno.env.get("SUPABASE_URL") ?? "", Deno.env.get("SUPABASE_SERVICE_ROLE_KEY") ?? "", {
    auth: { persistSession: false, autoRefreshToken: false },
  });
  const email = `made-${crypto.randomUUID()}@example.org`;
  const { data, error } = await client.auth.admin.createUser({ email, email_confirm: true });
  if (error) return Response.json({ error: error.message }, { status: 500 });
  const removed = await client.auth.admin.deleteUser(data.user.id);
  return Response.json({ email: data.user.email, removed: removed.error === null });
});
