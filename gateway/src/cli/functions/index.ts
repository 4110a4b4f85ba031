// Called at /functions/v1/<this folder's name>, with the project's key or a user's token: see `verify_jwt` in docs/CONFIG.md.
Deno.serve(async (request) => {
  const { name = "world" } = await request.json().catch(() => ({}));
  return Response.json({ message: `Hello ${name}!` });
});
