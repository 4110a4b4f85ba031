// Resend over plain fetch, in the background. The address of the API is a variable, so that a test can play Resend.
Deno.serve(async (request) => {
  const { to, subject } = await request.json();
  const sending = fetch(`${Deno.env.get("RESEND_API_URL")}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${Deno.env.get("RESEND_API_KEY")}`, "Content-Type": "application/json" },
    body: JSON.stringify({ from: "Basalt <mail@example.org>", to: [to], subject, html: "<p>Hi</p>" }),
  });
  EdgeRuntime.waitUntil(sending);
  return Response.json({ queued: true }, { status: 202 });
});
