import { expect, test } from "./fixtures";
import { Mailbox } from "./mailbox";
import { server } from "./workspace";

/** The app has no input for a code, so a mail must not contain one. */
const code = /\b\d{6}\b/;

test("invitation, sign-in and address mails contain only a link", async ({ person, newAccount, request }) => {
  const mailbox = new Mailbox(request);
  const invited = await server().auth.admin.inviteUserByEmail(newAccount.email);
  expect(invited.error).toBeNull();
  const invitation = await mailbox.latest(newAccount.email);
  expect(invitation.link).toContain("type=invite");
  expect(invitation.text).not.toMatch(code);

  const maria = await person();
  expect((await maria.client.auth.signInWithOtp({ email: maria.email })).error).toBeNull();
  const link = await mailbox.latest(maria.email);
  expect(link.link).toContain("type=magiclink");
  expect(link.text).not.toMatch(code);

  const tom = await person();
  const next = `next-${tom.email}`;
  expect((await tom.client.auth.updateUser({ email: next })).error).toBeNull();
  const change = await mailbox.latest(next);
  expect(change.link).toContain("type=email_change");
  expect(change.text).toContain(next);
  expect(change.text).not.toMatch(code);
});
