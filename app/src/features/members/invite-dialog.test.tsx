import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { InviteDialog, inviteSchema } from "./invite-dialog";

const messageOf = (email: string) => {
  const parsed = inviteSchema.safeParse({ email, role: "viewer" });
  return parsed.success ? null : parsed.error.issues[0]?.message;
};

test("several addresses are accepted at once, up to twenty", () => {
  expect(messageOf("Ana@river.org; bo@river.org, cy@river.org")).toBeNull();
  expect(messageOf("none")).toBe("Please enter a valid email address");
  expect(messageOf("")).toBe("Please enter a valid email address");
  expect(messageOf("ana@river.org, none")).toBe("Please enter a valid email address: none");
  const many = Array.from({ length: 21 }, (_, index) => `a${index}@river.org`);
  expect(messageOf(many.slice(1).join(" "))).toBeNull();
  expect(messageOf(many.join(" "))).toBe("At most 20 addresses at once");
});

/** A server on which these addresses are members already. */
function serve(members: string[]) {
  const server = vi.fn(async (input: string | URL | Request, init?: RequestInit) => {
    const url = new URL(input instanceof Request ? input.url : input);
    if (url.pathname.endsWith("/invite-member")) return Response.json({ error: "No mail today" }, { status: 503 });
    if (init?.method === "POST") return Response.json({ invite_token: "5eed0000-0000-4000-8000-000000000001" });
    const email = url.searchParams.get("email")?.replace("eq.", "") ?? "";
    return Response.json(members.includes(email) ? [{ id: "1" }] : []);
  });
  vi.stubGlobal("fetch", server);
  const sent = (path: string) =>
    server.mock.calls
      .filter(([url, init]) => String(url).includes(path) && init?.method === "POST")
      .map(([, init]) => JSON.parse(String(init?.body)).email as string);
  return { sent };
}

test("each address is invited, and known ones stay in the field", async () => {
  const warned = vi.spyOn(console, "warn").mockImplementation(() => {});
  const { sent } = serve(["tom@river.org"]);
  const onOpenChange = vi.fn();
  const { user } = renderPage(
    <InviteDialog
      open
      onOpenChange={onOpenChange}
      planId="5eed1000-0000-4000-8000-000000000001"
      planTitle="Warm meals"
      inviterEmail="maria@river.org"
      inviterRole="owner"
    />,
  );
  await user.click(screen.getByLabelText("Email"));
  await user.paste("Ana@river.org\ntom@river.org\nana@river.org\nbo@river.org");
  expect(screen.getByLabelText("Email")).toHaveValue("ana@river.org, tom@river.org, bo@river.org");
  await user.click(screen.getByRole("button", { name: "Send Invitation" }));

  expect(await screen.findByText("Member already exists: tom@river.org")).toBeVisible();
  expect(screen.getByLabelText("Email")).toHaveValue("tom@river.org");
  expect(await screen.findByText("2 people have been invited to collaborate on this plan.")).toBeInTheDocument();
  expect(sent("plan_members")).toEqual(["ana@river.org", "bo@river.org"]);
  expect(sent("invite-member")).toEqual(["ana@river.org", "bo@river.org"]);
  expect(onOpenChange).not.toHaveBeenCalled();
  expect(warned).toHaveBeenCalledTimes(2);
});
