import { createHmac, randomUUID } from "node:crypto";
import type { APIRequestContext } from "@playwright/test";
import { expect, test } from "./fixtures";

// The tests share the signing secret.
test.describe.configure({ mode: "serial" });

const secret = "whsec_basaltbrowsertests0123456789";

/** Sends an event as Stripe does, signed with the secret. */
async function deliver(request: APIRequestContext, type: string, object: object) {
  const id = `evt_${randomUUID().replaceAll("-", "")}`;
  const created = Math.floor(Date.now() / 1000);
  const body = JSON.stringify({ id, object: "event", type, created, livemode: false, data: { object } });
  const signature = createHmac("sha256", secret).update(`${created}.${body}`).digest("hex");
  const response = await request.post("/functions/v1/stripe-webhook", {
    data: body,
    headers: { "content-type": "application/json", "stripe-signature": `t=${created},v1=${signature}` },
  });
  return { id, status: response.status() };
}

test("configuration shows address, secret and instructions", async ({ administrator, signedIn, baseURL }) => {
  const page = await signedIn(await administrator());
  await page
    .context()
    .grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(baseURL ?? "").origin });
  await page.goto("/admin/webhooks");
  await expect(page.getByRole("heading", { name: "Webhook Management" })).toBeVisible();
  await expect(page.getByText("Important: Manual Configuration Required")).toBeVisible();
  await expect(page.getByLabel("Webhook URL", { exact: true })).toHaveValue(
    /^https?:.+\/functions\/v1\/stripe-webhook$/,
  );
  await page.getByRole("button", { name: "Copy webhook URL" }).click();
  await expect(page.getByText("Copied!")).toBeVisible();
  await expect(page.getByText("Webhook URL copied to clipboard")).toBeVisible();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toMatch(/\/functions\/v1\/stripe-webhook$/);

  const save = page.getByRole("button", { name: "Save Webhook Secret Temporarily" });
  await expect(page.getByText(/stored only temporarily and must also be set permanently/)).toBeVisible();
  await save.click();
  await expect(page.getByText("Webhook secret is required")).toBeVisible();
  const field = page.getByPlaceholder("Enter your Stripe webhook secret");
  await field.fill("no secret");
  await save.click();
  await expect(page.getByText("Failed to save webhook secret. Please try again.")).toBeVisible();
  await expect(field).toHaveValue("no secret");
  await field.fill(secret);
  await save.click();
  await expect(page.getByText("Secret Stored Temporarily")).toBeVisible();
  await expect(field).toHaveValue("");

  await page.getByRole("button", { name: "View Manual Setup Instructions" }).click();
  const instructions = page.getByRole("dialog", { name: "Manual Setup Instructions" });
  for (const step of ["Get the secret", "Set it in the backend", "Test it"]) {
    await expect(instructions.getByRole("heading", { name: step })).toBeVisible();
  }
  await expect(instructions.getByText("checkout.session.completed")).toBeVisible();
  await instructions.getByRole("button", { name: "Close" }).last().click();
  await expect(instructions).toBeHidden();
});

test("events are searched, viewed and replayed", async ({ administrator, signedIn, request }) => {
  const page = await signedIn(await administrator());
  // A subscription without a user fails permanently.
  const subscription = `sub_${randomUUID().slice(0, 8)}`;
  const failed = await deliver(request, "customer.subscription.updated", {
    id: subscription,
    object: "subscription",
    customer: `cus_${randomUUID().slice(0, 8)}`,
    status: "active",
    items: { data: [{ id: "si_1", price: { id: "price_none" } }] },
  });
  const ignored = await deliver(request, "product.created", { id: "prod_1", object: "product" });
  expect(ignored.status).toBe(200);

  await page.goto("/admin/webhooks");
  const table = page.getByRole("table");
  for (const header of ["Date", "Source", "Event Type", "Status", "Actions"]) {
    await expect(table.getByRole("columnheader", { name: header, exact: true })).toBeVisible();
  }
  await expect(page.getByText(/^Showing \d+ webhook events$/)).toBeVisible();
  await expect(page.getByRole("combobox", { name: "Source" }).getByRole("option")).toHaveText([
    "All Sources",
    "Stripe",
  ]);
  await page.getByRole("combobox", { name: "Source" }).selectOption("Stripe");

  const search = page.getByPlaceholder("Search events...");
  await search.fill(ignored.id.toUpperCase());
  const processed = table.getByRole("row", { name: "product.created" });
  await expect(processed).toContainText("Processed");
  await expect(processed.getByRole("button", { name: /^Replay/ })).toHaveCount(0);
  await processed.getByRole("button", { name: /^Details/ }).click();
  const details = page.getByRole("dialog", { name: "Webhook Event Details" });
  await expect(details).toContainText(ignored.id);
  await expect(details).toContainText("product.created");
  await expect(details.locator("pre")).toContainText('"object": "product"');
  await details.getByRole("button", { name: "Close" }).last().click();

  await search.fill(failed.id);
  const row = table.getByRole("row", { name: "customer.subscription.updated" });
  await expect(row).toContainText("Failed");
  await row.getByRole("button", { name: /^Details/ }).click();
  await expect(details).toContainText("Not processed");
  await expect(details).toContainText("Error Message");
  await details.getByRole("button", { name: "Close" }).last().click();

  await row.getByRole("button", { name: /^Replay/ }).click();
  const replaying = page.getByRole("alertdialog", { name: "Replay Webhook Event" });
  await expect(replaying).toContainText("The replay adds extra metadata to the payload to improve success.");
  await expect(replaying).toContainText("customer.subscription.updated");
  await expect(replaying).toContainText("Previous Error");
  await replaying.getByRole("button", { name: "Replay Event" }).click();
  await expect(page.getByText(/^Failed to replay webhook: /)).toBeVisible({ timeout: 30_000 });
  await replaying.getByRole("button", { name: "Cancel" }).click();

  await search.fill("no such event at all");
  await expect(page.getByText("No matching webhook events found")).toBeVisible();
  await expect(page.getByText("Try a different search term")).toBeVisible();
});

test("replay, empty list and load error are handled", async ({ administrator, signedIn }) => {
  const page = await signedIn(await administrator());
  const event = {
    id: "evt_made_up",
    source: "stripe",
    event_type: "invoice.paid",
    status: "failed",
    payload: {
      id: "evt_made_up",
      type: "invoice.paid",
      data: { object: { object: "invoice", subscription: "sub_1" } },
    },
    error_message: "No user found",
    created_at: "2026-11-22T10:00:00Z",
    processed_at: null,
  };
  await page.route("**/rest/v1/rpc/get_webhook_events", (route) => route.fulfill({ json: [event] }));
  let sent: unknown = null;
  let header: string | undefined;
  await page.route("**/functions/v1/stripe-webhook", (route) => {
    if (route.request().method() === "OPTIONS") return route.fallback();
    sent = route.request().postDataJSON();
    header = route.request().headers()["x-webhook-replay"];
    return route.fulfill({ json: { success: true, message: "Webhook event replayed successfully" } });
  });
  await page.goto("/admin/webhooks");
  await page.getByRole("button", { name: /^Replay/ }).click();
  await page.getByRole("button", { name: "Replay Event" }).click();
  await expect(page.getByText("Success", { exact: true })).toBeVisible();
  await expect(page.getByText("Webhook event replayed successfully")).toBeVisible();
  expect(header).toBe("true");
  expect(sent).toEqual({
    ...event.payload,
    replay_metadata: { customer_email: null, customer_id: null, subscription_id: "sub_1", price_id: null },
  });

  await page.route("**/functions/v1/stripe-webhook", (route) => route.fulfill({ status: 400, json: {} }));
  await page.getByRole("button", { name: /^Replay/ }).click();
  await page.getByRole("button", { name: "Replay Event" }).click();
  await expect(page.getByText("Failed to replay webhook event. Please try again.")).toBeVisible();
  await page.getByRole("button", { name: "Cancel" }).click();

  await page.route("**/rest/v1/rpc/get_webhook_events", (route) => route.fulfill({ json: [] }));
  await page.getByRole("button", { name: "Refresh" }).click();
  await expect(page.getByText("No webhook events found")).toBeVisible();
  await expect(page.getByText("Events will appear here once received")).toBeVisible();

  await page.route("**/rest/v1/rpc/get_webhook_events", (route) =>
    route.fulfill({ status: 400, json: { message: "No" } }),
  );
  await page.reload();
  await expect(page.getByText("Failed to load webhook events. Please try again.").first()).toBeVisible();
});
