import { useEffect, useState } from "react";
import { useNavigate } from "react-router";
import { messageOf } from "@/lib/errors";
import { clearPendingPriceId, keepPendingPriceId } from "./pending-plan";
import type { PlanForSale } from "./queries";

interface ChoosePlan {
  signedIn: boolean;
  /** A visitor was sent to make an account first. */
  onSentToRegister?: () => void;
  onError: (message: string) => void;
}

/** What a press on a plan's button does: a visitor makes an account first, a person goes to pay. */
export function useChoosePlan({ signedIn, onSentToRegister, onError }: ChoosePlan) {
  const navigate = useNavigate();
  const [busyPriceId, setBusyPriceId] = useState<string | null>(null);

  async function choose({ stripe_price_id: priceId, isFree }: PlanForSale) {
    // There is nothing to pay.
    if (isFree) {
      clearPendingPriceId();
      onSentToRegister?.();
      return navigate(signedIn ? "/dashboard" : "/register");
    }
    if (!signedIn) {
      keepPendingPriceId(priceId);
      onSentToRegister?.();
      return navigate("/register");
    }
    setBusyPriceId(priceId);
    try {
      clearPendingPriceId();
      // The landing page does without the client until it is needed.
      const { startCheckout } = await import("./calls");
      // The browser is on its way: the buttons stay as they are until it is gone.
      await startCheckout(priceId);
    } catch (error) {
      setBusyPriceId(null);
      onError(messageOf(error, "An error occurred during checkout."));
    }
  }

  // The back button may bring the page back as it was left, with its buttons waiting.
  useEffect(() => {
    const wake = () => setBusyPriceId(null);
    window.addEventListener("pageshow", wake);
    return () => window.removeEventListener("pageshow", wake);
  }, []);

  return { busyPriceId, choose };
}
