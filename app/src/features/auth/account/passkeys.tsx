import type { PasskeyListItem } from "@supabase/supabase-js";
import { useQuery } from "@tanstack/react-query";
import { KeyRoundIcon, PlusIcon } from "lucide-react";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { InlineEdit } from "@/components/inline-edit";
import { Loaded } from "@/components/loaded";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { formatDay } from "@/lib/dates";
import { passkeyFailure } from "../passkeys";
import { deviceOf } from "./device";
import { passkeysKey, passkeysQuery } from "./queries";

const longestName = 120;

const nameOf = (passkey: PasskeyListItem) => passkey.friendly_name || "Passkey";

/** The person's passkeys: adding, renaming and removing them. */
export function Passkeys() {
  const passkeys = useQuery(passkeysQuery());
  const [removing, setRemoving] = useState(false);
  const [subject, setSubject] = useState<PasskeyListItem | null>(null);
  const add = useChange({
    done: "Passkey added",
    failed: "The passkey could not be added",
    refetches: [passkeysKey],
    change: async (_: undefined) => {
      const { data, error } = await basalt.auth.registerPasskey();
      if (error) throw new Error(passkeyFailure(error));
      // Only a suggestion: without it the passkey works all the same.
      await basalt.auth.passkey.update({ passkeyId: data.id, friendlyName: deviceOf(navigator.userAgent) });
    },
  });
  const rename = useChange({
    done: "Passkey renamed",
    failed: "The passkey could not be renamed",
    refetches: [passkeysKey],
    change: async (change: { passkeyId: string; friendlyName: string }) => {
      const { error } = await basalt.auth.passkey.update(change);
      if (error) throw new Error(passkeyFailure(error));
      return true;
    },
  });
  const remove = useChange({
    done: "Passkey removed",
    failed: "The passkey could not be removed",
    refetches: [passkeysKey],
    change: async (passkeyId: string) => {
      const { error } = await basalt.auth.passkey.delete({ passkeyId });
      if (error) throw new Error(passkeyFailure(error));
    },
  });
  return (
    <Loaded query={passkeys} loading="Loading your passkeys..." failed="Your passkeys could not be loaded">
      {(list) => (
        <div className="grid gap-4">
          {list.length === 0 ? (
            <p className="text-sm">You have no passkeys yet.</p>
          ) : (
            <ul className="divide-y border-y">
              {list.map((passkey) => (
                <li key={passkey.id} className="flex flex-wrap items-center gap-x-4 gap-y-2 py-3">
                  <KeyRoundIcon aria-hidden className="size-5 shrink-0 text-muted-foreground" />
                  <div className="min-w-0 flex-1 basis-40 [overflow-wrap:anywhere]">
                    <InlineEdit
                      label={`Rename ${nameOf(passkey)}`}
                      value={nameOf(passkey)}
                      faultOf={nameFault}
                      save={(friendlyName) => rename.mutateAsync({ passkeyId: passkey.id, friendlyName })}
                      className="font-medium text-sm"
                    >
                      <p className="inline font-medium text-sm">{nameOf(passkey)}</p>
                    </InlineEdit>
                    <p className="text-muted-foreground text-sm">
                      Added {formatDay(passkey.created_at)}
                      {passkey.last_used_at && `, last used ${formatDay(passkey.last_used_at)}`}
                    </p>
                  </div>
                  <Button
                    variant="secondary"
                    size="small"
                    aria-label={`Remove ${nameOf(passkey)}`}
                    onClick={() => {
                      setSubject(passkey);
                      setRemoving(true);
                    }}
                  >
                    Remove
                  </Button>
                </li>
              ))}
            </ul>
          )}
          <SubmitButton
            type="button"
            variant="secondary"
            className="justify-self-start"
            busy={add.isPending}
            busyLabel="Waiting for your device..."
            disabled={add.isPending}
            onClick={() => add.mutate(undefined)}
          >
            <PlusIcon aria-hidden />
            Add a passkey
          </SubmitButton>
          {subject && (
            <ConfirmDialog
              open={removing}
              onOpenChange={setRemoving}
              title="Remove Passkey"
              description={`You can no longer log in with “${nameOf(subject)}”. Your device may still list it; delete it there, too.`}
              confirmLabel="Remove"
              busyLabel="Removing..."
              onConfirm={() => remove.mutateAsync(subject.id)}
            />
          )}
        </div>
      )}
    </Loaded>
  );
}

function nameFault(name: string) {
  if (name === "") return "Enter a name";
  return [...name].length > longestName ? `Use at most ${longestName} characters` : null;
}
