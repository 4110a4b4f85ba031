import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { lazyDialog } from "@/components/lazy-part";
import { useTableInvalidation } from "@/hooks/use-table-invalidation";
import { defaultPrompt, promptDelayMs, promptKey, promptQuery } from "./prompt-query";

// The prompt appears after a delay, on few visits; few people press on.
const PromptDialog = lazyDialog(() => import("./prompt-dialog").then(({ PromptDialog }) => PromptDialog));
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

  return (
    <>
      <PromptDialog
        open={shown === "prompt"}
        onOpenChange={(open) => open || close()}
        prompt={prompt}
        onViewPlans={() => {
          close();
          setShown("plans");
        }}
      />
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
