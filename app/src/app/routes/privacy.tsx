import { ProsePage } from "@/components/prose-page";
import { OperatorDetails } from "@/features/operator/operator-details";

const sections = [
  { heading: "Who runs this site", text: <OperatorDetails /> },
  {
    heading: "What we store",
    text: (
      <ul className="grid list-disc gap-1.5 pl-5">
        <li>
          Your e-mail address, the name of your organization, and your password as a hash that cannot be read back.
        </li>
        <li>Your name and picture, if you give them.</li>
        <li>If you use them: your passkeys, your second factor, and accounts elsewhere that you log in with.</li>
        <li>The plans, priorities, tasks, comments and files that you and your team put in.</li>
        <li>Who is a member of which plan or invited to it, and in which role.</li>
        <li>For 90 days, who did what in a plan.</li>
        <li>Your time zone, and which mails about plans you want.</li>
        <li>
          If you subscribe: which plan, since when and until when, and what the payment provider reports about payments.
          Card numbers stay with the payment provider.
        </li>
        <li>When, from which network address and with which browser you logged in, to keep accounts safe.</li>
      </ul>
    ),
  },
  {
    heading: "What we use it for",
    text: (
      <p>
        To run the service, to find and mend faults, and to send the mails that belong to it: invitations, codes and
        links for your account, and what you can stop on your account page: a weekly summary, reminders of due dates,
        and comments that mention you. We do not sell data, show advertisements or follow you across the web.
      </p>
    ),
  },
  {
    heading: "Who can see it",
    text: (
      <>
        <p>
          The members of a plan see that plan, and each other's name, picture and address. Anyone with a link to its
          report sees the report, without people, until the link expires or is revoked. Anyone who has the web address
          of your picture can open it.
        </p>
        <p>
          Administrators of this site see accounts and subscriptions in the app, but not your plans. Those who look
          after the server can reach everything that is stored on it.
        </p>
        <p>
          The card payment provider receives your e-mail address and the name of your organization when you subscribe,
          the mail provider each mail and the address that it goes to. If you log in with an account elsewhere, its
          provider learns of it.
        </p>
      </>
    ),
  },
  {
    heading: "In your browser",
    text: (
      <p>
        We keep your session and your choice of theme in your browser's storage, and for a while what you were in the
        middle of: an invitation you opened, a subscription you chose. A cookie keeps whether the administrators'
        sidebar is open. Nothing of this is for tracking.
      </p>
    ),
  },
  {
    heading: "How long",
    text: (
      <>
        <p>
          As long as you have an account. A plan that you delete stays in the bin for 30 days, where you can restore it
          or delete it for good; then its tasks and files are removed. A priority or a task that a member deletes from a
          plan stays in the plan's bin for up to 30 days, with its comments.
        </p>
        <p>
          If you delete your account, plans that you alone own are deleted at once. In other plans, what you have
          written stays, without your account. Records of logins, sent mails and payments can name your address for
          longer, and so can backups, until they expire.
        </p>
      </>
    ),
  },
  {
    heading: "Your rights",
    text: (
      <p>
        You may see, correct, take with you and delete what we store about you. Most of it you can do on your account
        page; for the rest, ask the operator.
      </p>
    ),
  },
];

export function Component() {
  return (
    <ProsePage title="Privacy policy" subtitle="What we store about you, why, and who sees it." sections={sections} />
  );
}
