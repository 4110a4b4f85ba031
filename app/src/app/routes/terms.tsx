import { Link } from "react-router";
import { ProsePage } from "@/components/prose-page";

const sections = [
  {
    heading: "What you get",
    text: (
      <p>
        An account lets your organization make strategic plans, share them with the people you invite, and keep files
        beside them. What a paid plan adds is listed on the <PricingLink /> page.
      </p>
    ),
  },
  {
    heading: "Your account",
    text: (
      <p>
        Give an address that is yours, choose a password you use nowhere else, and keep it to yourself. You answer for
        what is done with your account. If you think that someone else has used it, reset your password at once.
      </p>
    ),
  },
  {
    heading: "Your content stays yours",
    text: (
      <p>
        Plans, tasks, files and what you tell us about your organization belong to you. We store and show them so that
        the service works, to you and to the members of the plan, and for nothing else. Put nothing in that you have no
        right to share, or that is against the law.
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
          You can cancel at any time on the Subscription page. You then keep access until the end of the period you have
          paid for.
        </p>
      </>
    ),
  },
  {
    heading: "Fair use",
    text: (
      <p>
        Do not try to reach data that is not yours, to overload the service, or to send unwanted mail through its
        invitations. We may close an account that does.
      </p>
    ),
  },
  {
    heading: "What we promise, and what we cannot",
    text: (
      <p>
        We keep the service running and your data safe with the care of people who depend on it themselves. We cannot
        promise that it is never interrupted. As far as the law allows, our liability is limited to what you paid in the
        twelve months before.
      </p>
    ),
  },
  {
    heading: "Changes",
    text: <p>If these terms change in a way that matters, we tell you by e-mail before the change applies to you.</p>,
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
