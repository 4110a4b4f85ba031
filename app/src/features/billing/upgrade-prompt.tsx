import { useQuery } from "@tanstack/react-query";
import { CheckIcon } from "lucide-react";
import { useEffect, useState } from "react";
import { lazyDialog } from "@/components/lazy-part";
import { Button } from "@/components/ui/button";
import { Dialog, DialogClose, DialogContent } from "@/components/ui/dialog";
import { DialogBody, DialogFooter } from "@/components/ui/dialog-panel";
import { useTableInvalidation } from "@/hooks/use-table-invalidation";
import { safeUrl } from "@/lib/safe-url";
import { defaultPrompt, promptDelayMs, promptKey, promptQuery } from "./prompt-query";

// Few press on.
const ChoosePlanDialog = lazyDialog(() =>
  import("./choose-plan-dialog").then(({ ChoosePlanDialog }) => ChoosePlanDialog),
);

const dismissedKey = "basalt.prompt-dismissed";

/** Asks, after a while, whether a person without a subscription wants one. Once in each tab, and never into their typing. */
export function UpgradePrompt() {
  const { data, isPending } = useQuery(promptQuery());
  useTableInvalidation([{ table: "subscription_prompt", queryKey: promptKey }]);
  const prompt = data ?? defaultPrompt;
  const [shown, setShown] = useState<"nothing" | "prompt" | "plans">("nothing");
  const delayMs = isPending ? null : promptDelayMs(prompt);

  useEffect(() => {
    if (delayMs === null || sessionStorage.getItem(dismissedKey)) return;
    let timer = setTimeout(ask, delayMs);
    function ask() {
      if (isAtWork()) timer = setTimeout(ask, 2000);
      else setShown("prompt");
    }
    return () => clearTimeout(timer);
  }, [delayMs]);

  function close() {
    sessionStorage.setItem(dismissedKey, "1");
    setShown("nothing");
  }

  const image = safeUrl(prompt.image_url);
  return (
    <>
      <Dialog open={shown === "prompt"} onOpenChange={(open) => open || close()}>
        <DialogContent title={prompt.title} description={prompt.subtitle}>
          <DialogBody className="grid content-start gap-5">
            {image && <img src={image} alt="" className="max-h-48 w-full rounded-lg object-contain" />}
            <ul className="grid gap-3 text-sm">
              {prompt.features.map((feature) => (
                <li key={feature} className="flex gap-3 [overflow-wrap:anywhere]">
                  <CheckIcon className="mt-0.5 size-4 shrink-0 text-primary" strokeWidth={2.5} aria-hidden />
                  <span className="min-w-0">{feature}</span>
                </li>
              ))}
            </ul>
          </DialogBody>
          <DialogFooter>
            <DialogClose asChild>
              <Button variant="secondary">{prompt.secondary_button_text}</Button>
            </DialogClose>
            <Button
              onClick={() => {
                close();
                setShown("plans");
              }}
            >
              {prompt.primary_button_text}
            </Button>
          </DialogFooter>
        </DialogContent>
      </Dialog>
      <ChoosePlanDialog
        open={shown === "plans"}
        onOpenChange={(open) => open || setShown("nothing")}
        signedIn
        currentPlanName={null}
      />
    </>
  );
}

/** Another dialog or menu is open, or something is being typed. */
function isAtWork() {
  const { activeElement } = document;
  const typing =
    activeElement instanceof HTMLElement &&
    (activeElement.isContentEditable || activeElement.matches("input, textarea, select"));
  return typing || document.querySelector('[role="dialog"], [role="alertdialog"], [role="menu"]') !== null;
}
