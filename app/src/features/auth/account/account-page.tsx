import type { User } from "@supabase/supabase-js";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { lazyPart } from "@/components/lazy-part";
import { LoadingState } from "@/components/page-state";
import { signInMethodsQuery } from "../settings";
import { Connections } from "./connections";
import { DeleteAccount, MyData } from "./data-section";
import { EmailForm } from "./email-form";
import { PasswordForm } from "./password-form";
import { ProfileForm } from "./profile-form";
import { Section } from "./section";
import { Sessions } from "./sessions";
import { TwoFactor } from "./two-factor";

const Passkeys = lazyPart(
  () => import("./passkeys").then(({ Passkeys }) => Passkeys),
  <LoadingState label="Loading your passkeys..." />,
);

interface AccountPageProps {
  user: User;
  onDeleted: () => void;
  /** Which mails the person gets. */
  mails: ReactNode;
}

export function AccountPage({ user, onDeleted, mails }: AccountPageProps) {
  const { data: { providers, passkeys } = { providers: [], passkeys: false } } = useQuery(signInMethodsQuery());
  const hasOthers = user.identities?.some(({ provider }) => provider !== "email") ?? false;
  return (
    <>
      <Section title="Profile" description="How you and your organization appear to your team.">
        <ProfileForm user={user} />
      </Section>
      <Section title="Email address" description="You log in with this address and receive mail at it.">
        <EmailForm user={user} />
      </Section>
      <Section title="Password">
        <PasswordForm user={user} />
      </Section>
      <Section
        title="Second factor"
        description="Logging in takes your password and a code from an app on your phone. A stolen password is then not enough."
      >
        <TwoFactor />
      </Section>
      {passkeys && (
        <Section
          title="Passkeys"
          description="Log in with your fingerprint, your face or the PIN of your device, without a password."
        >
          <Passkeys />
        </Section>
      )}
      {(providers.length > 0 || hasOthers) && (
        <Section title="Connected accounts" description="Other ways to log in to this account.">
          <Connections offered={providers} />
        </Section>
      )}
      <Section
        title="Where you are signed in"
        description="Sign out any device you do not recognize, then change your password."
      >
        <Sessions />
      </Section>
      <div id="mails" className="scroll-mt-20">
        <Section
          title="Mails about plans"
          description="A digest on Mondays, a reminder three days before a task is due, and a mail when someone mentions you."
        >
          {mails}
        </Section>
      </div>
      <Section
        title="Your data"
        description="Your account, and the plans you can see, with priorities, tasks, team and files."
      >
        <MyData user={user} />
      </Section>
      <Section title="Delete account" description="You see what happens to your plans before anything is deleted.">
        <DeleteAccount user={user} onDeleted={onDeleted} />
      </Section>
    </>
  );
}
