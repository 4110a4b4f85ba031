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

const EnrollDialog = lazyDialog(() => import("./enroll-dialog").then(({ EnrollDialog }) => EnrollDialog));

/** Authenticator apps, whose code is asked for after the password. */
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
      // The session's user still has the factor: without a new one a reload would ask for its code.
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
        const verified = all.filter(({ status }) => status === "verified");
        return (
          <div className="grid gap-4">
            <p className="flex flex-wrap items-center gap-2 text-sm">
              {verified.length > 0 ? <Badge tone="success">On</Badge> : <Badge tone="neutral">Off</Badge>}
              {verified.length > 0
                ? "Logging in needs your password and a code."
                : "Logging in needs your password alone."}
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
            <EnrollDialog open={adding} onOpenChange={setAdding} known={all} />
            {subject && (
              <ConfirmDialog
                open={removing}
                onOpenChange={setRemoving}
                title="Remove Authenticator App"
                description={
                  verified.length === 1
                    ? "Logging in will need your password alone."
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
