import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { PageHeading } from "@/components/page-heading";
import { AccountPage } from "@/features/auth/account/account-page";
import { signOut } from "@/features/auth/sign-out";
import { MailSettings } from "@/features/plan-mails/mail-settings";
import { toast } from "@/lib/toast";
import { useUser } from "../guards";

export function Component() {
  const user = useUser();
  const navigate = useNavigate();
  const queryClient = useQueryClient();

  async function leave() {
    // First away from here: the guard sends a person without a session to the log-in screen.
    await navigate("/", { replace: true });
    // The session is gone on the server; this browser still holds its own copy.
    await signOut();
    queryClient.clear();
    toast.success("Your account was deleted");
  }

  return (
    <div className="mx-auto max-w-5xl px-4 py-8 sm:px-6 sm:py-10">
      <PageHeading title="Your account" subtitle="Your profile, how you log in, and your data." />
      <AccountPage user={user} onDeleted={() => void leave()} mails={<MailSettings userId={user.id} />} />
    </div>
  );
}
