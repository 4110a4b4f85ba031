import { useEffect, useRef } from "react";
import { useNavigate } from "react-router";
import { Spinner } from "@/components/ui/spinner";
import { startCheckout } from "@/features/billing/calls";
import { clearPendingPriceId, pendingPriceId } from "@/features/billing/pending-plan";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";

/** After signing up with a plan in mind: on to the card provider, or to the dashboard when that fails. */
export function PendingCheckout() {
  const navigate = useNavigate();
  const started = useRef(false);

  useEffect(() => {
    if (started.current) return;
    started.current = true;
    const priceId = pendingPriceId();
    clearPendingPriceId();
    if (!priceId) return void navigate("/dashboard", { replace: true });
    startCheckout(priceId).catch((error: unknown) => {
      toast.error("Checkout Error", { description: messageOf(error, "An error occurred during checkout.") });
      void navigate("/dashboard", { replace: true });
    });
  }, [navigate]);

  return (
    <div role="status" className="grid min-h-[50dvh] place-content-center justify-items-center gap-5 text-center">
      <Spinner className="size-7 text-primary" />
      <p className="text-heading">Setting up your subscription</p>
    </div>
  );
}
