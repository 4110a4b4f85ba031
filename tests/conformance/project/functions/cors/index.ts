// The pattern of most projects: CORS by hand, for preflights and for every response.
const corsHeaders = {
  "Access-Control-Allow-Origin": "https://app.example",
  "Access-Control-Allow-Headers": "authorization, x-client-info, apikey, content-type",
};

Deno.serve((request) => {
  if (request.method === "OPTIONS") return new Response("ok", { headers: corsHeaders });
  return Response.json({ ok: true }, { headers: corsHeaders });
});
