import { expect, test } from "./fixtures";

// The sections are one row each, so tests that write them must not run at the same time.
test.describe.configure({ mode: "serial" });

test("section is previewed, saved and shown on another browser", async ({ page: visitor, administrator, signedIn }) => {
  const maria = await administrator();
  const { data: before } = await maria.client
    .from("marketing_content")
    .select("title, subtitle")
    .eq("section", "nonprofits")
    .single()
    .throwOnError();
  const page = await signedIn(maria);
  await page.goto("/admin/marketing");
  await expect(page.getByRole("heading", { name: "Marketing Content", exact: true })).toBeVisible();
  await expect(page.getByRole("tab")).toHaveText(["Page Content", "Subscription Prompt"]);
  const sections = page.getByRole("combobox", { name: "Section" });
  await expect(sections.getByRole("option")).toHaveText([
    "Homepage: Hero",
    "Homepage: Features",
    "Homepage: For Nonprofits",
    "Pricing",
    "Footer",
  ]);

  await sections.selectOption("Homepage: For Nonprofits");
  const preview = page.getByRole("figure", { name: "Preview" });
  await page.getByRole("textbox", { name: "Title", exact: true }).fill("Made for those who give");
  await expect(preview.getByText("Made for those who give")).toBeVisible();

  // Choosing another section keeps the input.
  await sections.selectOption("Pricing");
  await page.getByRole("button", { name: "Keep editing" }).click();
  await expect(page.getByRole("textbox", { name: "Title", exact: true })).toHaveValue("Made for those who give");
  await page.getByLabel("Image URL").fill("/no-such-picture.png");
  await page.getByRole("button", { name: "Save Changes" }).click();
  await expect(page.getByLabel("Image URL")).toHaveAccessibleDescription(/This image could not be loaded/);
  await page.getByLabel("Image URL").fill("");
  const saved = page.waitForRequest(
    (request) => request.method() === "POST" && /marketing_content/.test(request.url()),
  );
  await page.getByRole("button", { name: "Save Changes" }).click();
  expect(new URL((await saved).url()).searchParams.get("on_conflict")).toBe("section");
  await expect(page.getByText("Marketing content updated")).toBeVisible();

  await visitor.goto("/");
  await expect(visitor.getByRole("heading", { name: "Made for those who give" })).toBeVisible();
  await maria.client.from("marketing_content").update(before).eq("section", "nonprofits").throwOnError();
});

test.describe("HTML with scripts", () => {
  // The browser reports what it blocked while the HTML was sanitised.
  test.use({ allowedComplaint: /inline event handler violates/ });

  test("is not executed", async ({ page: visitor, administrator, signedIn }) => {
    const maria = await administrator();
    const page = await signedIn(maria);
    await page.goto("/admin/marketing");
    await page.getByLabel("Section").selectOption("Footer");
    await page
      .getByLabel("HTML Content")
      .fill(
        '<p>Registered charity 123</p><script>window.harmed = 1</script><img src="x:y" onerror="window.harmed = 1">',
      );
    const preview = page.getByRole("figure", { name: "Preview" });
    await expect(preview.getByText("Registered charity 123")).toBeVisible();
    await page.getByRole("button", { name: "Save Changes" }).click();
    await expect(page.getByText("Marketing content updated")).toBeVisible();
    await visitor.goto("/");
    await expect(visitor.getByText("Registered charity 123")).toBeVisible();
    for (const screen of [page, visitor]) {
      expect(await screen.evaluate(() => "harmed" in window)).toBe(false);
    }
    await maria.client.from("marketing_content").update({ htmlcontent: null }).eq("section", "footer").throwOnError();
  });
});

test("hidden section is marked; a conflicting save is reported", async ({ administrator, signedIn }) => {
  const maria = await administrator();
  const page = await signedIn(maria);
  await page.goto("/admin/marketing");
  await page.getByLabel("Section").selectOption("Homepage: Features");
  await page.getByRole("switch", { name: "Visible" }).click();
  await expect(page.getByText("Visitors do not see this section.")).toBeVisible();
  await maria.client.from("marketing_content").update({ subtitle: "Theirs" }).eq("section", "features").throwOnError();
  await page.getByRole("button", { name: "Save Changes" }).click();
  await expect(page.getByText("Failed to update marketing content.")).toBeVisible();
  await page.getByRole("button", { name: "Load their version" }).click();
  await expect(page.getByRole("textbox", { name: "Subtitle" })).toHaveValue("Theirs");
  await expect(page.getByRole("switch", { name: "Visible" })).toBeChecked();
  await maria.client.from("marketing_content").update({ subtitle: null }).eq("section", "features").throwOnError();
});
