import { expect, test } from "./fixtures";
import { addMember, expectToast, makePlan, server } from "./workspace";

test("manager edits the organization and its logo", async ({ person, signedIn }) => {
  test.slow();
  const [maria, tom] = [await person(), await person()];
  const plan = await makePlan(maria, "Warm meals");
  await addMember(plan.id, tom, "manager");
  const page = await signedIn(tom);
  await page.goto(`/plan/${plan.id}`);
  const card = page.getByRole("region", { name: "Organization" });
  await card.getByRole("button", { name: "Edit Org" }).click();
  await expect(card.getByLabel("EIN")).toHaveAttribute("placeholder", "XX-XXXXXXX");
  await card.getByLabel("Organization Name").fill("Riverside Trust");
  await card.getByLabel("EIN").fill("anything goes");
  await card.getByLabel("Mission").fill("No one goes hungry.");
  await card.getByLabel("Vision").fill("Good food is near.");
  await card.getByLabel("Values").fill("Dignity first.");
  await card.getByLabel("Logo file").setInputFiles({ name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("a") });
  await expect(card.getByText("Please choose an image file.")).toBeVisible();
  // Drawn by the browser, so that the repository needs no image file.
  const png = await page.evaluate(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 20 });
    canvas.getContext("2d")?.fillRect(0, 0, 40, 20);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve));
    return [...new Uint8Array((await blob?.arrayBuffer()) ?? new ArrayBuffer(0))];
  });
  await card
    .getByLabel("Logo file")
    .setInputFiles({ name: "logo.png", mimeType: "image/png", buffer: Buffer.from(png) });
  await card.getByLabel("How the picture becomes a square").selectOption("crop");
  await card.getByRole("button", { name: "Save" }).click();
  await expectToast(page, "Organization data saved");
  await expect(card).toContainText("Riverside Trust");
  await expect(card).toContainText("EIN anything goes");
  await expect(card).toContainText("Dignity first.");
  const logo = card.locator("img");
  await expect.poll(() => logo.evaluate((image: HTMLImageElement) => image.naturalWidth)).toBe(512);
  expect((await server().storage.from("org_logos").list(plan.id)).data).toHaveLength(1);

  // Saved without a logo, the image disappears.
  await card.getByRole("button", { name: "Edit Org" }).click();
  await card.getByRole("button", { name: "Remove logo" }).click();
  await card.getByRole("button", { name: "Save" }).click();
  await expect(card.getByRole("button", { name: "Edit Org" })).toBeVisible();
  await expect(card.locator("img")).toHaveCount(0);
  expect((await server().storage.from("org_logos").list(plan.id)).data).toHaveLength(0);
});

test("unsaved text is kept and conflicts are reported", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}`);
  const card = page.getByRole("region", { name: "Organization" });
  await card.getByRole("button", { name: "Edit Org" }).click();
  await card.getByLabel("Mission").fill("Mine");
  await card.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Keep editing" }).click();
  await maria.client.from("organizations").insert({ plan_id: plan.id, mission: "Theirs" }).throwOnError();
  await card.getByRole("button", { name: "Save" }).click();
  await expect(card.getByRole("alert")).toContainText("Theirs");
  await expect(card.getByLabel("Mission")).toHaveValue("Mine");
  await card.getByRole("button", { name: "Keep my version" }).click();
  await card.getByRole("button", { name: "Save" }).click();
  await expectToast(page, "Organization data saved");
  await expect(card).toContainText("Mine");
});
