import { randomUUID } from "node:crypto";
import { expect, stripePrice, test } from "./fixtures";

test("subscription plan is added, edited and deleted", async ({ administrator, signedIn }) => {
  const page = await signedIn(await administrator());
  const name = `Plan ${randomUUID()}`;
  const [priceId, yearlyId] = [await stripePrice(1950), await stripePrice(2000, "year")];
  await page.goto("/admin/subscription-plans");
  await expect(page.getByRole("heading", { name: "Subscription Plans Management" })).toBeVisible();
  await expect(
    page.getByText("Create, edit, and manage subscription plans for your application.", { exact: true }),
  ).toBeVisible();
  for (const header of ["Name", "Price", "Interval", "Stripe Price ID", "Status", "Actions"]) {
    await expect(page.getByRole("columnheader", { name: header, exact: true })).toBeVisible();
  }

  await page.getByRole("button", { name: "Add Plan" }).click();
  const adding = page.getByRole("dialog", { name: "Add Subscription Plan" });
  await expect(adding.getByPlaceholder("e.g., Basic Plan")).toBeVisible();
  await expect(adding.getByText("Enter features as a JSON array of strings")).toBeVisible();
  await expect(adding.getByText("Is this plan currently available for purchase?")).toBeVisible();
  await expect(adding.getByLabel("Billing Interval")).toHaveValue("month");
  await expect(adding.getByLabel("Billing Interval").getByRole("option")).toHaveText([
    "Daily",
    "Weekly",
    "Monthly",
    "Yearly",
  ]);
  await expect(adding.getByRole("switch", { name: "Active" })).toBeChecked();
  await adding.getByRole("button", { name: "Save Plan" }).click();
  for (const message of ["Name is required", "Price must be a positive number", "Stripe Price ID is required"]) {
    await expect(adding.getByText(message)).toBeVisible();
  }
  await adding.getByLabel("Plan Name").fill(name);
  await adding.getByLabel("Description").fill("For one team");
  await adding.getByLabel("Stripe Price ID").fill(priceId);
  await adding.getByLabel("Stripe Price ID").blur();
  // Read from Stripe.
  await expect(adding.getByLabel("Price", { exact: true })).toHaveValue("19.5");
  await adding.getByLabel("Features (JSON Array)").fill('["One plan"');
  await expect(adding.getByText("it will be saved as an empty list")).toBeVisible();
  await adding.getByLabel("Features (JSON Array)").fill('["One plan", "Two people"]');
  await expect(adding.getByText("2 features")).toBeVisible();
  await adding.getByRole("button", { name: "Save Plan" }).click();
  await expect(page.getByText("Plan added", { exact: true })).toBeVisible();
  await expect(page.getByText("The subscription plan has been added successfully.")).toBeVisible();

  const row = page.getByRole("row", { name });
  await expect(row).toContainText("$19.50");
  await expect(row.getByText("month")).toHaveCSS("text-transform", "capitalize");
  await expect(row).toContainText(priceId);
  await expect(row).toContainText("Active");

  await row.getByRole("button", { name: "Edit" }).click();
  const editing = page.getByRole("dialog", { name: "Edit Subscription Plan" });
  await editing.getByLabel("Stripe Price ID").fill(yearlyId);
  await editing.getByLabel("Stripe Price ID").blur();
  await expect(editing.getByLabel("Price", { exact: true })).toHaveValue("20");
  await expect(editing.getByLabel("Billing Interval")).toHaveValue("year");
  await editing.getByRole("switch", { name: "Active" }).click();
  await editing.getByRole("button", { name: "Update Plan" }).click();
  await expect(page.getByText("The subscription plan has been updated successfully.")).toBeVisible();
  await expect(row).toContainText("$20");
  await expect(row).toContainText("Inactive");

  await row.getByRole("button", { name: "Delete" }).click();
  const deleting = page.getByRole("alertdialog", { name: "Delete Subscription Plan" });
  await expect(
    deleting.getByText("Are you sure you want to delete this subscription plan? This action cannot be undone.", {
      exact: true,
    }),
  ).toBeVisible();
  await expect(
    deleting.getByText("Deleting a plan might affect users who are currently subscribed to it."),
  ).toBeVisible();
  await deleting.getByRole("button", { name: "Cancel" }).click();
  await row.getByRole("button", { name: "Delete" }).click();
  await deleting.getByRole("button", { name: "Delete Plan" }).click();
  await expect(page.getByText("The subscription plan has been deleted successfully.")).toBeVisible();
  await expect(row).toBeHidden();
});

test("a plan is saved only with the amount and interval that Stripe charges", async ({ administrator, signedIn }) => {
  const page = await signedIn(await administrator());
  const [name, priceId] = [`Plan ${randomUUID()}`, await stripePrice(2900)];
  await page.goto("/admin/subscription-plans");
  await page.getByRole("button", { name: "Add Plan" }).click();
  const adding = page.getByRole("dialog", { name: "Add Subscription Plan" });
  await adding.getByLabel("Plan Name").fill(name);
  await adding.getByLabel("Price", { exact: true }).fill("19");
  await adding.getByLabel("Stripe Price ID").fill("price_that_stripe_does_not_have");
  await adding.getByRole("button", { name: "Save Plan" }).click();
  await expect(page.getByText("Error adding plan")).toBeVisible();
  await expect(adding.getByLabel("Stripe Price ID")).toHaveAccessibleDescription(/Stripe has no price with this ID/);
  await expect(adding.getByLabel("Plan Name")).toHaveValue(name);

  await adding.getByLabel("Stripe Price ID").fill(priceId);
  await adding.getByLabel("Stripe Price ID").blur();
  await expect(adding.getByLabel("Price", { exact: true })).toHaveValue("29");
  await adding.getByLabel("Price", { exact: true }).fill("19");
  await adding.getByRole("button", { name: "Save Plan" }).click();
  await expect(adding.getByLabel("Price", { exact: true })).toHaveAccessibleDescription(
    "Stripe charges $29 per month for this price.",
  );
  await adding.getByLabel("Price", { exact: true }).fill("29");
  await adding.getByRole("button", { name: "Save Plan" }).click();
  const row = page.getByRole("row", { name });
  await expect(row).toContainText("$29");
  await row.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete Plan" }).click();
  await expect(row).toBeHidden();
});

test("a Stripe price can belong to only one plan", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  const stripe_price_id = await stripePrice(100);
  const { data: plan } = await maria.client
    .from("subscription_plans")
    .insert({ name: "Taken", price: 1, stripe_price_id, features: [], active: false, interval: "month" })
    .select("id")
    .single()
    .throwOnError();
  const page = await signedIn(maria);
  await page.goto("/admin/subscription-plans");
  await page.getByRole("button", { name: "Add Plan" }).click();
  const adding = page.getByRole("dialog", { name: "Add Subscription Plan" });
  await adding.getByLabel("Plan Name").fill("Second");
  await adding.getByLabel("Price", { exact: true }).fill("1");
  await adding.getByLabel("Stripe Price ID").fill(stripe_price_id);
  await adding.getByRole("button", { name: "Save Plan" }).click();
  await expect(page.getByText("Error adding plan")).toBeVisible();
  await expect(adding.getByLabel("Stripe Price ID")).toHaveAccessibleDescription(
    "Another plan already has this Stripe Price ID.",
  );
  await expect(adding.getByLabel("Plan Name")).toHaveValue("Second");
  await maria.client.from("subscription_plans").delete().eq("id", plan.id).throwOnError();
});

test("second admin to save a plan resolves the conflict", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  const name = `Plan ${randomUUID()}`;
  const { data: plan } = await maria.client
    .from("subscription_plans")
    .insert({ name, price: 1, stripe_price_id: `price_${randomUUID()}`, features: [], active: false })
    .select("id")
    .single()
    .throwOnError();
  const page = await signedIn(maria);
  await page.goto("/admin/subscription-plans");
  await page.getByRole("row", { name }).getByRole("button", { name: "Edit" }).click();
  const editing = page.getByRole("dialog", { name: "Edit Subscription Plan" });
  await editing.getByLabel("Description").fill("Mine");
  await maria.client.from("subscription_plans").update({ description: "Theirs" }).eq("id", plan.id).throwOnError();
  await editing.getByRole("button", { name: "Update Plan" }).click();
  await expect(page.getByText("Error updating plan")).toBeVisible();
  await expect(editing.getByRole("alert")).toContainText("Another administrator has changed this since you opened it");
  await expect(editing.getByLabel("Description")).toHaveValue("Mine");
  await editing.getByRole("button", { name: "Keep mine" }).click();
  await editing.getByRole("button", { name: "Update Plan" }).click();
  await expect(page.getByText("Plan updated", { exact: true })).toBeVisible();
  const { data: saved } = await maria.client
    .from("subscription_plans")
    .select("description")
    .eq("id", plan.id)
    .single()
    .throwOnError();
  expect(saved.description).toBe("Mine");
  await maria.client.from("subscription_plans").delete().eq("id", plan.id).throwOnError();
});
