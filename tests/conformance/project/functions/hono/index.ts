import { Hono } from "hono";
import { cors } from "hono/cors";

const app = new Hono().basePath("/hono");
app.use("*", cors());
app.get("/items/:id", (context) => context.json({ id: context.req.param("id"), query: context.req.query("q") }));
app.post("/items", async (context) => context.json(await context.req.json(), 201));

Deno.serve(app.fetch);
