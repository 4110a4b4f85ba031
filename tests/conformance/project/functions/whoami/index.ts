import { createClient } from "@supabase/supabase-js";

// As the caller: `auth.getUser`, then rows under the caller's policies.
Deno.serve(async (request) => {
  const authorization = request.headers.get("Authorization") ?? "";
  const client = createClient(Deno.env.get("SUPABASE_URL") ?? "", Deno.env.get("SUPABASE_ANON_KEY") ?? "", {
    global: { headers: { Authorization: authorization } },
  });
  const { data, error } = await client.auth.getUser(authorization.replace("Bearer ", ""));
  if (error) return Response.json({ error: error.message }, { status: 401 });
  return Response.json({ id: data.user.id, email: data.user.email });
});
