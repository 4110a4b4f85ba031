import { SendAgain } from "@/components/send-again";
import { Alert } from "@/components/ui/alert";
import { basalt } from "@/lib/basalt";
import { type Invited, invitedIn } from "@/lib/invited";

/** A sign-up whose address has yet to be confirmed by a link in a mail. */
interface Confirming {
  email: string;
  redirectTo: string;
}

export function confirmingIn(state: unknown): Confirming | null {
  if (!state || typeof state !== "object" || !("confirming" in state)) return null;
  const { email, redirectTo } = (state.confirming ?? {}) as Record<string, unknown>;
  return typeof email === "string" && typeof redirectTo === "string" ? { email, redirectTo } : null;
}

/** Where the link of the confirming mail leads. */
export function confirmationTarget(invited: Invited | null) {
  return window.location.origin + (invited?.path ?? "/dashboard");
}

/** What the mail that was just sent is for, and a way to have it sent again. */
export function ConfirmationNote({ state }: { state: unknown }) {
  const confirming = confirmingIn(state);
  if (!confirming) return null;
  const { email, redirectTo } = confirming;
  const invited = invitedIn(state);

  async function send() {
    const { error } = await basalt.auth.resend({ type: "signup", email, options: { emailRedirectTo: redirectTo } });
    if (error) throw error;
  }

  return (
    <Alert
      role="status"
      tone="info"
      title="Check your email"
      action={<SendAgain send={send} failed="The link could not be sent" />}
    >
      <p>
        We sent a link to {email}. It confirms that the address is yours
        {invited ? `, and takes you to ${invited.planTitle}` : ", and logs you in"}.
      </p>
    </Alert>
  );
}
