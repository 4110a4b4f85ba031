import { expect, test } from "./fixtures";

test("login returns a visitor to the requested page", async ({ page, person }) => {
  const { email, password } = await person();
  await page.goto("/dashboard");
  await expect(page).toHaveURL("/login");

  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log In" }).click();
  await expect(page).toHaveURL("/dashboard");
  await expect(page.getByText("Welcome back!", { exact: true })).toBeVisible();
});

test("signed-in user is redirected from login to dashboard", async ({ person, signedIn }) => {
  const page = await signedIn(await person());
  for (const path of ["/login", "/register", "/forgot-password", "/reset-password"]) {
    await page.goto(path);
    await expect(page, path).toHaveURL("/dashboard");
  }
});

test("signing out leads to the login screen", async ({ person, signedIn }) => {
  const page = await signedIn(await person());
  await page.goto("/dashboard");
  await page.getByRole("button", { name: "User menu" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await expect(page).toHaveURL("/login");
  await page.goto("/dashboard");
  await expect(page).toHaveURL("/login");
});

test("wrong password and unknown address show the same error", async ({ page, person }) => {
  const { email } = await person();
  const refused = page.getByRole("alert").getByText("Invalid email or password. Please try again.");
  await page.goto("/login");
  for (const address of [email, "nobody@example.org"]) {
    await page.getByLabel("Email").fill(address);
    await page.getByLabel("Password").fill("wrong password");
    await page.getByRole("button", { name: "Log In" }).click();
    await expect(refused).toBeVisible();
    await expect(page.getByLabel("Password")).toBeFocused();
  }
  await expect(page).toHaveURL("/login");
});

test("an address can sign up only once", async ({ page, person }) => {
  const { email, password } = await person();
  await page.goto("/register");
  await page.getByLabel("Organization Name").fill("Second try");
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByLabel("I agree to the terms and privacy policy").check();
  await page.getByRole("button", { name: "Sign Up" }).click();

  await expect(page.getByText("Registration failed")).toBeVisible();
  await expect(page.getByLabel("Email")).toHaveAccessibleDescription("There is already an account with this email.");
  await expect(page.getByLabel("Email")).toBeFocused();
  await expect(page.getByLabel("Organization Name")).toHaveValue("Second try");
  // The form offers to log in and keeps the address.
  await page.getByRole("main").getByRole("button", { name: "Log In" }).click();
  await expect(page).toHaveURL("/login");
  await expect(page.getByLabel("Email")).toHaveValue(email);
});

test("login and sign-up are tabs that share the address", async ({ page }) => {
  await page.goto("/login");
  await page.getByLabel("Email").fill("maria@example.org");
  const password = page.getByLabel("Password");
  await password.fill("correct horse");
  await page.getByRole("button", { name: "Show what you typed" }).click();
  await expect(password).toHaveAttribute("type", "text");
  await page.getByRole("button", { name: "Hide what you typed" }).click();
  await expect(password).toHaveAttribute("type", "password");

  await page.getByRole("tab", { name: "Sign Up" }).click();
  await expect(page).toHaveURL("/register");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Create your account");
  await expect(page.getByLabel("Email")).toHaveValue("maria@example.org");
  await expect(page.getByRole("tab", { name: "Sign Up" })).toBeFocused();
  await page.keyboard.press("ArrowLeft");
  // The focus moves after the key press is handled.
  await expect(page.getByRole("tab", { name: "Log In" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL("/login");
  await page.getByRole("link", { name: "Forgot password?" }).click();
  await expect(page.getByLabel("Email")).toHaveValue("maria@example.org");
});

for (const remembered of [true, false]) {
  test(`remember me ${remembered ? "on: other tabs are signed in too" : "off: only this tab is"}`, async ({
    page,
    person,
  }) => {
    const { email, password } = await person();
    await page.goto("/login");
    await page.getByLabel("Email").fill(email);
    await page.getByLabel("Password").fill(password);
    await page.getByLabel("Remember me").setChecked(remembered);
    await page.getByRole("button", { name: "Log In" }).click();
    await expect(page).toHaveURL("/dashboard");
    await page.reload();
    await expect(page).toHaveURL("/dashboard");
    await expect(page.getByRole("button", { name: "User menu" })).toBeVisible();

    const other = await page.context().newPage();
    await other.goto("/dashboard");
    await expect(other).toHaveURL(remembered ? "/dashboard" : "/login");
  });
}

test("user menu shows the user's name", async ({ person, signedIn }) => {
  const maria = await person();
  const page = await signedIn(maria);
  await page.goto("/");
  await page.getByRole("button", { name: "User menu" }).click();
  await expect(page.getByRole("menu")).toContainText(maria.email);
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "Dashboard" }).click();
  await expect(page).toHaveURL("/dashboard");
  await expect(page.getByRole("heading", { level: 1 })).toBeFocused();
});

test("typed text survives the end of the session", async ({ person, signedIn }) => {
  const maria = await person();
  const page = await signedIn(maria);
  await page.goto("/dashboard");
  await page.getByRole("button", { name: "Create Plan" }).click();
  const title = page.getByRole("dialog", { name: "Create Plan" }).getByLabel("Title");
  await title.fill("Long thought");
  // As if the server had ended the session: the client finds out when it next needs a token.
  await page.evaluate(() => {
    const key = Object.keys(localStorage).find((name) => name.endsWith("-auth-token")) ?? "";
    const session = JSON.parse(localStorage.getItem(key) ?? "{}");
    localStorage.setItem(key, JSON.stringify({ ...session, expires_at: 1, refresh_token: "gone" }));
  });
  // Press a key instead of clicking: the dialog below may already cover the button, and then receives the key.
  await page.keyboard.press("Enter");
  const lapsed = page.getByRole("dialog", { name: "Your session has ended" });
  await expect(lapsed).toBeVisible();
  await lapsed.getByLabel("Password").fill(maria.password);
  await lapsed.getByRole("button", { name: "Log In" }).click();
  await expect(lapsed).toBeHidden();
  await expect(title).toHaveValue("Long thought");
  await page.getByRole("dialog", { name: "Create Plan" }).getByRole("button", { name: "Create Plan" }).click();
  await expect(page.getByText("Plan created", { exact: true })).toBeVisible();
});

test("expired session is reported on load", async ({ page, person }) => {
  const { storage } = await person();
  await page.goto("/terms");
  await page.evaluate(
    (items) => {
      for (const { name, value } of items) {
        const session = JSON.parse(value);
        localStorage.setItem(name, JSON.stringify({ ...session, expires_at: 1, refresh_token: "gone" }));
      }
    },
    storage.filter(({ name }) => name.endsWith("-auth-token")),
  );
  await page.goto("/dashboard");
  await expect(page).toHaveURL("/login");
  await expect(page.getByText("Your session has ended. Log in to go on where you were.")).toBeVisible();
});
