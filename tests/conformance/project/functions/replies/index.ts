const encoder = new TextEncoder();

// Each kind of response that the client treats in its own way.
Deno.serve((request) => {
  const kind = new URL(request.url).pathname.split("/")[2];
  switch (kind) {
    case "json":
      return new Response('{"a":1}', { headers: { "content-type": "Application/JSON; charset=utf-8" } });
    case "blob":
      return new Response(new Uint8Array([1, 2, 3]), { headers: { "content-type": "application/octet-stream" } });
    case "pdf":
      return new Response("%PDF", { headers: { "content-type": "application/pdf" } });
    case "form": {
      const form = new FormData();
      form.append("a", "1");
      return new Response(form);
    }
    case "text":
      return new Response("text");
    case "html":
      return new Response("<h1>x</h1>", { headers: { "content-type": "text/html" } });
    case "empty":
      return new Response(null, { status: 204 });
    case "teapot":
      return Response.json({ error: "short and stout" }, { status: 418 });
    case "relay":
      return new Response("relay", { headers: { "x-relay-error": "true" } });
    case "throw":
      throw new Error("a reason for the log only");
    case "events": {
      const body = new ReadableStream({
        async start(out) {
          for (const number of [1, 2, 3]) {
            out.enqueue(encoder.encode(`data: ${number}\n\n`));
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
          out.close();
        },
      });
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    }
    default:
      return new Response("unknown", { status: 404 });
  }
});
