Deno.serve(async (request) => {
  const type = request.headers.get("content-type") ?? "";
  const body = type.startsWith("multipart/form-data") ? await form(request) : await request.text();
  return Response.json({
    message: "Hello",
    method: request.method,
    path: new URL(request.url).pathname + new URL(request.url).search,
    type: type.split(";")[0],
    body,
    region: request.headers.get("x-region"),
  });
});

async function form(request: Request) {
  const fields: Record<string, string> = {};
  for (const [name, value] of await request.formData()) {
    fields[name] = typeof value === "string" ? value : `${value.name} ${value.type}: ${await value.text()}`;
  }
  return fields;
}
