import { createClient } from "@supabase/supabase-js";

// One function calls another, with the client and with plain fetch.
Deno.serve(async (request) => {
  const url = Deno.env.get("SUPABASE_URL") ?? "";
  const client = createClient(url, Deno.env.get("SUPABASE_SERVICE_ROLE_KEY") ?? "");
  const { data, error } = await client.functions.invoke("hello", { body: { from: "caller" } });
  const plain = await fetch(`${url}/functions/v1/hello`, {
    method: "POST",
    headers: { Authorization: request.headers.get("Authorization") ?? "", "Content-Type": "text/plain" },
    body: "plain",
  });
  return Response.json({ invoked: data?.body, error: error?.message ?? null, plain: (await plain.json()).body });
});
