import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "react-router";
import { SubmitButton } from "@/components/submit-button";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";
import { passkeyFailure } from "./passkeys";
import { type ProviderName, providerNames, signInMethodsQuery } from "./settings";

interface OtherSignInsProps {
  /** Where a provider returns to. */
  returnTo: string;
  /** Whether the person may have an account, and with it a passkey. */
  forLogin: boolean;
}

/** "Sign in with a passkey" and "Continue with Google", if the server has them configured. */
export function OtherSignIns({ returnTo, forLogin }: OtherSignInsProps) {
  const { data: { providers, passkeys } = { providers: [], passkeys: false } } = useQuery(signInMethodsQuery());
  const [busy, setBusy] = useState<ProviderName | "passkey" | null>(null);
  const { key } = useLocation();
  const offersPasskeys = passkeys && forLogin;
  if (providers.length === 0 && !offersPasskeys) return null;

  /** The guard sees the new session and leaves this screen. */
  async function signInWithPasskey() {
    setBusy("passkey");
    const { error } = await basalt.auth.signInWithPasskey().catch((error: unknown) => ({ error }));
    setBusy(null);
    if (!error) return toast.success("Login successful", { description: "Welcome back!" });
    toast.error("Login failed", { description: passkeyFailure(error) });
  }

  async function start(provider: ProviderName) {
    setBusy(provider);
    const { error } = await basalt.auth.signInWithOAuth({
      provider,
      options: { redirectTo: window.location.origin + returnTo },
    });
    // Without an error, the browser is loading the provider's page.
    if (!error) return;
    setBusy(null);
    toast.error("Login failed", { description: messageOf(error) });
  }

  return (
    <div key={key} className="mt-6 grid gap-3">
      <p className="flex items-center gap-3 text-muted-foreground text-sm before:h-px before:grow before:bg-border after:h-px after:grow after:bg-border">
        or
      </p>
      {offersPasskeys && (
        <SubmitButton
          type="button"
          variant="secondary"
          className="w-full"
          busy={busy === "passkey"}
          busyLabel="Waiting for your passkey..."
          disabled={busy !== null}
          onClick={() => void signInWithPasskey()}
        >
          Sign in with a passkey
        </SubmitButton>
      )}
      {providers.map((provider) => (
        <SubmitButton
          key={provider}
          type="button"
          variant="secondary"
          className="w-full"
          busy={busy === provider}
          busyLabel="Redirecting..."
          disabled={busy !== null}
          onClick={() => void start(provider)}
        >
          Continue with {providerNames[provider]}
        </SubmitButton>
      ))}
    </div>
  );
}
