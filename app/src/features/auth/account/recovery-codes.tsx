import { useQuery } from "@tanstack/react-query";
import { KeySquareIcon } from "lucide-react";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { lazyDialog } from "@/components/lazy-part";
import { SubmitButton } from "@/components/submit-button";
import { Badge } from "@/components/ui/badge";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { factorsKey, recoveryCodesKey, recoveryCodesQuery } from "./queries";

const CodesDialog = lazyDialog(() => import("./recovery-codes-dialog").then(({ CodesDialog }) => CodesDialog));

const fewCodes = 3;

/** Codes that replace a lost authenticator app. `exist` says whether the person has a set. */
export function RecoveryCodes({ exist }: { exist: boolean }) {
  const { data: status } = useQuery({ ...recoveryCodesQuery(), enabled: exist });
  const [codes, setCodes] = useState<string[]>([]);
  const [showing, setShowing] = useState(false);
  const [replacing, setReplacing] = useState(false);
  const create = useChange({
    failed: "The recovery codes could not be created",
    refetches: [factorsKey, recoveryCodesKey],
    change: async (_: undefined) => {
      const { recoveryCodes } = basalt.auth.mfa;
      const { data, error } = exist ? await recoveryCodes.regenerate() : await recoveryCodes.generate();
      if (error) throw error;
      setCodes(data.codes);
      setShowing(true);
    },
  });
  const left = exist ? status?.remaining : undefined;
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-2 border-t pt-4">
      <KeySquareIcon aria-hidden className="size-5 shrink-0 text-muted-foreground" />
      <div className="min-w-0 flex-1 basis-40">
        <p className="flex flex-wrap items-center gap-2 font-medium text-sm">
          Recovery codes
          {left !== undefined && left <= fewCodes && <Badge tone="warning">{left} left</Badge>}
        </p>
        <p className="text-muted-foreground text-sm">
          {exist
            ? left === undefined
              ? "Each code works once in place of the app."
              : `${left} of ${status?.total} codes are unused. Each works once in place of the app.`
            : "Create codes to log in with if you lose your phone."}
        </p>
      </div>
      <SubmitButton
        type="button"
        variant="secondary"
        size="small"
        busy={create.isPending}
        busyLabel="Creating..."
        disabled={create.isPending}
        onClick={() => (exist ? setReplacing(true) : create.mutate(undefined))}
      >
        {exist ? "Create new codes" : "Create recovery codes"}
      </SubmitButton>
      <ConfirmDialog
        open={replacing}
        onOpenChange={setReplacing}
        title="Replace Recovery Codes"
        description="Your present codes stop working at once."
        confirmLabel="Create new codes"
        busyLabel="Creating..."
        onConfirm={() => create.mutateAsync(undefined)}
      />
      <CodesDialog open={showing} onOpenChange={setShowing} codes={codes} />
    </div>
  );
}
