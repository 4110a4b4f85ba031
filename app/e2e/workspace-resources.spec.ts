import { readFile } from "node:fs/promises";
import { expect, pixel, test } from "./fixtures";
import { addMember, expectToast, makePlan, server } from "./workspace";

const text = (name: string, content = "Dear all") => ({ name, mimeType: "text/plain", buffer: Buffer.from(content) });

test("files are uploaded, downloaded and deleted", async ({ person, signedIn }) => {
  test.slow();
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}?tab=resources`);
  await expect(page.getByRole("heading", { name: "No files yet" })).toBeVisible();

  await page.getByLabel("Title", { exact: true }).fill("  ");
  await page.getByRole("button", { name: "Upload", exact: true }).click();
  await expect(page.getByText("Please select a file to upload")).toBeVisible();
  await expect(page.getByText("Please provide a title for the file")).toBeVisible();
  await page.locator("input[type=file]").setInputFiles([text("Budget 2027.txt"), text("Letter.txt", "To the board")]);
  await expect(page.getByLabel("Title of Budget 2027.txt")).toHaveValue("Budget 2027");
  await page.getByLabel("Title of Letter.txt").fill("  ");
  await page.getByRole("button", { name: "Upload", exact: true }).click();
  await expect(page.getByText("Please provide a title for the file")).toBeVisible();
  await page.getByLabel("Title of Letter.txt").fill("Letter of support");
  const sent = page.waitForRequest((request) => request.method() === "POST" && /plan_files/.test(request.url()));
  await page.getByRole("button", { name: "Upload", exact: true }).click();
  expect(new URL((await sent).url()).pathname).toMatch(
    new RegExp(`^/storage/v1/object/plan_files/${plan.id}/[a-z0-9]+_\\d+\\.txt$`),
  );
  expect((await sent).headers()["x-upsert"]).toBe("false");
  await expectToast(page, "File uploaded successfully");

  const files = page.getByRole("list", { name: "Files" });
  // Newest first.
  await expect(files.getByRole("listitem")).toHaveCount(2);
  await expect(files.getByRole("listitem").nth(0)).toContainText("Letter of support");
  await expect(files.getByRole("listitem").nth(1)).toContainText("Budget 2027");
  await expect(files.getByRole("listitem").nth(1)).toContainText("TXT");

  const started = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download Letter of support" }).click();
  const download = await started;
  expect(download.suggestedFilename()).toBe("Letter of support.txt");
  expect(await readFile(await download.path(), "utf8")).toBe("To the board");

  const stored = await server().storage.from("plan_files").list(plan.id);
  expect(stored.data).toHaveLength(2);
  expect(stored.data?.[0]?.name).toMatch(/^[a-z0-9]+_\d+\.txt$/);
  expect(stored.data?.[0]?.metadata?.cacheControl).toBe("max-age=3600");
  await page.getByRole("button", { name: "Delete Budget 2027" }).click();
  await page.getByRole("alertdialog", { name: "Delete File" }).getByRole("button", { name: "Delete File" }).click();
  await expectToast(page, "File deleted successfully");
  await expect(files.getByRole("listitem")).toHaveCount(1);
  expect((await server().storage.from("plan_files").list(plan.id)).data).toHaveLength(1);
});

test("unsupported files are rejected before upload", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}?tab=resources`);
  await page
    .locator("input[type=file]")
    .setInputFiles([
      { name: "page.html", mimeType: "text/html", buffer: Buffer.from("<p>") },
      text("empty.txt", ""),
      text("good.txt"),
    ]);
  await expect(page.getByRole("alert")).toContainText("page.html: This type of file cannot be kept here.");
  await expect(page.getByRole("alert")).toContainText("empty.txt: This file is empty.");
  await expect(page.getByLabel("Title of good.txt")).toBeVisible();
});

test("images can be previewed and dropped", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}?tab=resources`);
  const transfer = await page.evaluateHandle(
    (bytes) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], "Hall.png", { type: "image/png" }));
      return data;
    },
    [...pixel],
  );
  await page.getByRole("button", { name: "Choose files" }).dispatchEvent("drop", { dataTransfer: transfer });
  await page.getByRole("button", { name: "Upload", exact: true }).click();
  await expectToast(page, "File uploaded successfully");
  await page.getByRole("button", { name: "Preview Hall" }).click();
  const image = page.getByRole("dialog", { name: "Hall" }).getByRole("img", { name: "Hall" });
  await expect.poll(() => image.evaluate((element: HTMLImageElement) => element.naturalWidth)).toBe(1);
});

test.describe(() => {
  // The connection that the test cuts.
  test.use({ allowedComplaint: /net::ERR_FAILED/ });

  test("large upload shows progress and resumes", async ({ person, signedIn }) => {
    test.slow();
    const maria = await person();
    const plan = await makePlan(maria, "Warm meals");
    const page = await signedIn(maria);
    await page.goto(`/plan/${plan.id}?tab=resources`);
    const large = {
      name: "Report.pdf",
      mimeType: "application/pdf",
      buffer: Buffer.alloc(14 * 1024 * 1024, "%PDF-1.7 "),
    };
    const pieces: string[] = [];
    let cut = true;
    await page.route("**/storage/v1/upload/resumable/**", async (route) => {
      if (route.request().method() === "PATCH") {
        if (cut) return route.abort();
        pieces.push(route.request().headers()["upload-offset"] ?? "");
      }
      await route.continue();
    });
    await page.locator("input[type=file]").setInputFiles(large);
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    const bar = page.getByRole("progressbar", { name: "Upload of Report.pdf" });
    // The first 6 of 14 MB have arrived, the rest are held.
    await expect(bar).toHaveAttribute("aria-valuenow", "43");
    // Aborts, as closing the tab does.
    await page.goto("/terms");
    cut = false;
    await page.goto(`/plan/${plan.id}?tab=resources`);
    await page.locator("input[type=file]").setInputFiles(large);
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    await expectToast(page, "File uploaded successfully");
    expect(pieces[0]).toBe(String(6 * 1024 * 1024));
  });
});

test("an upload can be cancelled", async ({ person, signedIn }) => {
  const maria = await person();
  const plan = await makePlan(maria, "Warm meals");
  const page = await signedIn(maria);
  await page.goto(`/plan/${plan.id}?tab=resources`);
  // Never responds.
  await page.route("**/storage/v1/object/plan_files/**", () => undefined);
  await page.locator("input[type=file]").setInputFiles(text("Slow.txt"));
  await page.getByRole("button", { name: "Upload", exact: true }).click();
  // How far it is is not known, and it is under way.
  await expect(page.getByRole("progressbar", { name: "Upload of Slow.txt" })).not.toHaveAttribute("aria-valuenow");
  await page.getByRole("button", { name: "Cancel the upload of Slow.txt" }).click();
  await expect(page.getByText("Title of Slow.txt")).toHaveCount(0);
  await expect(page.getByRole("heading", { name: "No files yet" })).toBeVisible();
  await expect(page.getByText("Failed to upload file")).toHaveCount(0);
});

test("viewers can only read files; others have no access", async ({ person, signedIn }) => {
  const [maria, vera, stranger] = [await person(), await person(), await person()];
  const plan = await makePlan(maria, "Warm meals");
  await addMember(plan.id, vera, "viewer");
  const path = `${plan.id}/a_1.txt`;
  await maria.client.storage.from("plan_files").upload(path, Buffer.from("Dear all"), { contentType: "text/plain" });
  await maria.client
    .from("plan_attachments")
    .insert({ plan_id: plan.id, title: "Letter", file_url: path })
    .throwOnError();
  const page = await signedIn(vera);
  await page.goto(`/plan/${plan.id}?tab=resources`);
  await expect(page.getByText("Letter")).toBeVisible();
  await expect(page.getByRole("button", { name: "Upload", exact: true })).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Delete Letter" })).toHaveCount(0);
  const started = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download Letter" }).click();
  expect((await started).suggestedFilename()).toBe("Letter.txt");

  const denied = await vera.client.storage
    .from("plan_files")
    .upload(`${plan.id}/b.txt`, Buffer.from("x"), { contentType: "text/plain" });
  expect(denied.error?.message).toContain("row-level security");
  expect((await stranger.client.storage.from("plan_files").createSignedUrl(path, 60)).error).not.toBeNull();

  // The file is gone, its row is not.
  await maria.client.storage.from("plan_files").remove([path]);
  await page.getByRole("button", { name: "Download Letter" }).click();
  await expectToast(page, "File not found");
});
