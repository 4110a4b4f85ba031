import { useQuery } from "@tanstack/react-query";
import { ErrorState, PageState } from "@/components/page-state";
import { Dialog, DialogContent } from "@/components/ui/dialog";
import { DialogBody } from "@/components/ui/dialog-panel";
import { messageOf } from "@/lib/errors";
import { PlanCards } from "./plan-cards";
import { PlanCardsSkeleton } from "./plan-cards-skeleton";
import { plansForSaleQuery } from "./queries";
import { useChoosePlan } from "./use-choose-plan";

interface ChoosePlanDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  signedIn: boolean;
  currentPlanName: string | null;
}

export function ChoosePlanDialog({ open, onOpenChange, signedIn, currentPlanName }: ChoosePlanDialogProps) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent
        size="widest"
        title="Choose Your Plan"
        description="You can change or cancel it whenever you like."
      >
        <DialogBody>
          <Plans signedIn={signedIn} currentPlanName={currentPlanName} onDone={() => onOpenChange(false)} />
        </DialogBody>
      </DialogContent>
    </Dialog>
  );
}

interface PlansProps {
  signedIn: boolean;
  currentPlanName: string | null;
  onDone: () => void;
}

function Plans({ signedIn, currentPlanName, onDone }: PlansProps) {
  const plans = useQuery(plansForSaleQuery());
  const { busyPriceId, choose } = useChoosePlan({
    signedIn,
    onSentToRegister: onDone,
    // The browser's own: so the specification has it for this dialog.
    onError: (message) => window.alert(message),
  });

  if (plans.isPending) return <PlanCardsSkeleton />;
  if (!plans.data) {
    return (
      <ErrorState
        size="small"
        title="The plans could not be loaded"
        description={messageOf(plans.error)}
        retrying={plans.isFetching}
        onRetry={() => void plans.refetch()}
      />
    );
  }
  if (plans.data.length === 0) {
    return <PageState size="small" title="No plans yet" description="No subscription plans available at the moment." />;
  }
  return (
    <PlanCards
      plans={plans.data}
      chooseLabel={signedIn ? "Subscribe" : "Sign Up & Subscribe"}
      currentPlanName={currentPlanName}
      busyPriceId={busyPriceId}
      onChoose={(plan) => void choose(plan)}
    />
  );
}
