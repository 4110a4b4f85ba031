Deno.serve(() => new Response("Hello"));
