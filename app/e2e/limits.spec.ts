import { randomUUID } from "node:crypto";
import { examine } from "./examine";
import { expect, type Person, test } from "./fixtures";
import { addMember, expectToast, makePlan, server, subscribe } from "./workspace";

/** Subscribes to a plan with these limits, which no other test uses. */
async function subscribeWith(person: Person, limits: { max_plans?: number; max_members?: number; max_bytes?: number }) {
  const price = `price_${randomUUID()}`;
  const name = `Limited ${price.slice(6, 14)}`;
  // Inactive: the public pages of other tests do not show it.
  const { data } = await server()
    .from("subscription_plans")
    .insert({ name, price: 5, stripe_price_id: price, active: false, ...limits })
    .select("id")
    .single()
    .throwOnError();
  await subscribe(person, { stripe_price_id: price });
  return { id: data.id, name };
}

test("dashboard shows the limit of plans, and an upgrade once it is reached", async ({ person, signedIn }) => {
  const maria = await person();
  await subscribeWith(maria, { max_plans: 2 });
  await makePlan(maria, "First plan");
  const page = await signedIn(maria);
  // A second tab that was opened before the limit was reached.
  const other = await signedIn(maria);
  await other.goto("/dashboard");
  await page.goto("/dashboard");
  await expect(page.getByText("1 of 2 plans")).toBeVisible();
  await page.getByRole("button", { name: "Create Plan" }).click();
  await page.getByLabel("Title").fill("Second plan");
  await page.getByRole("dialog").getByRole("button", { name: "Create Plan" }).click();
  await page.getByRole("link", { name: "Back to plans" }).click();
  await expect(page.getByText("2 of 2 plans")).toBeVisible();
  await examine(page, "limit reached");
  await expect(page.getByRole("link", { name: "Upgrade for more plans" })).toHaveAttribute(
    "href",
    "/dashboard/subscription",
  );

  // The API names the limit.
  const { error } = await maria.client.from("plans").insert({ title: "Third plan", user_id: maria.id });
  expect(error?.code).toBe("23514");
  expect(error?.message).toMatch(/^Your subscription \(Limited \w+\) includes 2 plans\.$/);
});

test("of two plans created at once only one passes the limit", async ({ person }) => {
  const maria = await person();
  await subscribeWith(maria, { max_plans: 1 });
  const attempts = await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      maria.client.from("plans").insert({ title: `Plan ${index}`, user_id: maria.id }),
    ),
  );
  expect(attempts.filter(({ error }) => error === null)).toHaveLength(1);
  expect((await maria.client.from("plans").select("id").throwOnError()).data).toHaveLength(1);
});

test("people over the limit are refused, and a lowered limit keeps what exists", async ({ person, signedIn }) => {
  const [maria, tom] = [await person(), await person()];
  const { id: plan, name } = await subscribeWith(maria, { max_plans: 5, max_members: 2 });
  const { id } = await makePlan(maria, "Shared plan");
  await makePlan(maria, "Other plan");
  await addMember(id, tom, "manager");
  const page = await signedIn(maria);
  await page.goto(`/plan/${id}?tab=team`);
  // Shown before it is reached, with the way to more.
  await expect(page.getByText("2 of 2 people")).toBeVisible();
  await expect(page.getByRole("link", { name: "Upgrade for more people" })).toHaveAttribute(
    "href",
    "/dashboard/subscription",
  );
  await examine(page, "limit of people");
  await page.getByRole("button", { name: "Invite Member" }).click();
  await page.getByLabel("Email").fill("third@example.org");
  await page.getByRole("button", { name: "Send Invitation" }).click();
  await expectToast(page, `(${name}) includes 2 people on each plan.`);

  await server().from("subscription_plans").update({ max_plans: 1, max_members: 1 }).eq("id", plan).throwOnError();
  await page.goto("/dashboard");
  await expect(page.getByText("2 of 1 plan")).toBeVisible();
  await expect(page.getByRole("link", { name: "Shared plan", exact: true })).toBeVisible();
  const seen = await tom.client.from("plans").select("id").eq("id", id).throwOnError();
  expect(seen.data).toHaveLength(1);
});

test("files over the limit are refused", async ({ person, signedIn }) => {
  const maria = await person();
  await subscribeWith(maria, { max_bytes: 1000 });
  const { id } = await makePlan(maria, "Plan with files");
  const files = maria.client.storage.from("plan_files");
  const add = async (name: string, size: number) => {
    const path = `${id}/${name}`;
    const upload = await files.upload(path, new Blob(["x".repeat(size)], { type: "text/plain" }));
    if (upload.error) return upload.error.message;
    const row = await maria.client.from("plan_attachments").insert({ plan_id: id, title: name, file_url: path });
    return row.error?.message ?? null;
  };
  expect(await add("small.txt", 600)).toBeNull();
  const page = await signedIn(maria);
  await page.goto(`/plan/${id}?tab=resources`);
  await expect(page.getByText("600 B of 1,000 B")).toBeVisible();
  await expect(page.getByRole("link", { name: "Upgrade for more files" })).toBeVisible();
  await examine(page, "limit of bytes");
  expect(await add("large.txt", 600)).toMatch(/includes .* of files/);
  // Over the limit no further upload begins.
  expect(await add("next.txt", 1)).toMatch(/row-level security/);
});

test("pricing shows limits and a free plan that needs no payment", async ({ page }) => {
  const plan = { id: randomUUID(), description: null, interval: "month", features: [], active: true };
  await page.route("**/rest/v1/subscription_plans*", (route) =>
    route.fulfill({
      json: [
        {
          ...plan,
          name: "Free",
          price: 0,
          stripe_price_id: "free",
          is_free: true,
          max_plans: 1,
          max_members: 3,
          max_bytes: 104_857_600,
        },
        {
          ...plan,
          id: randomUUID(),
          name: "Team",
          price: 20,
          stripe_price_id: "price_x",
          is_free: false,
          max_plans: null,
          max_members: 25,
          max_bytes: null,
        },
      ],
    }),
  );
  await page.goto("/pricing");
  const free = page.getByRole("listitem", { name: "Free" });
  await expect(free.getByRole("list", { name: "Included" })).toHaveText("1 plan3 people on each plan100 MB of files");
  await expect(page.getByRole("listitem", { name: "Team" }).getByRole("list", { name: "Included" })).toHaveText(
    "Unlimited plans25 people on each planUnlimited files",
  );
  await examine(page, "pricing with limits");
  await free.getByRole("button", { name: "Start Free" }).click();
  await expect(page).toHaveURL("/register");
  await expect(page.getByText("Complete registration to continue with your selected plan")).toBeHidden();
});
