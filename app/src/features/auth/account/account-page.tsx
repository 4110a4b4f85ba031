import type { User } from "@supabase/supabase-js";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { providersQuery } from "../settings";
import { Connections } from "./connections";
import { DeleteAccount, MyData } from "./data-section";
import { EmailForm } from "./email-form";
import { PasswordForm } from "./password-form";
import { ProfileForm } from "./profile-form";
import { Section } from "./section";
import { Sessions } from "./sessions";
import { TwoFactor } from "./two-factor";

interface AccountPageProps {
  user: User;
  onDeleted: () => void;
  /** Which mails the person gets. */
  mails: ReactNode;
}

export function AccountPage({ user, onDeleted, mails }: AccountPageProps) {
  const { data: offered = [] } = useQuery(providersQuery());
  const hasOthers = user.identities?.some(({ provider }) => provider !== "email") ?? false;
  return (
    <>
      <Section title="Profile" description="How you and your organization appear to your team.">
        <ProfileForm user={user} />
      </Section>
      <Section title="Email address" description="You log in with it, and mails go to it.">
        <EmailForm user={user} />
      </Section>
      <Section title="Password">
        <PasswordForm user={user} />
      </Section>
      <Section
        title="Second factor"
        description="A code from an app on your phone, asked for after your password. A stolen password alone opens nothing then."
      >
        <TwoFactor />
      </Section>
      {(offered.length > 0 || hasOthers) && (
        <Section title="Connected accounts" description="Other ways to log in to this account.">
          <Connections offered={offered} />
        </Section>
      )}
      <Section
        title="Where you are signed in"
        description="Sign out what you do not recognize, and change your password."
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
      <Section title="Delete account" description="Before anything is deleted, you see what becomes of your plans.">
        <DeleteAccount user={user} onDeleted={onDeleted} />
      </Section>
    </>
  );
}
