import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "react-router";
import { SubmitButton } from "@/components/submit-button";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";
import { type ProviderName, providerNames, providersQuery } from "./settings";

interface ProviderButtonsProps {
  /** Where to go once signed in. */
  returnTo: string;
}

/** "Continue with Google" and the like, where the server has them configured. */
export function ProviderButtons({ returnTo }: ProviderButtonsProps) {
  const { data: providers = [] } = useQuery(providersQuery());
  const [busy, setBusy] = useState<ProviderName | null>(null);
  const { key } = useLocation();
  if (providers.length === 0) return null;

  async function start(provider: ProviderName) {
    setBusy(provider);
    const { error } = await basalt.auth.signInWithOAuth({
      provider,
      options: { redirectTo: window.location.origin + returnTo },
    });
    // Without an error the browser is on its way to the provider.
    if (!error) return;
    setBusy(null);
    toast.error("Login failed", { description: messageOf(error) });
  }

  return (
    <div key={key} className="mt-6 grid gap-3">
      <p className="flex items-center gap-3 text-muted-foreground text-sm before:h-px before:grow before:bg-border after:h-px after:grow after:bg-border">
        or
      </p>
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
