import { ProsePage } from "@/components/prose-page";

const sections = [
  {
    heading: "What we store",
    text: (
      <ul className="grid list-disc gap-1.5 pl-5">
        <li>
          Your e-mail address, the name of your organization, and your password as a hash that cannot be read back.
        </li>
        <li>Your name and picture, if you give them.</li>
        <li>The plans, priorities, tasks, comments and files that you and your team put in.</li>
        <li>Who is a member of which plan, and in which role.</li>
        <li>If you subscribe: which plan, since when and until when. Card numbers stay with the payment provider.</li>
        <li>When you logged in, and from which network address, to keep accounts safe.</li>
      </ul>
    ),
  },
  {
    heading: "What we use it for",
    text: (
      <p>
        To run the service, to send the mails that belong to it, such as invitations and password links, and to find and
        mend faults. We do not sell data, show advertisements or follow you across the web.
      </p>
    ),
  },
  {
    heading: "Who can see it",
    text: (
      <p>
        The members of a plan see that plan. Anyone with a link to its report sees the report, without people, until the
        link expires or is revoked. Administrators of this site see what they need to run it. The card payment provider
        receives your e-mail address and the name of your organization when you subscribe, and the mail provider
        receives the address that a mail goes to.
      </p>
    ),
  },
  {
    heading: "In your browser",
    text: (
      <p>
        We keep your session and your choice of theme in your browser's storage, and the width of the administrators'
        sidebar in a cookie. Nothing of this is for tracking.
      </p>
    ),
  },
  {
    heading: "How long",
    text: (
      <p>
        As long as you have an account. A plan that you delete stays in the bin for 30 days, where you can restore it or
        delete it for good; then its tasks and files are removed. Backups that still hold them expire in their turn.
      </p>
    ),
  },
  {
    heading: "Your rights",
    text: (
      <p>
        You may see, correct, take with you and delete what we store about you. Most of it you can do in the app; for
        the rest, answer any mail that we sent you.
      </p>
    ),
  },
];

export function Component() {
  return (
    <ProsePage title="Privacy policy" subtitle="What we store about you, why, and who sees it." sections={sections} />
  );
}
