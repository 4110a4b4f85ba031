import type { UserIdentity } from "@supabase/supabase-js";
import { useQuery } from "@tanstack/react-query";
import { Loaded } from "@/components/loaded";
import { SubmitButton } from "@/components/submit-button";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { codeOf } from "@/lib/errors";
import { type ProviderName, providerNames } from "../settings";
import { identitiesKey, identitiesQuery } from "./queries";

const nameOf = (provider: string) =>
  provider === "email" ? "Email and password" : (providerNames[provider as ProviderName] ?? provider);

/** The person's sign-in methods: the password, and accounts of providers. */
export function Connections({ offered }: { offered: ProviderName[] }) {
  const identities = useQuery(identitiesQuery());
  const unlink = useChange({
    failed: "The account could not be disconnected",
    done: "Account disconnected",
    refetches: [identitiesKey],
    change: async (identity: UserIdentity) => {
      const { error } = await basalt.auth.unlinkIdentity(identity);
      if (error) throw explain(error);
    },
  });
  const link = useChange({
    failed: "The account could not be connected",
    refetches: [],
    change: async (provider: ProviderName) => {
      const redirectTo = `${window.location.origin}/account`;
      const { error } = await basalt.auth.linkIdentity({ provider, options: { redirectTo } });
      if (error) throw explain(error);
    },
  });
  return (
    <Loaded query={identities} loading="Loading your accounts..." failed="Your connected accounts could not be loaded">
      {(list) => (
        <ul className="divide-y">
          {list.map((identity) => (
            <li
              key={identity.identity_id}
              className="flex flex-wrap items-center gap-x-4 gap-y-2 py-3 first:pt-0 last:pb-0"
            >
              <div className="min-w-0 grow [overflow-wrap:anywhere]">
                <p className="font-medium text-sm">{nameOf(identity.provider)}</p>
                <p className="text-muted-foreground text-sm">{String(identity.identity_data?.email ?? "Connected")}</p>
              </div>
              {list.length > 1 && identity.provider !== "email" && (
                <SubmitButton
                  type="button"
                  variant="secondary"
                  size="small"
                  busy={unlink.isPending}
                  busyLabel="Disconnecting..."
                  disabled={unlink.isPending}
                  aria-label={`Disconnect ${nameOf(identity.provider)}`}
                  onClick={() => unlink.mutate(identity)}
                >
                  Disconnect
                </SubmitButton>
              )}
            </li>
          ))}
          {offered
            .filter((provider) => !list.some((identity) => identity.provider === provider))
            .map((provider) => (
              <li key={provider} className="flex flex-wrap items-center gap-x-4 gap-y-2 py-3 last:pb-0">
                <div className="min-w-0 grow">
                  <p className="font-medium text-sm">{providerNames[provider]}</p>
                  <p className="text-muted-foreground text-sm">Not connected</p>
                </div>
                <SubmitButton
                  type="button"
                  variant="secondary"
                  size="small"
                  busy={link.isPending && link.variables === provider}
                  busyLabel="Redirecting..."
                  disabled={link.isPending}
                  aria-label={`Connect ${providerNames[provider]}`}
                  onClick={() => link.mutate(provider)}
                >
                  Connect
                </SubmitButton>
              </li>
            ))}
        </ul>
      )}
    </Loaded>
  );
}

/** By default the server links accounts only by verified addresses. */
function explain(error: Error) {
  if (codeOf(error) !== "manual_linking_disabled") return error;
  return new Error(
    "This server does not connect accounts by hand. Log in with an account that has the same email address, and it is connected automatically.",
  );
}
