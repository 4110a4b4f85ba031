import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { MailSettingsForm } from "./mail-settings";

const row = {
  updated_at: "2026-11-22T10:00:00Z",
  value: { apiKey: "••••••••WXYZ", fromEmail: "plans@river.org", fromName: "River" },
};

function show(answer: (path: string) => Response) {
  const server = vi.fn(async (input: string | URL | Request, _init?: RequestInit) =>
    answer(new URL(input instanceof Request ? input.url : input).pathname),
  );
  vi.stubGlobal("fetch", server);
  const calls = () =>
    server.mock.calls.map(([url, init]) => `${init?.method} ${new URL(String(url)).pathname.split("/").at(-1)}`);
  return { ...renderPage(<MailSettingsForm row={row} />), server, calls };
}

test("rejected key is not saved, and the field shows the reason", async () => {
  const error = "Resend rejects this key: API key is invalid";
  const { user, calls } = show(() => Response.json({ error, code: "api_key" }, { status: 400 }));
  await user.click(screen.getByRole("button", { name: "Replace key" }));
  await user.type(screen.getByLabelText("Resend API Key"), "re_wrong");
  await user.click(screen.getByRole("button", { name: "Save Settings" }));

  await vi.waitFor(() => expect(screen.getByLabelText("Resend API Key")).toHaveAccessibleDescription(error));
  expect(screen.getByLabelText("Resend API Key")).toHaveValue("re_wrong");
  expect(await screen.findByText("Failed to save settings.")).toBeInTheDocument();
  expect(calls()).toEqual(["POST test-mail-key"]);
});

test("name alone is saved without a test", async () => {
  const { user, calls } = show(() => Response.json({ key: "email_resend" }));
  await user.type(screen.getByLabelText("From Name"), "side");
  await user.click(screen.getByRole("button", { name: "Save Settings" }));
  await vi.waitFor(() => expect(calls()).toEqual(["PATCH app_settings"]));
});

test("removed key hands waiting mail over", async () => {
  const { user, server, calls } = show(() => Response.json({ key: "email_resend" }));
  await user.click(screen.getByRole("button", { name: "Remove key" }));
  await user.click(await screen.findByRole("button", { name: "Remove Key" }));
  await vi.waitFor(() => expect(calls()).toEqual(["PATCH app_settings", "POST retry-mails"]));
  expect(JSON.parse(String(server.mock.calls[0]?.[1]?.body))).toEqual({
    value: { apiKey: "", fromEmail: "plans@river.org", fromName: "River" },
  });
});
