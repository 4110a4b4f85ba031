import { Link } from "react-router";
import { ProsePage } from "@/components/prose-page";
import { OperatorDetails } from "@/features/operator/operator-details";

const sections = [
  { heading: "Who runs this site", text: <OperatorDetails /> },
  {
    heading: "What you get",
    text: (
      <p>
        An account lets your organization make strategic plans, share them with the people you invite, and keep files
        beside them. How much each subscription includes is listed on the <PricingLink /> page.
      </p>
    ),
  },
  {
    heading: "Your account",
    text: (
      <p>
        Give an address that is yours, choose a password you use nowhere else, and keep it to yourself. You answer for
        what is done with your account. If you think that someone else has used it, reset your password at once, and end
        the other sessions on your account page.
      </p>
    ),
  },
  {
    heading: "Your content stays yours",
    text: (
      <p>
        Plans, tasks, files and what you tell us about your organization belong to you. We store and show them so that
        the service works, to you, to the members of the plan and to those who have a link to its report, and for
        nothing else. Put nothing in that you have no right to share, or that is against the law.
      </p>
    ),
  },
  {
    heading: "Paying and canceling",
    text: (
      <>
        <p>
          Subscriptions are paid in advance for each period and renew by themselves until you cancel. Payments go
          through a card payment provider; we never see your card number.
        </p>
        <p>
          You can cancel at any time on the Subscription page. The subscription then lasts until the end of the period
          you have paid for. What you have made stays yours to read and edit after that, but you may not be able to add
          to it. If you delete your account, a subscription ends at once.
        </p>
      </>
    ),
  },
  {
    heading: "Fair use",
    text: (
      <p>
        Do not try to reach data that is not yours, to overload the service, or to send unwanted mail through its
        invitations. We may disable an account that does.
      </p>
    ),
  },
  {
    heading: "What we cannot promise",
    text: (
      <p>
        We cannot promise that the service is never interrupted or that nothing is ever lost: keep a copy of what you
        cannot do without. Your account page lets you download your data and your files. As far as the law allows, our
        liability is limited to what you paid in the twelve months before.
      </p>
    ),
  },
  {
    heading: "Changes",
    text: <p>The terms on this page are those that apply. If we change them, the new ones are published here.</p>,
  },
];

function PricingLink() {
  return (
    <Link to="/pricing" className="text-primary underline underline-offset-2">
      pricing
    </Link>
  );
}

export function Component() {
  return (
    <ProsePage title="Terms of service" subtitle="What you can expect of us, and we of you." sections={sections} />
  );
}
