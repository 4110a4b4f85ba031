import type { Factor } from "@supabase/supabase-js";
import { useQuery } from "@tanstack/react-query";
import { PlusIcon, ShieldCheckIcon } from "lucide-react";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { lazyDialog } from "@/components/lazy-part";
import { Loaded } from "@/components/loaded";
import { Badge } from "@/components/ui/badge";
import { Button } from "@/components/ui/button";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { formatDay } from "@/lib/dates";
import { factorsKey, factorsQuery } from "./queries";
import { RecoveryCodes } from "./recovery-codes";

const EnrollDialog = lazyDialog(() => import("./enroll-dialog").then(({ EnrollDialog }) => EnrollDialog));

/** Authenticator apps, which provide the second factor after the password. */
export function TwoFactor() {
  const factors = useQuery(factorsQuery());
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState(false);
  const [subject, setSubject] = useState<Factor | null>(null);
  const remove = useChange({
    done: "Authenticator app removed",
    failed: "The authenticator app could not be removed",
    refetches: [factorsKey],
    change: async (factorId: string) => {
      const { error } = await basalt.auth.mfa.unenroll({ factorId });
      if (error) throw error;
      // The stored session still lists the factor; until it is refreshed, a reload would request its code.
      await basalt.auth.refreshSession();
    },
  });
  return (
    <Loaded
      query={factors}
      loading="Loading your authenticator apps..."
      failed="Your authenticator apps could not be loaded"
    >
      {(all) => {
        const verified = all.filter(({ status, factor_type: type }) => status === "verified" && type === "totp");
        const hasCodes = all.some(({ factor_type: type }) => type === "recovery_code");
        return (
          <div className="grid gap-4">
            <p className="flex flex-wrap items-center gap-2 text-sm">
              {verified.length > 0 ? <Badge tone="success">On</Badge> : <Badge tone="neutral">Off</Badge>}
              {verified.length > 0
                ? "Logging in takes your password and a code."
                : "Logging in takes only your password."}
            </p>
            {verified.length > 0 && (
              <ul className="divide-y border-y">
                {verified.map((factor) => (
                  <li key={factor.id} className="flex flex-wrap items-center gap-x-4 gap-y-2 py-3">
                    <ShieldCheckIcon aria-hidden className="size-5 shrink-0 text-success" />
                    <div className="min-w-0 grow [overflow-wrap:anywhere]">
                      <p className="font-medium text-sm">{nameOf(factor)}</p>
                      <p className="text-muted-foreground text-sm">Added {formatDay(factor.created_at)}</p>
                    </div>
                    <Button
                      variant="secondary"
                      size="small"
                      aria-label={`Remove ${nameOf(factor)}`}
                      onClick={() => {
                        setSubject(factor);
                        setRemoving(true);
                      }}
                    >
                      Remove
                    </Button>
                  </li>
                ))}
              </ul>
            )}
            <Button variant="secondary" className="justify-self-start" onClick={() => setAdding(true)}>
              <PlusIcon aria-hidden />
              Add an authenticator app
            </Button>
            {verified.length > 0 && <RecoveryCodes exist={hasCodes} />}
            <EnrollDialog open={adding} onOpenChange={setAdding} known={all} />
            {subject && (
              <ConfirmDialog
                open={removing}
                onOpenChange={setRemoving}
                title="Remove Authenticator App"
                description={
                  verified.length === 1
                    ? "Logging in will take only your password."
                    : `Codes of “${nameOf(subject)}” will no longer work.`
                }
                confirmLabel="Remove"
                busyLabel="Removing..."
                onConfirm={() => remove.mutateAsync(subject.id)}
              />
            )}
          </div>
        );
      }}
    </Loaded>
  );
}

const nameOf = (factor: Factor) => factor.friendly_name || "Authenticator app";
